/* stages.c: places the values of a step on the stages of a pipeline.
 *
 * requires: STAGE_PARTITIONED; the axis of the clause `pipeline`, on which every
 *           value is Replicate
 * ensures:  the same stage. Parameters, and what is computed from them, are on
 *           one coordinate of the axis, or stacks are cut over it. Loops over
 *           layers have a cut (Mesh.cut) into stages. Explicit moves and sums
 *           connect the coordinates
 *
 * before   %w = param{param="embedding.weight"} : f32[512, 64] forward
 *          %ws = param{param="layers.*.weight"} : f32[4 x 64, 64] forward
 *          %h = embedding %w, %tokens : f32[8, 64] forward
 *          %h.2 = loop{n=4, reverse=false} : f32[8, 64] forward {
 *            carry %x = %h : f32[8, 64]
 *            stack %wi = %ws : f32[64, 64]
 *            …
 *          %loss = … %h.2 : f32[] forward
 * after    %w = param{param="embedding.weight"} : f32[512, 64]@pp=0 forward
 *          %ws = param{param="layers.*.weight"} : f32[4/pp x 64, 64] forward
 *          %h = embedding %w, %tokens : f32[8, 64]@pp=0 forward
 *          %h.2 = loop{n=4, reverse=false} : f32[8, 64]@pp=1 forward cut=1 {
 *            carry %x = %h : f32[8, 64]@pp
 *            stack %wi = %ws : f32[64, 64]@pp
 *            …
 *          %loss = … %h.2 : f32[]@pp=1 forward
 *          %loss.2 = mask_to_partial{axes={pp}} %loss : f32[]+pp forward
 *          %loss.3 = all_reduce{axes={pp}} %loss.2 : f32[] forward
 *
 * The program is one for all ranks. In it, an op runs on the coordinate that has
 * its operands, and an iteration of a loop on that of its stage: in this order
 * the stages work one after another. Passes after this one divide the work into
 * microbatches and let stages overlap.
 *
 * A parameter that one loop slices is cut as the loop is. Any other is on the
 * first stage that reads it, which sends it to other stages, and receives their
 * gradients of it; if iterations of a loop read all of it, every rank has it.
 * What depends on inputs and constants alone is computed by every rank that needs
 * it. The forward ops of a module run on its stage, a backward op where its
 * operands are.
 */
#include "passes/pipeline/stages.h"

#include <string.h>

#include "ir/plan/pipeline.h"
#include "passes/side_program.h"
#include "passes/simplify/simplify.h"

/* ---- parameters ---------------------------------------------------------- */

/* Where the readers of a parameter are. */
typedef struct Readers {
    int stage; /* the first; EVERYWHERE: none */
    int cut;   /* of the loops that slice it; 0: none */
    bool everywhere; /* iterations of a cut loop read all of it */
} Readers;

/* The readers of all values of the step, by value id. */
static Readers *find_readers(const Stages *s)
{
    Readers *all = NEW_ARRAY(s->p->arena, Readers, s->p->nvalues + 1);
    for (uint32_t i = 0; i < s->p->nvalues; i++)
        all[i].stage = EVERYWHERE;
    for (const Op *op = s->p->step->first; op; op = op->next) {
        if (op->id >= s->nops || op->phase != PH_FORWARD)
            continue;
        int cut = s->cut_of[op->id], stage = s->stage_of[op->id];
        for (int i = 0; i < op->nargs; i++) {
            Readers *r = &all[op->arg[i]->id];
            if (cut && loop_is_stack(op, i))
                r->cut = r->cut && r->cut != cut ? -1 : cut;
            else if (cut)
                r->everywhere = true;
            else if (r->stage == EVERYWHERE || stage < r->stage)
                r->stage = stage;
        }
    }
    return all;
}

/* What the new value of a module's state is computed from. */
typedef struct StateSources {
    Stages *s;
    bool *seen;         /* by op id */
    VEC(Value *) state; /* states of modules, and parameters */
    Readers from;       /* where the forward ops and the parameters are */
} StateSources;

static void add_stage(StateSources *t, int cut, int stage)
{
    Readers *r = &t->from;
    if (cut > 0)
        r->cut = cut;
    else if (r->stage == EVERYWHERE || (stage != EVERYWHERE && stage < r->stage))
        r->stage = stage;
}

