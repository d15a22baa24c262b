/* forward_slice.c: makes a program of the statements of another program that
 * some of its values depend on.
 *
 * A statement is kept as a whole, with results that only the backward pass
 * reads: its text must not change. For the same reason these are kept too
 *
 *   - of a loop over layers, all ops and results;
 *   - copies of kept values, which save them for the backward pass;
 *   - of the schedule: starts of kept ops; records after, and waits and barriers
 *     before kept statements; waits of others on which a later kept statement of the
 *     stream relies, and their records; of a staged loop what orders its forward pass.
 *
 * In a loop that runs the backward pass too (over microbatches or chunks), only
 * the ops and carries are kept on which the values depend.
 *
 *   %g, %l = loop{n=4} … {            %l = loop{n=4} … {
 *     carry %dw = %zero                 carry %sum = %zero.2
 *     carry %sum = %zero.2       →      %y = einsum …
 *     %y = einsum …                     %loss = add %sum, …
 *     %loss = add %sum, …               yield %loss
 *     %dw.2 = add %dw, …              }
 *     yield %dw.2, %loss
 *   }
 */
#include "ir/analysis/dead.h"
#include "passes/forward/forward.h"
#include "passes/sync/simulate.h"
#include "passes/sync/sync.h"

typedef struct Slice {
    Program *p;    /* a copy, which becomes the slice */
    IrMarks marks; /* partial: a loop that runs the backward pass too */
    bool *awaited; /* by event slot: a kept wait of the region, or of a loop in it, has it */
} Slice;

/* Whether a loop has ops of the init and forward phases only. */
static bool is_forward_only(const Op *loop)
{
    bool only = true;
    for_ops(op, loop->body)
        only &= op->phase <= PH_FORWARD;
    return only;
}

/* ---- copies -------------------------------------------------------------- */

/* Keeps the copies of kept values in a region, before its last kept op: what
 * reads them is not kept. */
static void keep_copies(Slice *s, Region *r)
{
    Op *last = r->last;
    while (last && !s->marks.op[last->id])
        last = last->prev;
    for (Op *op = r->first; op && op != last; op = op->next) {
        if (op->kind == OP_copy && op->phase <= PH_FORWARD &&
            s->marks.value[op->arg[0]->id])
            ir_mark_op(&s->marks, op);
        if (op->kind == OP_loop && s->marks.op[op->id])
            keep_copies(s, op->body);
    }
}

/* ---- the schedule -------------------------------------------------------- */

/* The op that issues a statement here, which `op` may be; else NULL. */
static const Op *issued_by(const Op *op)
{
    if (op->kind == OP_start)
        return attr_op(op);
    return op_is_schedule(op->kind) && op->kind != OP_early ? NULL : op;
}

/* The statement that a record follows. */
static const Op *statement_before(const Op *record)
{
    const Op *op = record->prev, *found = NULL;
    for (; op && !found; op = op->prev)
        found = issued_by(op);
    return found;
}

static bool is_kept(const Slice *s, const Op *op)
{
    return !op || s->marks.op[op->id];
}

/* Whether a kept statement follows in the region that relies on the wait: the next one, or a
 * later one of the wait's stream. A wait at the end of a region, which no statement follows, is
 * for what comes after the region. */
static bool is_waited_for(const Slice *s, const Op *wait)
{
    const Op *next = NULL;
    for (const Op *op = wait->next; op; op = op->next) {
        const Op *issued = issued_by(op);
        next = next ? next : issued;
        if (issued && is_kept(s, issued) && (issued == next || issued->stream == wait->stream))
            return true;
    }
    return !next;
}

static void keep_schedule(Slice *s, Region *r)
{
    for (Op *op = r->first; op; op = op->next) {
        bool *kept = &s->marks.op[op->id];
        if (op->kind == OP_loop && *kept)
            keep_schedule(s, op->body);
        if (op->kind == OP_start)
            *kept = s->marks.op[attr_op(op)->id];
        if (op->kind == OP_early) {
            keep_schedule(s, op->body);
            for (const Op *in = op->body->first; in; in = in->next)
                *kept |= s->marks.op[in->id];
        }
        if (op->kind == OP_barrier)
            *kept = s->marks.op[attr_op(op)->id] &&
                    s->marks.op[attr_collective(op)->id];
    }
    for (Op *op = r->first; op; op = op->next) {
        bool orders = op->kind == OP_join || op->kind == OP_post ||
                      op->kind == OP_await;
        s->marks.op[op->id] |=
            orders && op->phase <= PH_FORWARD && s->p->streams > 1;
    }
    for (Op *op = r->first; op; op = op->next)
        if (op->kind == OP_wait) {
            s->marks.op[op->id] = is_kept(s, attr_loop(op)) && is_waited_for(s, op);
            s->awaited[attr_event(op)] |= s->marks.op[op->id];
        }
    for (Op *op = r->first; op; op = op->next)
        if (op->kind == OP_record)
            s->marks.op[op->id] = is_kept(s, attr_loop(op)) &&
                                  (is_kept(s, statement_before(op)) ||
                                   s->awaited[attr_event(op)]);
}

/* ---- joins --------------------------------------------------------------- */

/* Joins of streams. In the training step, what follows the forward pass makes
 * the streams wait. */
typedef struct Joins {
    Slice *s;
    bool used[STREAMS];    /* the slice has statements on the stream */
    bool *recorded;        /* by event slot: a kept record has it */
    int nslots;            /* of the training step */
    bool failed;           /* it has too few events */
} Joins;

