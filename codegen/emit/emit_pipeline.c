/* emit_pipeline.c: emits what a rank does for its stage of a pipeline only.
 *
 * The functions are those of all ranks. In them
 *
 *     if (stage == 0)
 *         forward_tok_embeddings(rt);
 *
 * is a part that one stage runs, and a loop over layers that is cut into stages
 * has the iterations of the rank's own stage, numbered from 0. It begins with what
 * the stage before sends, and its end is sent to the next one:
 *
 *     if (stage > 0)
 *         parc_receive(rt, 3, AXIS_pp, stage - 1, AT_x, 4096);
 *     for (int64_t layer = 0; layer <= 15; layer++) {
 *         …
 *     }
 *     if (stage < 1)
 *         parc_send(rt, 4, AXIS_pp, stage + 1, AT_x, 4096);
 *
 * If a rank has several stages, `stage` is a parameter, and the loop begins with the
 * stage's row among the layers of the rank, row_1[stage]. Code that belongs to no stage,
 * such as the optimizer's, tests the rank's coordinate.
 */
#include "codegen/emit/emitter.h"
#include "ir/plan/pipeline.h"

/* ---- one stage ----------------------------------------------------------- */

/* Whether a rank has several stages and the code being written belongs to none of them:
 * it tests the rank's coordinate. */
static bool is_outside(const Emitter *e)
{
    return !e->in_stage && rank_stages(e->p) > 1;
}

int emitted_stage(const Emitter *e, const Op *op)
{
    return e->in_stage && e->once[op->id] ? FIRST_STAGES : op_stage(e->p, op);
}

/* "stage == 2", or "coordinate == 0". */
static const char *stage_test(Emitter *e, int stage)
{
    if (stage == FIRST_STAGES) {
        e->uses_stage = true;
        return arena_printf(e->p->arena, "stage < %d", pipeline_ranks(e->p));
    }
    *(is_outside(e) ? &e->uses_coordinate : &e->uses_stage) = true;
    return is_outside(e) ? arena_printf(e->p->arena, "coordinate == %d",
                                        coordinate_of(e->p, stage))
                         : arena_printf(e->p->arena, "stage == %d", stage);
}

/* The coordinate of the stage that the C expression is. */
static const char *coordinate_text(const Emitter *e, const char *stage)
{
    return rank_stages(e->p) == 1
               ? stage
               : arena_printf(e->p->arena, "(%s) %% %d", stage, pipeline_ranks(e->p));
}

int stage_begin(Emitter *e, int stage)
{
    int before = e->at;
    if (stage < 0 || stage == before)
        return before;
    e->at = stage;
    out_open(e->o, "if (%s) {", stage_test(e, stage));
    scope_begin(e);
    return before;
}

void stage_end(Emitter *e, int before)
{
    if (e->at == before)
        return;
    e->at = before;
    scope_end(e);
    out_close(e->o);
}

bool stages_begin(Emitter *e)
{
    if (!is_outside(e))
        return false;
    e->uses_coordinate = e->in_stage = true;
    out_open(e->o, "for (int64_t stage = coordinate; stage < %d; stage += %d) {",
             pipeline_stage_count(e->p), pipeline_ranks(e->p));
    scope_begin(e);
    return true;
}

void stages_end(Emitter *e, bool begun)
{
    if (!begun)
        return;
    e->in_stage = false;
    scope_end(e);
    out_close(e->o);
}

/* ---- loops --------------------------------------------------------------- */

/* The iterations of every stage, or where no stage runs of every rank, if all have
 * the same number; else -1. */
static int64_t equal_iterations(const Emitter *e, int cut)
{
    const Program *p = e->p;
    bool of_rank = is_outside(e);
    int n = of_rank ? pipeline_ranks(p) : pipeline_stage_count(p);
    int64_t first = -1;
    for (int k = 0; k < n; k++) {
        int64_t rows = of_rank ? rank_rows(p, cut, k) : stage_rows(p, cut, k);
        if (k > 0 && rows != first)
            return -1;
        first = rows;
    }
    return first;
}

/* The iterations of the stage, or of the rank. */
static const char *own_iterations(Emitter *e, int cut)
{
    Arena *a = e->p->arena;
    int64_t equal = equal_iterations(e, cut);
    if (equal >= 0)
        return arena_printf(a, "%lld", (long long)equal);
    if (is_outside(e)) {
        e->uses_coordinate = true;
        return arena_printf(a, "row_%d[%d + coordinate]", cut,
                            pipeline_stage_count(e->p));
    }
    e->uses_stage = true;
    return arena_printf(a, "(cut_%d[stage + 1] - cut_%d[stage])", cut, cut);
}