static void add_sources(StateSources *t, Value *v)
{
    const Op *op = v->def;
    if (!op || op->id >= t->s->nops || t->seen[op->id])
        return;
    t->seen[op->id] = true;
    t->s->of_state[op->id] |= op->phase == PH_OPTIMIZER;
    if (op->kind == OP_param) {
        vec_push(t->s->p->arena, &t->state, v);
        return;
    }
    bool yielded = op->kind == OP_loop && v->index >= op->ncarry;
    if (op->phase != PH_OPTIMIZER && op->phase != PH_INIT)
        add_stage(t, yielded ? t->s->cut_of[op->id] : 0, t->s->stage_of[op->id]);
    for (int i = 0; i < op->nargs && op->phase == PH_OPTIMIZER; i++)
        add_sources(t, op->arg[i]);
}

/* A state is where its new value is computed, or where the parameters are that this reads,
 * and so are states that it reads, if no forward op reads them. */
static void add_state_readers(Stages *s, Readers *all)
{
    s->of_state = NEW_ARRAY(s->p->arena, bool, s->nops + 1);
    for (const Op *op = s->p->step->first; op; op = op->next) {
        const Param *q = op->kind == OP_assign ? &s->p->param.at[attr_param(op)] : NULL;
        if (!q || !q->module_state)
            continue;
        StateSources t = {.s = s, .from = {.stage = EVERYWHERE},
                          .seen = NEW_ARRAY(s->p->arena, bool, s->nops + 1)};
        add_sources(&t, op->arg[0]);
        add_sources(&t, q->value);
        for (int i = 0; i < t.state.n; i++)
            add_stage(&t, all[t.state.at[i]->id].cut, all[t.state.at[i]->id].stage);
        for (int i = 0; i < t.state.n; i++) {
            Readers *r = &all[t.state.at[i]->id];
            bool stacked = t.state.at[i]->type.nstack > 0;
            if (r->stage == EVERYWHERE && r->cut == 0 && !r->everywhere &&
                stacked == (t.from.cut > 0))
                *r = t.from;
        }
    }
}

/* The placement of a parameter, in compute layout; its states are placed alike.
 */
static void place_param(Stages *s, Param *q, const Readers *readers)
{
    Readers r = {.stage = EVERYWHERE};
    AxisPlace *at = &q->type.place.ax[s->axis];
    const Param *of = side_param(s->p, q);
    int owner = q->state_of;
    if (of) {
        *at = of->type.place.ax[s->axis];
    } else if (owner >= 0) {
        *at = s->p->param.at[owner].type.place.ax[s->axis];
    } else if (q->value) {
        r = readers[q->value->id];
        if (r.cut > 0 && !r.everywhere && r.stage == EVERYWHERE)
            *at = (AxisPlace){AX_CUT, 0, (uint8_t)r.cut};
        else if (!r.cut && !r.everywhere && r.stage != EVERYWHERE)
            *at = stages_at(r.stage);
    }
    if (!q->value)
        return;
    bool unread = owner >= 0 || r.stage == EVERYWHERE;
    if (at->kind == AX_AT)
        stages_put(s, q->value, unread ? at->dim : r.stage);
    else
        stages_put_at(s, q->value, *at);
}

/* ---- ops ----------------------------------------------------------------- */

static bool has_kind(Stages *s, const Op *op, AxisKind kind)
{
    for (int i = 0; i < op->nargs; i++)
        if (stages_place(s, op->arg[i]).kind == kind)
            return true;
    return false;
}

static void refuse_join(Stages *s, const Op *op)
{
    diag_error(s->p->diag, op->loc, "this reads the layers of several stages at "
               "once");
    diag_help(s->p->diag, "omit `pipeline`, or let a loop over the layers "
              "compute it");
}

static void refuse_visits(Stages *s, const Op *op)
{
    diag_error(s->p->diag, op->loc, "several loops run these layers, each on other "
               "stages");
    diag_help(s->p->diag, "omit `pipeline`, or let one loop run them");
}

/* Each coordinate works on its own layers of stacks. */
static void place_stacks(Stages *s, Op *op)
{
    AxisPlace cut = {0};
    for (int i = 0; i < op->nargs; i++) {
        AxisPlace is = stages_place(s, op->arg[i]);
        if (is.kind == AX_CUT && cut.kind == AX_CUT &&
            !axis_place_equal(is, cut)) {
            refuse_visits(s, op);
            return;
        }
        if (is.kind == AX_CUT) {
            cut = is;
        } else if (op->arg[i]->type.nstack > 0) {
            refuse_join(s, op);
            return;
        } else if (is.kind != AX_R) {
            op->arg[i] = stages_replicate(s, op->arg[i], op);
        }
    }
    for (int i = 0; i < op->nouts; i++) {
        Type *t = &op->out[i]->type;
        if (t->nstack > 0)
            t->place.ax[s->axis] = cut;
        else if (op->kind == OP_sumsq)
            t->place.ax[s->axis] = (AxisPlace){AX_P, 0, 0};
        else
            refuse_join(s, op);
    }
}

