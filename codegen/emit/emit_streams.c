/* emit_streams.c: emits the statements of a region in order, and the ops that
 * say when they run: early, start, wait, record, barrier.
 *
 * An all-gather that is prefetched one iteration early is started twice: before
 * the loop for the first layer, inside the loop for the next layer. Its buffer
 * and its event alternate between two slots:
 *
 *     {
 *         const int64_t layer = 0;
 *         parc_all_gather(rt, 1, AXIS_dp, 9, (ParcPart[]){ … layer % 2 … });
 *         parc_record(rt, PARC_DATA, 4 + layer % 2);
 *     }
 *     for (int64_t layer = 0; layer <= 31; layer++) {
 *         if (layer + 1 <= 31) {
 *             const int64_t next = layer + 1;
 *             parc_wait(rt, PARC_DATA, 9); // after: read of w1
 *             parc_all_gather(rt, 1, AXIS_dp, 9, (ParcPart[]){ … next % 2 … });
 *             parc_record(rt, PARC_DATA, 4 + next % 2);
 *         }
 *         parc_wait(rt, PARC_COMPUTE, 4 + layer % 2); // after: w1
 *         …
 *
 * In a staged loop, a rank does what its row of the table `pipeline` (model.c) has:
 *
 *     for (int64_t i = 0; parc_action(rt, &pipeline, i, &action); i++)
 *         switch (action.kind) {
 *         case PARC_FORWARD: micro_forward(rt, action.micro); break;
 *         …
 *
 * A side program has no such table: a rank that has several stages runs them one
 * after another, and for each receives, computes and sends, as the actions do.
 */
#include "codegen/emit/emitter.h"
#include "ir/plan/pipeline.h"
#include "ir/analysis/statement.h"

#include <string.h>

/* "4", "4 + layer % 2", "4 + (next + 1) % 2": the number of an event's slot, a
 * function of the iteration of `loop`. */
static const char *slot_text(const Emitter *e, const Op *op, int64_t offset)
{
    Arena *a = e->p->arena;
    const Op *loop = attr_loop(op);
    int64_t number = e->first.events + attr_event(op);
    if (!loop)
        return arena_printf(a, "%lld", (long long)(number + offset));
    const char *iteration = e->loop_name[loop->id];
    if (offset)
        iteration =
            arena_printf(a, "(%s + %lld)", iteration, (long long)offset);
    return arena_printf(a, "%lld + %s %% %lld", (long long)number, iteration,
                        (long long)attr_slots(op));
}

/* "layer == 31": true in the first iteration of the loop around op; `iteration`
 * is its variable. */
static const char *first_iteration(Emitter *e, const Op *op,
                                   const char *iteration)
{
    return arena_printf(e->p->arena, "%s == %s", iteration,
                        loop_iteration(e, op_loop(op), 0));
}

static void emit_wait_for(Emitter *e, int stream, const char *slot,
                          const char *after)
{
    Arena *a = e->p->arena;
    const char *call = arena_printf(a, "parc_wait(rt, %s, %s);",
                                    c_stream_name(stream), slot);
    const char *why = arena_printf(a, "/* after: %s */", c_comment(a, after));
    bool fits = e->o->indent + (int)(strlen(call) + strlen(why)) < OUT_WIDTH;
    out_line(e->o, "%s%s%s", fits ? call : why, fits ? " " : "", fits ? why : "");
    if (!fits)
        out_line(e->o, "%s", call);
}

static void emit_wait(Emitter *e, const Op *op, const char *iteration)
{
    Arena *a = e->p->arena;
    const char *slot = slot_text(e, op, attr_offset(op));
    if (!attr_first(op)) {
        emit_wait_for(e, op->stream, slot, attr_why(op));
        return;
    }
    out_line(e->o, "/* after: %s */", c_comment(a, attr_why(op)));
    out_line(e->o, "if (%s)", first_iteration(e, op, iteration));
    out_line(e->o, "    parc_wait(rt, %s, %s);", c_stream_name(op->stream),
             slot);
}

static void emit_record(Emitter *e, const Op *op)
{
    out_line(e->o, "parc_record(rt, %s, %s);", c_stream_name(op->stream),
             slot_text(e, op, 0));
}

/* "12 + micro % 5", "12 + (micro + 5 - buffers_1[stage]) % 5": the slot of the event
 * of the microbatch, or of one before it. */