const char *own_rows_of(Emitter *e, const Type *t, int64_t n)
{
    Arena *a = e->p->arena;
    int cut = type_cut(t);
    if (!cut || equal_iterations(e, cut) >= 0)
        return arena_printf(a, "%lld", (long long)n);
    int64_t row = n / cut_most(&e->p->mesh, cut, pipeline_axis(e->p));
    const char *rows = own_iterations(e, cut);
    return row == 1 ? rows : arena_printf(a, "%s * %lld", rows, (long long)row);
}

/* "31"; of a rank that has several stages "row_1[stage] + 7". */
static const char *from_first(Emitter *e, const Op *loop, const char *iteration)
{
    const char *row = stage_first_row(e, loop->cut);
    return !row                ? iteration
           : *iteration == '0' ? row
                               : arena_printf(e->p->arena, "%s + %s", row, iteration);
}

const char *loop_first(Emitter *e, const Op *loop)
{
    return from_first(e, loop, "0");
}

/* The number of the last iteration, counted from the first one. */
static const char *last_text(Emitter *e, const Op *loop)
{
    Arena *a = e->p->arena;
    int64_t n = loop->cut ? equal_iterations(e, loop->cut) : loop_trips(loop);
    if (loop->rounds)
        return arena_printf(a, "parc_rounds(rt, %lld) - 1", (long long)n);
    if (n >= 0)
        return arena_printf(a, "%lld", (long long)(n - 1));
    return arena_printf(a, "%s - 1", own_iterations(e, loop->cut));
}

const char *loop_last(Emitter *e, const Op *loop)
{
    return from_first(e, loop, last_text(e, loop));
}

const char *loop_iteration(Emitter *e, const Op *loop, int64_t iteration)
{
    Arena *a = e->p->arena;
    int64_t n = loop->cut      ? equal_iterations(e, loop->cut)
                : loop->rounds ? -1
                               : loop_trips(loop);
    if (attr_reverse(loop) && n < 0)
        return from_first(e, loop, arena_printf(a, "%s - %lld", last_text(e, loop),
                                                (long long)iteration));
    return from_first(e, loop,
                      arena_printf(a, "%lld", (long long)(attr_reverse(loop)
                                                              ? n - 1 - iteration
                                                              : iteration)));
}

/* Whether a tensor that no other stage has does not stay where it is. */
static bool moves_within_rank(const Op *op)
{
    for (int i = 0; i < op->nargs; i++)
        if (!address_equal(value_address(op->arg[i]), value_address(op->out[i])))
            return true;
    return false;
}

/* At the ends of a loop, a transfer is a part of the forward or backward pass: it
 * moves nothing between stages. */
bool emits(const Emitter *e, const Op *op)
{
    if (!e->moments || op_loop(op) != e->moments->owner)
        return true;
    Moment work = op->phase == PH_BACKWARD ? MOMENT_BACKWARD : MOMENT_FORWARD;
    return staged_in_moment(e->moments->owner, op, e->moment) ||
           (op_transfers(op) && op->kind != OP_move && e->moment == work &&
            moves_within_rank(op));
}

/* ---- transfers ----------------------------------------------------------- */

/* Moves tensor i of an op within the rank, unless it stays where it is. */
static void keep(Emitter *e, const Op *op, int i)
{
    if (address_equal(value_address(op->arg[i]), value_address(op->out[i])))
        return;
    e->uses_arena = true;
    out_code(e->o, "parc_move(rt, A + %s, A + %s, %lld);",
             value_offset(e, op->out[i]), value_offset(e, op->arg[i]),
             (long long)type_local_bytes(&op->out[i]->type, &e->p->mesh));
}

/* Sends operands to, or receives results from, the stage that the C expression
 * `other` is. */
static void exchange(Emitter *e, const Op *op, bool send, const char *other)
{
    int axis = pipeline_axis(e->p);
    for (int i = 0; i < op->nargs; i++)
        out_code(e->o, "parc_%s(rt, %d, %s, %s, %s, %lld);",
                 send ? "send" : "receive",
                 e->collective[e->collective_of[op->id]].id,
                 axes_expression(e, 1u << axis), other,
                 value_offset(e, send ? op->arg[i] : op->out[i]),
                 (long long)type_local_bytes(&op->arg[i]->type, &e->p->mesh));
}