static bool is_scalar(const Op *op)
{
    return op->nouts == 1 && op->out[0]->type.ndim == 0 &&
           op->out[0]->type.nstack == 0;
}

/* Whether all stages need what is computed of the gradients' norm. */
static bool is_of_norm(const Stages *s, const Op *op)
{
    bool of_state = op->id < s->nops && s->of_state[op->id];
    return !of_state && op->phase == PH_OPTIMIZER && is_scalar(op) &&
           op->kind != OP_sumsq && !op_is_conversion(op->kind) &&
           strcmp(op_info(op->kind)->linear, "all") != 0;
}

/* The op on one stage, or on all ranks if they have its operands. */
static void place_whole(Stages *s, Op *op)
{
    bool norm = is_of_norm(s, op);
    int stage = norm ? EVERYWHERE : stages_choose(s, op);
    for (int i = 0; i < op->nargs; i++)
        if (norm || stages_place(s, op->arg[i]).kind == AX_P)
            op->arg[i] = stages_replicate(s, op->arg[i], op);
        else if (stage != EVERYWHERE)
            op->arg[i] = stages_move(s, op->arg[i], stage, op);
    for (int i = 0; i < op->nouts; i++)
        stages_put(s, op->out[i], stage);
}

/* A sum of scalars of several stages, or of shares of all ranks, stays a sum of
 * shares; so do shares that are converted on another axis. */
static void place_sum(Stages *s, Op *op)
{
    for (int i = 0; i < op->nargs; i++)
        op->arg[i] = stages_partial(s, op->arg[i], op);
    for (int i = 0; i < op->nouts; i++)
        op->out[i]->type.place.ax[s->axis] = (AxisPlace){AX_P, 0, 0};
}

/* Whether a sum of shares passes through the op. */
static bool passes_shares(Stages *s, const Op *op)
{
    bool linear = strcmp(op_info(op->kind)->linear, "all") == 0;
    bool apart = false;
    for (int i = 0; i < op->nargs; i++)
        apart |= stages_held(s, op->arg[i]) &&
                 !axis_place_equal(stages_place(s, op->arg[i]),
                                   stages_place(s, op->arg[0]));
    return linear && is_scalar(op) &&
           (has_kind(s, op, AX_P) || (apart && op->phase == PH_OPTIMIZER));
}

/* The all-reduce that alone reads the sum of two stages' shares; NULL: none. */
static Op *reader_of_sum(Stages *s, const Op *op)
{
    if (op->kind != OP_add || op->phase != PH_BACKWARD ||
        !stages_held(s, op->arg[0]) || !stages_held(s, op->arg[1]) ||
        axis_place_equal(stages_place(s, op->arg[0]),
                         stages_place(s, op->arg[1])) ||
        ir_count_uses(op->out[0]) != 1)
        return NULL;
    for (Op *user = op->next; user; user = user->next)
        if (op_reads(user, op))
            return user->kind == OP_all_reduce && user->nargs == 1 ? user : NULL;
    return NULL;
}

/* Reduces the shares on each stage, then adds: a step, not a microbatch, sends
 * the gradient of a parameter that two stages read. Returns the first new op. */
static Op *reduce_on_stages(Program *p, Op *sum, Op *reduce)
{
    Build b = ir_build_at(p, reduce, reduce);
    Value *part[2];
    for (int i = 0; i < 2; i++)
        part[i] = ir_clone_with(&b, reduce, &sum->arg[i])->out[0];
    Op *first = part[0]->def;
    Op *last = ir_op_typed(&b, OP_add, 2, part, NULL, 1, &reduce->out[0]->type,
                           &reduce->out[0]->name);
    ir_replace_uses(p->step, reduce->out[0], last->out[0]);
    ir_remove(reduce);
    ir_remove(sum);
    return first;
}

/* An all-reduce of shares of all ranks adds those of the pipeline too. */
static void reduce_shares(Stages *s, Op *op)
{
    set_attr_axes(op, attr_axes(op) | 1u << s->axis);
    for (int i = 0; i < op->nargs; i++)
        op->arg[i] = stages_partial(s, op->arg[i], op);
}

/* The operands where the op must have them. */
static void place_fixed(Stages *s, Op *op)
{
    bool whole = op->kind == OP_output && op->arg[0]->type.ndim > 0;
    AxisPlace want = {0};
    if (op->kind == OP_finish_grad || op->kind == OP_assign ||
        op->kind == OP_update)
        want = s->p->param.at[attr_param(op)].type.place.ax[s->axis];
    for (int i = 0; i < op->nargs && !whole; i++) {
        Value *v = op->arg[i];
        AxisPlace is = stages_place(s, v);
        bool scalar = op->kind == OP_update && i >= UPDATE_LR &&
                      i < update_first_state(op);
        if (scalar || want.kind == AX_R)
            op->arg[i] = stages_replicate(s, v, op);
        else if (want.kind == AX_AT)
            op->arg[i] = stages_to(s, v, want, op);
        else if (!axis_place_equal(is, want))
            refuse_join(s, op);
    }
    for (int i = 0; i < op->nouts; i++) {
        op->out[i]->type.place.ax[s->axis] = want;
        stages_known(s, op->out[i])->stage =
            want.kind == AX_AT ? want.dim : EVERYWHERE;
    }
}