static const char *action_slot(Emitter *e, const Op *op)
{
    Arena *a = e->p->arena;
    const char *micro = e->loop_name[op_loop(op)->id];
    int64_t slots = attr_slots(op);
    bool awaits = op->kind == OP_await;
    int64_t number = e->first.events + attr_event(op);
    if (awaits && attr_rotation(op)) {
        e->uses_stage = true;
        micro = arena_printf(a, "(%s + %lld - %sbuffers_%lld[stage])", micro, (long long)slots,
                             emitter_own(e), (long long)attr_rotation(op));
    } else if (awaits && attr_back(op)) {
        micro = arena_printf(a, "(%s + %lld)", micro,
                             (long long)(slots - attr_back(op)));
    }
    const char *first = arena_printf(a, "%lld", (long long)number);
    if (e->in_stage) { /* those of the rank's stages follow one another */
        e->uses_stage = true;
        first = arena_printf(a, "%s + stage / %d * %lld", first,
                             pipeline_ranks(e->p), (long long)slots);
    }
    return arena_printf(a, "%s + %s %% %lld", first, micro, (long long)slots);
}

/* A side program runs the stages one after another: its transfers join too. */
static void emit_join(Emitter *e, const Op *op)
{
    out_line(e->o, "parc_join(rt, %s);",
             attr_transfers(op) || e->repeat ? "true" : "false");
}

/* A statement's barriers follow its mark, so that its time includes theirs. */
static void emit_barrier(Emitter *e, const Op *op, const char *iteration)
{
    Arena *a = e->p->arena;
    const Op *before = attr_op(op), *by = attr_collective(op);
    bool first = attr_first(op);
    if (e->headed != before && !gather_in_place(before)) {
        emit_head(e, before);
        e->headed = before;
    }
    out_line(e->o, "/* barrier: %s */", c_comment(a, attr_why(op)));
    if (first)
        out_line(e->o, "if (%s)", first_iteration(e, op, iteration));
    out_line(e->o, "%sparc_synchronize(rt, %d, %s);", first ? "    " : "",
             e->collective[e->collective_of[by->id]].id,
             axes_expression(e, attr_axes(op)));
}

/* Emits a blank line unless the last line is blank. */
static void blank_line(Out *o)
{
    if (o->size < 2 || strncmp(o->text + o->size - 2, "\n\n", 2) != 0)
        out_line(o, "");
}

static void emit_staged_loop(Emitter *e, const Op *loop);

/* A loop op is a for loop. */
static void emit_loop(Emitter *e, const Op *op)
{
    const char *index = e->loop_name[op->id];
    blank_line(e->o);
    if (op->staged && !e->repeat) {
        emit_staged_loop(e, op);
        return;
    }
    int before = stage_begin(e, emitted_stage(e, op));
    const char *first = loop_first(e, op), *last = loop_last(e, op);
    if (attr_reverse(op))
        out_open(e->o, "for (int64_t %s = %s; %s >= %s; %s--) {", index, last,
                 index, first, index);
    else
        out_open(e->o, "for (int64_t %s = %s; %s <= %s; %s++) {", index, first,
                 index, last, index);
    emit_region(e, op->body, NULL);
    out_close(e->o);
    stage_end(e, before);
    out_line(e->o, "");
}

static void emit_statement(Emitter *e, const Op *op)
{
    if (e->headed != op)
        emit_head(e, op);
    e->headed = NULL;
    emit_body(e, op);
}

/* ---- staged loops -------------------------------------------------------- */

/* What the actions of a rank are: ParcActionKind. */
static const struct {
    Moment moment;
    const char *kind, *function, *meaning;
} actions[] = {
    {MOMENT_FORWARD, "FORWARD", "micro_forward",
     "The forward pass of a microbatch on the rank's stage."},
    {MOMENT_BACKWARD, "BACKWARD", "micro_backward",
     "The backward pass of a microbatch on the rank's stage."},
    {MOMENT_WEIGHTS, "WEIGHTS", "micro_weights",
     "The gradients of weights of a microbatch."},
    {MOMENT_SEND, "SEND", "micro_send", "To the next stage."},
    {MOMENT_RECEIVE, "RECEIVE", "micro_receive", "From the stage before."},
    {MOMENT_SEND_GRADIENT, "SEND_GRADIENT", "micro_send_gradient",
     "To the stage before."},
    {MOMENT_RECEIVE_GRADIENT, "RECEIVE_GRADIENT", "micro_receive_gradient",
     "From the next stage."},
};

/* Writes the function with the statements of one moment; returns its call. */
static const char *moment_function(Emitter *e, const Op *loop, int action)
{
    Function f;
    function_begin(e, &f);
    e->moments = loop->body;
    e->moment = actions[action].moment;
    e->in_stage = rank_stages(e->p) > 1;
    emit_region(e, loop->body, NULL);
    e->moments = NULL;
    const char *name = function_share(e, &f, actions[action].function,
                          arena_printf(e->p->arena, "ParcRt *rt, int64_t %s",
                                       e->loop_name[loop->id]),
                          actions[action].meaning, e->parts);
    e->in_stage = false;
    bool empty = !strcmp(name, "NULL");
    return empty ? ""
                 : arena_printf(e->p->arena, "%s(rt, action.micro%s); ", name,
                                f.takes_stage ? ", action.stage" : "");
}