static void exchange_if(Emitter *e, const Op *op, bool send,
                        const char *condition, const char *other)
{
    out_open(e->o, "if (%s) {", condition);
    exchange(e, op, send, other);
    out_close(e->o);
}

static void keep_on(Emitter *e, const Op *op, int stage)
{
    if (!moves_within_rank(op))
        return;
    int before = stage_begin(e, stage);
    for (int i = 0; i < op->nargs; i++)
        keep(e, op, i);
    stage_end(e, before);
}

/* The stages that run iterations of a loop with the cut; returns their number. */
static int stages_of_cut(const Emitter *e, int cut, int *stage)
{
    const StageCut *c = &e->p->mesh.cut[cut - 1];
    int n = 0;
    for (int s = 0; s < c->nstages; s++)
        if (c->begin[s + 1] > c->begin[s])
            stage[n++] = s;
    return n;
}

/* Transfers of a loop between each of its stages and the next. */
static void between_stages(Emitter *e, const Op *op)
{
    Arena *a = e->p->arena;
    bool reverse = attr_reverse(op), send = op->kind == OP_send;
    int *stage = NEW_ARRAY(a, int, e->p->mesh.cut[op->cut - 1].nstages);
    int n = stages_of_cut(e, op->cut, stage), first = stage[0];
    int last = stage[n - 1];
    bool work = e->moment == MOMENT_FORWARD || e->moment == MOMENT_BACKWARD;
    if (!e->moments || work)
        keep_on(e, op, reverse == send ? first : last);
    if (n == 1 || (e->moments && work))
        return;
    bool up = reverse == send; /* the stage whose number is lower takes part */
    e->uses_stage = true;
    if (last - first + 1 == n) {
        const char *end = arena_printf(a, up ? "stage > %d" : "stage < %d",
                                       up ? first : last);
        int other = up ? last : first, most = pipeline_stage_count(e->p) - 1;
        if (other != (up ? most : 0))
            end = arena_printf(a, up ? "%s && stage <= %d" : "%s && stage >= %d",
                               end, other);
        exchange_if(e, op, send, end,
                    coordinate_text(e, up ? "stage - 1" : "stage + 1"));
        return;
    }
    for (int i = 0; i + 1 < n; i++) {
        int here = stage[up ? i + 1 : i], there = stage[up ? i : i + 1];
        exchange_if(e, op, send, stage_test(e, here),
                    arena_printf(a, "%d", coordinate_of(e->p, there)));
    }
}

void emit_hand_over(Emitter *e, const Op *op)
{
    Arena *a = e->p->arena;
    if (op->kind != OP_move) {
        between_stages(e, op);
        return;
    }
    int from = value_stage(e->p, op->arg[0]), to = value_stage(e->p, op->out[0]);
    int sender = coordinate_of(e->p, from), receiver = coordinate_of(e->p, to);
    if (from < 0 || sender == receiver) {
        int before = stage_begin(e, from < 0 ? e->at : to);
        for (int i = 0; i < op->nargs; i++)
            keep(e, op, i);
        stage_end(e, before);
        return;
    }
    if (!e->moments || moment_sends(op, e->moment))
        exchange_if(e, op, true, stage_test(e, from),
                    arena_printf(a, "%d", receiver));
    if (!e->moments || moment_receives(op, e->moment))
        exchange_if(e, op, false, stage_test(e, to),
                    arena_printf(a, "%d", sender));
}

void emit_stage_layers(Emitter *e, const Op *op)
{
    const Type *to = &op->out[0]->type;
    int cut = type_cut(to);
    int64_t row = type_local_bytes(to, &e->p->mesh) /
                  cut_most(&e->p->mesh, cut, pipeline_axis(e->p));
    bool begun = stages_begin(e);
    const char *first = op->out[0]->address->rotation ? NULL : stage_first_row(e, cut);
    e->uses_arena = e->uses_stage = true;
    out_code(e->o, "parc_move(rt, A + %s%s, A + %s + cut_%d[stage] * %lld, "
             "%s * %lld);", value_offset(e, op->out[0]),
             !first ? "" : arena_printf(e->p->arena, " + %s * %lld", first,
                                        (long long)row),
             value_offset(e, op->arg[0]), cut, (long long)row,
             own_iterations(e, cut), (long long)row);
    stages_end(e, begun);
}