static void add_event(Joins *j, Region *r, int from, int to)
{
    int event = 0;
    while (event < j->nslots && j->recorded[event])
        event++;
    if (event == j->nslots) {
        j->failed = true;
        return;
    }
    j->recorded[event] = true;
    Build b = {.p = j->s->p, .region = r, .phase = PH_FORWARD, .path = ""};
    Attr record[MAX_ATTRS] = {{.i = event}, {.i = 1}, {.o = NULL}};
    ir_op_typed(&b, OP_record, 0, NULL, record, 0, NULL, NULL)->stream = from;
    Attr wait[MAX_ATTRS] = {{.i = event}, {.i = 1}, {.i = 0}, {.o = NULL},
                            {.i = false}, {.s = "the end"}};
    ir_op_typed(&b, OP_wait, 0, NULL, wait, 0, NULL, NULL)->stream = to;
}

/* Lets compute wait for the other streams at the end of a region; in a loop
 * also the other streams for compute, before the next iteration. */
static void join_streams(Joins *j, Region *r)
{
    for (int k = 1; k < STREAMS; k++) {
        if (!j->used[k])
            continue;
        add_event(j, r, k, STREAM_COMPUTE);
        if (r->owner)
            add_event(j, r, STREAM_COMPUTE, k);
    }
}

static void join_loops(Joins *j, Region *r)
{
    for (Op *op = r->first; op; op = op->next)
        if (op->kind == OP_loop) {
            join_loops(j, op->body);
            if (j->s->marks.partial[op->id])
                join_streams(j, op->body);
        }
}

/* Adds joins where the program p runs the backward pass. False: p has too few
 * events. */
static bool add_joins(Slice *s, const Program *p)
{
    Joins j = {.s = s, .nslots = program_event_slots(p)};
    j.recorded = NEW_ARRAY(p->arena, bool, j.nslots + 1);
    for_ops(op, s->p->step) {
        if (!op_is_schedule(op->kind)) /* awaits of transfers have another stream */
            j.used[op->stream] = true;
        for (int i = 0; op->kind == OP_record && i < attr_slots(op); i++)
            j.recorded[attr_event(op) + i] = true;
    }
    join_loops(&j, s->p->step);
    join_streams(&j, s->p->step);
    return !j.failed;
}

/* ---- outputs, inputs, parameters ----------------------------------------- */

/* Adds f's ops `output`, at the end of the slice. */
static void add_outputs(Slice *s, const Program *f, Value *const *need)
{
    for (const Op *op = f->step->first; op; op = op->next) {
        if (op->kind != OP_output)
            continue;
        Build b = {.p = s->p, .region = s->p->step, .phase = op->phase,
                   .loc = op->loc, .path = op->path};
        ir_op_typed(&b, OP_output, 1, need++, op->attr, 0, NULL, NULL);
    }
}

/* Lets an op `param` or `input` of the slice name that of f. False: f has no such
 * parameter, or an input of another type. */
static bool take_input(const Slice *s, Program *f, Op *op)
{
    if (op->kind == OP_param) {
        int at = ir_param_index(f, s->p->param.at[attr_param(op)].name);
        if (at < 0)
            return false;
        set_attr_param(op, at);
        f->param.at[at].value = op->out[0];
    } else if (op->kind == OP_input) {
        Input *in = &f->input.at[attr_input(op)];
        in->value = op->out[0];
        return type_same_shape(&in->type, &op->out[0]->type);
    }
    return true;
}

static bool take_inputs(const Slice *s, Program *f)
{
    for (int i = 0; i < f->param.n; i++)
        f->param.at[i].value = NULL;
    for (int i = 0; i < f->input.n; i++)
        f->input.at[i].value = NULL;
    bool fits = true;
    for (Op *op = s->p->step->first; op; op = op->next)
        fits = fits && take_input(s, f, op);
    return fits;
}

/* ---- the slice ----------------------------------------------------------- */

static Program *copy_alone(const Program *p)
{
    Program alone = *p;
    for (int k = 0; k < PURPOSES; k++)
        alone.side[k] = NULL;
    return ir_copy(&alone);
}

static bool is_valid(const Program *slice)
{
    return !ir_verify(slice) && !events_check(slice);
}

bool forward_slice(Program *f, Program *p, Value *const *need, int n)
{
    Slice s = {.p = copy_alone(p)};
    Program *slice = copy_alone(f);
    Value **kept = NEW_ARRAY(p->arena, Value *, n + 1);
    s.marks = ir_marks(s.p);
    s.awaited = NEW_ARRAY(p->arena, bool, program_event_slots(p) + 1);
    for_ops(op, s.p->step)
        s.marks.partial[op->id] = op->kind == OP_loop && !is_forward_only(op);
    for (int i = 0; i < n; i++) {
        kept[i] = (Value *)ir_find_value(s.p->step, need[i]->name);
        ir_mark_value(&s.marks, kept[i]);
    }
    ir_mark_dependences(&s.marks);
    keep_copies(&s, s.p->step);
    ir_mark_dependences(&s.marks);
    keep_schedule(&s, s.p->step);
    ForwardTimes times = forward_times(s.p, s.marks.op);
    ir_keep_marked(&s.marks);
    add_outputs(&s, f, kept);
    forward_memory(s.p, &times, kept, n);
    if (!take_inputs(&s, slice))
        return false;
    slice->step = s.p->step;
    slice->names = s.p->names;
    slice->nvalues = s.p->nvalues;
    slice->nops = s.p->nops;
    slice->memory = s.p->memory;
    slice->training = f->training;
    if (!is_valid(slice)) {
        bool joined = p->streams > 1 && add_joins(&s, p);
        slice->nops = s.p->nops;
        if (!joined || !is_valid(slice))
            return false;
    }
    *f = *slice;
    return true;
}