/* A staged loop is a loop over the actions of the rank. */
static void emit_staged_loop(Emitter *e, const Op *loop)
{
    int n = (int)(sizeof actions / sizeof *actions);
    const char *call[sizeof actions / sizeof *actions];
    for (int i = 0; i < n; i++)
        call[i] = moment_function(e, loop, i);
    out_line(e->o, "/* The forward and backward passes of all microbatches: the rank's row of "
             "the table. */");
    out_line(e->o, "ParcAction action;");
    out_open(e->o, "for (int64_t i = 0; parc_action(rt, &%spipeline, i, &action); "
             "i++) {", emitter_own(e));
    out_open(e->o, "switch (action.kind) {");
    for (int i = 0; i < n; i++)
        out_line(e->o, "case PARC_%s: %sbreak;", actions[i].kind, call[i]);
    out_close(e->o);
    out_close(e->o);
    out_line(e->o, "");
}

/* ---- statements of other iterations -------------------------------------- */

/* The loop of the ops that an `early` starts. */
static const Op *started_loop(const Op *early)
{
    for (const Op *op = early->body->first; op; op = op->next)
        if (op->kind == OP_start)
            return op_loop(attr_op(op));
    return NULL;
}

static void emit_op(Emitter *e, const Op *op, const char *iteration);

/* Emits the statements of an `early` and the end of their block, which declares
 * its own variables. */
static void emit_block(Emitter *e, const Op *early, const char *iteration)
{
    scope_begin(e);
    for (const Op *op = early->body->first; op; op = op->next)
        if (repeat_has(e->repeat, op))
            emit_op(e, op, iteration);
    scope_end(e);
    out_close(e->o);
}

/* Declares the variable of a loop for iteration `iteration`, outside of it. */
static void declare_iteration(Emitter *e, const Op *loop, int64_t iteration)
{
    out_line(e->o, "const int64_t %s = %s;", e->loop_name[loop->id],
             loop_iteration(e, loop, iteration));
}

/* Emits, before a loop, statements of one of its first iterations. */
static void emit_first(Emitter *e, const Op *early, const char *iteration)
{
    out_open(e->o, "{");
    declare_iteration(e, started_loop(early), attr_iteration(early));
    emit_block(e, early, iteration);
}

/* Emits, inside a loop, statements of a later iteration, if it exists. */
static void emit_ahead(Emitter *e, const Op *early)
{
    const Op *loop = op_loop(early);
    long long distance = attr_distance(early);
    const char *iteration = e->loop_name[loop->id];
    const char *next = e->next_name[loop->id];
    const char *first = stage_first_row(e, loop->cut);
    if (attr_reverse(loop))
        out_open(e->o, "if (%s >= %s%s%lld) {", iteration, first ? first : "",
                 first ? " + " : "", distance);
    else
        out_open(e->o, "if (%s + %lld <= %s) {", iteration, distance,
                 loop_last(e, loop));
    out_line(e->o, "const int64_t %s = %s %c %lld;", next, iteration,
             attr_reverse(loop) ? '-' : '+', distance);
    e->loop_name[loop->id] = next;
    emit_block(e, early, iteration);
    e->loop_name[loop->id] = iteration;
}

/* Emits, in one of the last iterations of a loop, statements that come after
 * the loop. */
static void emit_in_iteration(Emitter *e, const Op *early)
{
    const Op *loop = op_loop(early);
    const char *iteration = e->loop_name[loop->id];
    int64_t remaining = attr_remaining(early);
    int64_t first = attr_iteration(early);
    int64_t layer =
        attr_reverse(loop) ? remaining : loop_trips(loop) - 1 - remaining;
    out_open(e->o, "if (%s == %lld) {", iteration, (long long)layer);
    const Op *started = first >= 0 ? started_loop(early) : NULL;
    const char *name = started ? e->loop_name[started->id] : NULL;
    if (started) { /* `iteration` may have the same name */
        e->loop_name[started->id] = e->next_name[started->id];
        declare_iteration(e, started, first);
    }
    emit_block(e, early, iteration);
    if (started)
        e->loop_name[started->id] = name;
}

static void emit_early(Emitter *e, const Op *early, const char *iteration)
{
    if (attr_remaining(early) >= 0)
        emit_in_iteration(e, early);
    else if (attr_iteration(early) >= 0)
        emit_first(e, early, iteration);
    else
        emit_ahead(e, early);
}

/* ---- regions ------------------------------------------------------------- */