static void place_op(Stages *s, Op *op)
{
    switch ((int)op->kind) {
    case OP_param:
    case OP_input:
    case OP_scalar:
    case OP_base:
        return;
    case OP_finish_grad:
    case OP_update:
    case OP_assign:
    case OP_output:
        place_fixed(s, op);
        return;
    }
    if (op->body)
        stages_loop(s, op);
    else if (has_kind(s, op, AX_CUT))
        place_stacks(s, op);
    else if (op->kind == OP_all_reduce && has_kind(s, op, AX_P))
        reduce_shares(s, op);
    else if (passes_shares(s, op) ||
             (op_is_conversion(op->kind) && has_kind(s, op, AX_P)))
        place_sum(s, op);
    else
        place_whole(s, op);
}

/* ---- what all ranks compute ---------------------------------------------- */

/* The stage whose ops alone read what the op computes; EVERYWHERE: several, or
 * none does. */
static int only_reader(Stages *s, const Op *op)
{
    AxisPlace at = {0};
    for (const Op *user = op->next; user; user = user->next)
        for (int i = 0; i < user->nargs; i++) {
            if (user->arg[i]->def != op)
                continue;
            bool alone = user->nouts > 0 && !user->body &&
                         user->kind != OP_update; /* its scalars: all ranks */
            AxisPlace here =
                alone ? stages_place(s, user->out[0]) : (AxisPlace){0};
            if (here.kind != AX_AT ||
                (at.kind == AX_AT && !axis_place_equal(at, here)))
                return EVERYWHERE;
            at = here;
        }
    return at.kind == AX_AT ? at.dim : EVERYWHERE;
}

/* Lets the readers of moves of v read v, which is where they need it. */
static void skip_moves(Value *v)
{
    for (Op *op = v->def->next, *next; op; op = next) {
        next = op->next;
        if (op->kind != OP_move || op->arg[0] != v)
            continue;
        ir_replace_uses(op->region, op->out[0], v);
        ir_remove(op);
    }
}

/* Casts of parameters stay where the parameters are, as their stored copies in 16
 * bits are. */
static bool is_cast_of_param(const Op *op)
{
    return op->kind == OP_cast && op->arg[0]->def &&
           op->arg[0]->def->kind == OP_param;
}

/* Ops whose results one stage needs run there only. */
static void leave_to_readers(Stages *s)
{
    for (Op *op = s->p->step->last; op; op = op->prev) {
        bool fixed = op->kind == OP_param || op->kind == OP_input ||
                     op->kind == OP_scalar || op->kind == OP_base ||
                     op->kind == OP_split_key || op->phase == PH_INIT ||
                     op->body || op->nouts == 0 || is_cast_of_param(op) ||
                     op_is_conversion(op->kind);
        bool everywhere = !fixed;
        for (int i = 0; i < op->nargs && everywhere; i++)
            everywhere = stages_place(s, op->arg[i]).kind == AX_R;
        int stage = everywhere ? only_reader(s, op) : EVERYWHERE;
        for (int i = 0; i < op->nouts && stage != EVERYWHERE; i++) {
            stages_put(s, op->out[i], stage);
            skip_moves(op->out[i]);
        }
    }
}

void pass_stages(Program *p, const TargetInfo *t)
{
    (void)t;
    Stages s = {.p = p, .axis = pipeline_axis(p)};
    if (s.axis < 0)
        return;
    simplify_loops(p, p->step); /* no stacks of what iterations share */
    if (!stages_split(&s))
        return;
    Readers *readers = find_readers(&s);
    add_state_readers(&s, readers);
    for (int i = 0; i < p->param.n; i++)
        place_param(&s, &p->param.at[i], readers);
    for (Op *op = p->step->first, *next; op; op = next) {
        Op *reduce = reader_of_sum(&s, op);
        next = op->next == reduce ? NULL : op->next;
        if (reduce) {
            Op *first = reduce_on_stages(p, op, reduce);
            next = next ? next : first;
        } else {
            place_op(&s, op);
        }
    }
    if (diag_error_count(p->diag) > 0)
        return;
    leave_to_readers(&s);
    ir_eliminate_dead(p);
}