/* `iteration`: the variable of the loop around the op; "" if there is none. */
static void emit_op(Emitter *e, const Op *op, const char *iteration)
{
    switch ((int)op->kind) {
    case OP_early: emit_early(e, op, iteration); return;
    case OP_loop: emit_loop(e, op); return;
    case OP_wait: emit_wait(e, op, iteration); return;
    case OP_record: emit_record(e, op); return;
    case OP_barrier: emit_barrier(e, op, iteration); return;
    case OP_join: emit_join(e, op); return;
    case OP_post:
        out_line(e->o, "parc_record(rt, %s, %s);", c_stream_name(op->stream),
                 action_slot(e, op));
        return;
    case OP_await:
        emit_wait_for(e, op->stream, action_slot(e, op), attr_why(op));
        return;
    }
    const Op *issued = op_issued_at(op);
    int before = stage_begin(e, op->kind == OP_start ? emitted_stage(e, issued)
                                                     : e->at);
    if (issued)
        emit_statement(e, issued);
    stage_end(e, before);
}

/* The first op that only the side program has which is being written, at the
 * end of a region; NULL: none. */
static const Op *own_ops(const Emitter *e, const Region *r)
{
    if (!e->repeat)
        return NULL;
    return r->owner ? e->repeat->own[r->owner->id] : e->repeat->end;
}

/* Whether an op is of some stages only. */
static bool is_of_stages(const Emitter *e, const Op *op)
{
    return op_transfers(op) || emitted_stage(e, op) >= 0 ||
           (op->kind == OP_loop && op->cut);
}

/* The last op of a side program that a rank runs for each of its stages, from the
 * begin of the region on, if it has several; NULL: none. */
static const Op *last_of_stages(const Emitter *e, const Region *r, const Phase *phase)
{
    bool forward = e->repeat || !program_trains(e->p);
    const Op *last = NULL;
    if (rank_stages(e->p) == 1 || !forward || r != pipeline_forward_region(e->p))
        return NULL;
    for (const Op *op = r->first; op; op = op->next)
        if ((!phase || op->phase == *phase) && repeat_has(e->repeat, op) &&
            is_of_stages(e, op))
            last = op;
    return last;
}

static void emit_in_part(Emitter *e, const Op *op, const char *iteration)
{
    parts_at(e, op);
    int before = e->parts ? e->at : stage_begin(e, emitted_stage(e, op));
    emit_op(e, op, iteration);
    if (!e->parts)
        stage_end(e, before);
}

static void emit_join_all(Emitter *e)
{
    parts_at(e, NULL);
    out_line(e->o, "parc_join(rt, true);");
}

/* The actions of a training step begin when their microbatch has been received. A
 * side program receives it between its ops, so it joins the streams there. With one
 * stream, which only sends leave, a rank that runs no actions waits after them. */
static void join_after(Emitter *e, const Op *op)
{
    if (!op_transfers(op))
        return;
    const Op *loop = op_loop(op);
    bool waits = e->p->streams == 1 && op->kind != OP_receive &&
                 (e->repeat || !loop || !loop->staged);
    bool joins = e->p->streams > 1 && op->kind != OP_send && e->repeat &&
                 !e->moments && loop;
    if (waits || joins)
        emit_join_all(e);
}

/* Emits the ops of the region from `from` to `last` (NULL: the end); if Emitter.moments
 * is set, those of the moment. */
static void emit_ops(Emitter *e, const Region *r, const Phase *phase, const Op *from,
                     const Op *last)
{
    const char *iteration = r->owner ? e->loop_name[r->owner->id] : "";
    for (const Op *op = from; op; op = op == last ? NULL : op->next) {
        if ((phase && op->phase != *phase) || !repeat_has(e->repeat, op) ||
            !emits(e, op))
            continue;
        emit_in_part(e, op, iteration);
        join_after(e, op);
    }
}

/* Emits the ops up to `last` for each stage of the rank: what it receives, what it
 * computes, what it sends. */
static void emit_each_stage(Emitter *e, const Region *r, const Phase *phase,
                            const Op *last)
{
    static const Moment moments[] = {MOMENT_RECEIVE, MOMENT_FORWARD, MOMENT_SEND};
    bool begun = stages_begin(e);
    e->moments = r;
    for (int i = 0; i < 3; i++) {
        e->moment = moments[i];
        if (e->p->streams > 1)
            emit_join_all(e);
        emit_ops(e, r, phase, r->first, last);
    }
    parts_at(e, NULL);
    e->moments = NULL;
    stages_end(e, begun);
}

void emit_region(Emitter *e, const Region *r, const Phase *phase)
{
    const char *iteration = r->owner ? e->loop_name[r->owner->id] : "";
    const Op *last = last_of_stages(e, r, phase);
    parts_begin(e, r->owner);
    if (last)
        emit_each_stage(e, r, phase, last);
    emit_ops(e, r, phase, last ? last->next : r->first, NULL);
    for (const Op *op = own_ops(e, r); op; op = op->next) {
        parts_at(e, NULL);
        emit_op(e, op, iteration);
    }
    parts_end(e);
}
