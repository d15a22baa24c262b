/* verify.c: checks that a program is valid.
 *
 * It checks the structure (each value defined once, before its uses, in the
 * same region; parallel lists and indices consistent), then types, inferred
 * again from the operands, then by stage the placements (verify_place.c). The
 * first error is returned as text:
 *
 *   add %h.3: operand 1 is Partial(sum) on tp, the rule needs Replicate
 *
 * Only the types of parameters and inputs are trusted: they describe what the
 * runtime supplies.
 */
#include <string.h>

#include "ir/analysis/repeat.h"
#include "ir/verify/verify.h"
#include "ir/rules/rules.h"

typedef struct Verify {
    const Program *p;
    const Region **where; /* by value id: the region in which it is defined */
    TextMap names;        /* seen so far */
    const char *fault;
} Verify;

static const char *fault_at(Verify *w, const Op *op, const char *fault)
{
    const char *name = op_info(op->kind)->name;
    const char *of = op->nouts > 0   ? op->out[0]->name
                     : op->nargs > 0 ? op->arg[0]->name
                                     : "";
    return arena_printf(w->p->arena, "%s %s%s: %s", name, *of ? "%" : "", of,
                        fault);
}

/* ---- structure ----------------------------------------------------------- */

static const char *define(Verify *w, const Value *v, const Op *def,
                          const Region *r, int index)
{
    Arena *a = w->p->arena;
    if (v->id >= w->p->nvalues || w->where[v->id])
        return arena_printf(a, "the id of %%%s is not unique", v->name);
    if (v->def != def || v->region != r || v->index != index)
        return arena_printf(a, "%%%s has a wrong definition",
                            v->name);
    if (!text_map_add(&w->names, v->name))
        return arena_printf(a, "there are two values %%%s", v->name);
    w->where[v->id] = r;
    const char *fault = type_check(a, &v->type, &w->p->mesh);
    if (fault)
        return arena_printf(a, "the type of %%%s: %s", v->name, fault);
    for (int i = 0; w->p->stage == STAGE_GLOBAL && i < w->p->mesh.n; i++)
        if (v->type.place.ax[i].kind != AX_R)
            return arena_printf(a, "%%%s is placed in a global program",
                                v->name);
    return NULL;
}

static const char *check_uses(Verify *w, const Region *r, int n,
                              Value *const *v)
{
    for (int i = 0; i < n; i++)
        if (v[i]->id >= w->p->nvalues || w->where[v[i]->id] != r)
            return arena_printf(w->p->arena,
                                "%%%s is not defined before "
                                "it in its region",
                                v[i]->name);
    return NULL;
}

static const char *check_attr(Verify *w, const Op *op, AttrName name,
                              const Attr *a)
{
    AttrType type = attr_type_of(name);
    int longest = name == ATTR_styles ? MAX_AXES : MAX_DIMS;
    uint32_t axes = (1u << w->p->mesh.n) - 1;
    /* A collective that does not belong to a unit has no unit name. */
    if (type == ATTR_TYPE_TEXT && !a->s && !op_is_conversion(op->kind))
        return "a text attribute is missing";
    if (type == ATTR_TYPE_DTYPE && (a->i < DT_F32 || a->i > DT_I64))
        return "an attribute is not an element type";
    if (type == ATTR_TYPE_LIST && (a->l.n < 0 || a->l.n > longest))
        return "a list attribute is too long";
    if (type == ATTR_TYPE_BOOL && (a->i < 0 || a->i > 1))
        return "an attribute is neither true nor false";
    if (type == ATTR_TYPE_PARAM && (a->i < 0 || a->i >= w->p->param.n))
        return "there is no such parameter";
    if (type == ATTR_TYPE_DIM && (a->i < 0 || a->i >= MAX_DIMS))
        return "an attribute is not the index of a dim";
    if (type == ATTR_TYPE_AXES && ((uint64_t)a->i & ~(uint64_t)axes || !a->i))
        return "axes names none or unknown ones";
    return NULL;
}

static const char *check_shape_of_op(Verify *w, const Op *op)
{
    const OpInfo *info = op_info(op->kind);
    if (op_has_body(op->kind) != (op->body != NULL))
        return "it has a body, or lacks one";
    if (info->nouts >= 0 && op->nouts != info->nouts)
        return arena_printf(w->p->arena, "it has %d results, not %d", op->nouts,
                            info->nouts);
    for (int i = 0; info->attr[i]; i++) {
        const char *fault =
            check_attr(w, op, info->attr[i], &op->attr[i]);
        if (fault)
            return fault;
    }
    bool transfers = (op->kind == OP_post || op->kind == OP_await) &&
                     op->stream == STREAM_TRANSFER;
    if (op->stream < 0 ||
        (op->stream > 0 && op->stream >= w->p->streams && !transfers))
        return "there is no such stream";
    bool in_step = op->kind == OP_param || op->kind == OP_input ||
                   op->kind == OP_assign || op->kind == OP_output;
    if (in_step && op->region != w->p->step)
        return "it is in a body";
    for (int i = 0; op->phase == PH_INIT && i < op->nargs; i++)
        if (op->arg[i]->def && op->arg[i]->def->phase != PH_INIT)
            return arena_printf(w->p->arena,
                                "it runs at the start, but "
                                "operand %d is computed in each step",
                                i);
    return NULL;
}

/* ---- bodies -------------------------------------------------------------- */

static const char *differ(Verify *w, const char *what, const Value *v,
                          const Type *want)
{
    return arena_printf(w->p->arena, "%s %%%s is %s, it should be %s", what,
                        v->name, type_text(w->p->arena, &v->type, &w->p->mesh),
                        type_text(w->p->arena, want, &w->p->mesh));
}

/* At STAGE_PLACED operands and yields of bodies may still need conversion. */
static bool fits_body(const Verify *w, const Type *a, const Type *b)
{
    if (w->p->stage == STAGE_PLACED)
        return a->dtype == b->dtype && type_same_shape(a, b);
    return type_equal(a, b);
}

static bool loop_fits_cut(const Program *p, const Op *loop)
{
    if (loop->cut < 1 || loop->cut > p->mesh.ncuts)
        return false;
    const StageCut *c = &p->mesh.cut[loop->cut - 1];
    return c->begin[c->nstages] == loop_trips(loop);
}

static const char *check_body_args(Verify *w, const Op *op)
{
    const Region *body = op->body;
    bool loop = op->kind == OP_loop;
    if (body->nargs != op->nargs || op->ncarry < 0 || op->nstack < 0 ||
        op->ncarry + op->nstack > op->nargs)
        return "operands and arguments do not correspond";
    if (loop && loop_trips(op) < 1)
        return "it never runs";
    if (op->cut && !(loop && loop_fits_cut(w->p, op)))
        return "there is no such cut of its iterations";
    for (int i = 0; i < op->nargs; i++) {
        Type t = body->arg[i]->type;
        bool stack = loop && loop_is_stack(op, i);
        if (stack && type_cut(&op->arg[i]->type) != op->cut)
            return arena_printf(w->p->arena, "the stack %%%s is not cut as the "
                                "loop is", op->arg[i]->name);
        if (stack && !type_push_stack(&t, loop_trips(op), op->cut))
            return "stacks are nested too deep";
        if (loop && i < op->ncarry)
            t = loop_carry_type(w->p, op, t, false);
        if (!fits_body(w, &t, &op->arg[i]->type))
            return differ(w, "operand", op->arg[i], &t);
    }
    return NULL;
}

static const char *check_body_results(Verify *w, const Op *op)
{
    const Region *body = op->body;
    bool loop = op->kind == OP_loop;
    if (body->nyields != op->nouts || (loop && op->nouts < op->ncarry))
        return "yields and results do not correspond";
    for (int i = 0; i < op->nouts; i++) {
        Type t = body->yield[i]->type;
        bool carry = loop && i < op->ncarry;
        if (carry && !fits_body(w, &t, &body->arg[i]->type))
            return differ(w, "yield", body->yield[i], &body->arg[i]->type);
        if (carry)
            t = loop_carry_type(w->p, op, t, true);
        if (loop && !carry && !type_push_stack(&t, loop_trips(op), op->cut))
            return "stacks are nested too deep";
        if (loop && !carry && type_cut(&t) != op->cut)
            return arena_printf(w->p->arena, "the layers of %%%s are not cut as "
                                "the loop is", op->out[i]->name);
        if (!fits_body(w, &t, &op->out[i]->type))
            return differ(w, "result", op->out[i], &t);
    }
    return NULL;
}

/* ---- types and stages ---------------------------------------------------- */

static const char *check_types(Verify *w, const Op *op)
{
    if (op->kind == OP_base) {
        const Type *t = &op->out[0]->type;
        bool fits = t->dtype == DT_I64 && t->ndim == 1;
        return fits ? NULL : "its result is not i64[parts]";
    }
    Type few[8], *types = few;
    if (op->nargs + MAX_MORE_RESULTS > (int)(sizeof few / sizeof *few))
        types = NEW_ARRAY(w->p->arena, Type, op->nargs + MAX_MORE_RESULTS);
    int nouts;
    /* ir_infer only reads the program and allocates in its arena. */
    const char *fault = ir_infer((Program *)w->p, op->kind, op->nargs, op->arg,
                                 op->attr, types, &nouts);
    if (fault)
        return fault;
    if (nouts != op->nouts)
        return arena_printf(w->p->arena, "it has %d results, not %d", op->nouts,
                            nouts);
    for (int i = 0; i < nouts; i++) {
        const Type *is = &op->out[i]->type;
        if (is->dtype != types[i].dtype || !type_same_shape(is, &types[i]))
            return differ(w, "result", op->out[i], &types[i]);
    }
    const Type *given = NULL;
    if (op->kind == OP_param)
        given = &w->p->param.at[attr_param(op)].type;
    if (op->kind == OP_input)
        given = &w->p->input.at[attr_input(op)].type;
    /* The pass `plan` places parameters and inputs before their values. */
    if (given && w->p->stage > STAGE_GLOBAL &&
        !type_equal(given, &op->out[0]->type))
        return differ(w, "result", op->out[0], given);
    return NULL;
}

/* Ops that codegen supports only in fused bodies; ops that may be in them. */
static bool needs_fusing(OpKind kind)
{
    static const bool table[OP_COUNT] = {
        [OP_full] = true,   [OP_iota] = true,  [OP_sum] = true,
        [OP_max] = true,    [OP_sumsq] = true, [OP_onehot] = true,
        [OP_rotary] = true, [OP_random] = true,
    };
    /* `schedule` adds copies where kernels cannot write in place. */
    return table[kind] || (op_is_elementwise(kind) && kind != OP_copy);
}

static bool may_be_fused(OpKind kind)
{
    static const bool table[OP_COUNT] = {
        [OP_reshape] = true, [OP_transpose] = true, [OP_slice] = true,
        [OP_pad] = true,     [OP_concat] = true,
    };
    return table[kind] || needs_fusing(kind);
}

static const char *check_stage(Verify *w, const Op *op)
{
    Stage stage = w->p->stage;
    const Op *owner = op->region->owner;
    if (owner && owner->kind == OP_fused) {
        if (!may_be_fused(op->kind))
            return "it cannot be part of a kernel";
    } else if (stage == STAGE_FUSED && needs_fusing(op->kind)) {
        return "it is not in a kernel";
    }
    bool ranks = op_is_conversion(op->kind) || op->kind == OP_base;
    if (stage == STAGE_GLOBAL && ranks)
        return "a global program has no ranks";
    if (stage >= STAGE_PARTITIONED && op->kind == OP_boundary)
        return "partition should have removed it";
    if (stage == STAGE_FUSED &&
        (op->kind == OP_update || op->kind == OP_finish_grad))
        return "optimizer should have removed it";
    return NULL;
}

static const char *check_prefetch(Verify *w, const Op *op)
{
    bool gather = op->kind == OP_all_gather;
    if (!gather && op->kind != OP_fetch)
        return NULL;
    int64_t ahead = attr_prefetch(op);
    int64_t most = MAX_PREFETCH + (op->kind == OP_fetch); /* before a gather that reads it */
    if (ahead < 0 || ahead > most)
        return arena_printf(w->p->arena,
                            "its prefetch distance is not from 0 to %d",
                            (int)most);
    const char *unit = gather ? attr_unit(op) : NULL;
    if (gather && ahead > 0 && (!unit || !*unit))
        return "it is prefetched, but has no unit";
    return NULL;
}

/* The styles of a boundary are those of its axes. */
static const char *check_boundary(Verify *w, const Op *op)
{
    const PlanSpec *plan = &w->p->plan;
    if (op->kind != OP_boundary)
        return NULL;
    const AttrList *styles = attr_styles(op);
    for (int a = 0; a < styles->n; a++)
        if (a >= w->p->mesh.n || styles->v[a] < -1 ||
            styles->v[a] >= plan->nstyles ||
            (styles->v[a] >= 0 && plan->style[styles->v[a]].axis != a))
            return arena_printf(w->p->arena, "it has no style %lld on axis %d",
                                (long long)styles->v[a], a);
    return NULL;
}

/* ---- the walk ------------------------------------------------------------ */

static const char *check_region(Verify *w, const Region *r);

static const char *check_body(Verify *w, const Op *op)
{
    if (op->body->owner != op)
        return "its body belongs to another op";
    const char *fault = check_body_args(w, op);
    for (int i = 0; i < op->body->nargs && !fault; i++)
        fault = define(w, op->body->arg[i], NULL, op->body, i);
    if (fault)
        return fault;
    fault = check_region(w, op->body);
    if (fault) {
        w->fault = fault; /* the text names the faulty op of the body */
        return fault;
    }
    fault = check_uses(w, op->body, op->body->nyields, op->body->yield);
    if (!fault)
        fault = verify_host(w->p, op);
    return fault ? fault : check_body_results(w, op);
}

static const char *check_op(Verify *w, const Op *op)
{
    static const char *(*const checks[])(Verify *, const Op *) = {
        check_shape_of_op, check_stage, check_prefetch, check_boundary};
    const char *fault = check_uses(w, op->region, op->nargs, op->arg);
    for (size_t i = 0; i < sizeof checks / sizeof *checks && !fault; i++)
        fault = checks[i](w, op);
    for (int i = 0; i < op->nouts && !fault; i++)
        fault = define(w, op->out[i], op, op->region, i);
    if (fault)
        return fault;
    if (op->body)
        return check_body(w, op);
    bool has_cut = op->kind == OP_receive || op->kind == OP_send;
    if (has_cut ? op->cut < 1 || op->cut > w->p->mesh.ncuts : op->cut != 0)
        return has_cut ? "no loop has its cut"
                       : "only a loop and its transfers can have a cut";
    fault = verify_host(w->p, op);
    fault = fault ? fault : check_types(w, op);
    fault = fault ? fault : verify_needs(w->p, op);
    if (!fault && w->p->stage >= STAGE_PARTITIONED)
        fault = verify_placement(w->p, op);
    return fault;
}

static const char *check_region(Verify *w, const Region *r)
{
    const Op *before = NULL;
    for (const Op *op = r->first; op; before = op, op = op->next) {
        const char *fault = NULL;
        if (op->prev != before || op->region != r)
            fault = "it is not linked into its region";
        if (!fault)
            fault = check_op(w, op);
        if (fault)
            return w->fault ? w->fault : fault_at(w, op, fault);
    }
    return r->last == before ? NULL : "a region does not end at its last op";
}

/* Parameters are not Partial, and flat only from STAGE_STORED on. */
static const char *check_stored(Verify *w, const char *name, const Type *t)
{
    const Program *p = w->p;
    const char *fault = type_check(p->arena, t, &p->mesh);
    for (int a = 0; a < p->mesh.n && !fault; a++) {
        int kind = t->place.ax[a].kind;
        bool pipeline = p->plan.pipeline.axes >> a & 1;
        if (kind == AX_P || kind == AX_PMAX || kind == AX_HERE ||
            (kind == AX_FLAT && p->stage < STAGE_STORED) ||
            (axis_place_is_held(t->place.ax[a]) && !pipeline))
            fault = arena_printf(p->arena, "it is %s on %s",
                                 axis_place_words(p->arena, t->place.ax[a]),
                                 p->mesh.name[a]);
    }
    return fault ? arena_printf(p->arena, "%s: %s", name, fault) : NULL;
}

/* The operand of the op `output` of this name; NULL unless there is one. */
static const Value *output_operand(const Program *p, const char *name)
{
    const Value *found = NULL;
    for (const Op *op = p->step->first; op; op = op->next) {
        if (op->kind != OP_output || strcmp(attr_name(op), name) != 0)
            continue;
        if (found)
            return NULL;
        found = op->arg[0];
    }
    return found;
}

static const char *check_output(const Program *p, const Output *of)
{
    const Value *v = output_operand(p, of->name);
    bool fits = v && v->type.ndim == of->ndim && of->ndim > 0;
    for (int d = 0; fits && d < of->ndim; d++)
        fits = of->dim[d] > 0 && of->dim[d] <= v->type.dim[d];
    return fits ? NULL
                : arena_printf(p->arena, "output '%s' is not the operand of one "
                               "op, with padding at most", of->name);
}

/* A step gives a parameter one new value. */
static const char *check_assigned(const Program *p)
{
    bool *assigned = NEW_ARRAY(p->arena, bool, p->param.n + 1);
    for (const Op *op = p->step->first; op; op = op->next) {
        if (op->kind != OP_assign)
            continue;
        int i = attr_param(op);
        if (assigned[i])
            return arena_printf(p->arena, "'%s' is assigned twice", p->param.at[i].name);
        assigned[i] = true;
    }
    return NULL;
}

/* A program computes what its purpose says; only one that trains has updates. */
static const char *check_purpose(const Program *p)
{
    if (program_trains(p))
        return p->output.n ? "a training step has no tensors as outputs" : NULL;
    for (const Op *op = p->step->first; op; op = op->next)
        if (op->kind == OP_assign)
            return "a program that does not train assigns a parameter";
    if (p->repeats && !repeat_of(p))
        return "a side program is not a part of the program that it repeats";
    if (p->purpose == FOR_LOSS) {
        const Value *loss = output_operand(p, "loss");
        return loss && loss->type.ndim == 0 && loss->type.dtype == DT_F32
                   ? NULL
                   : "a program for the loss has no output 'loss' in f32";
    }
    for (int i = 0; i < p->output.n; i++) {
        const char *fault = check_output(p, &p->output.at[i]);
        if (fault)
            return fault;
    }
    return p->output.n ? NULL : "a program for outputs has none";
}

/* A list of rates belongs to a schedule of pieces. */
static const char *check_schedule(const LrSchedule *s)
{
    if (s->after.n != s->rates.n)
        return "the schedule has not one rate for each step";
    if ((s->kind == SCHEDULE_PIECEWISE) != (s->after.n > 0))
        return "only a piecewise schedule has a list of rates";
    return NULL;
}

const char *ir_verify(const Program *p)
{
    Verify w = {.p = p};
    w.where = NEW_ARRAY(p->arena, const Region *, p->nvalues);
    w.names.arena = p->arena;
    const char *fault = check_schedule(&p->train.schedule);
    for (int i = 0; i < p->param.n && !fault; i++) {
        const Param *param = &p->param.at[i];
        fault = check_stored(&w, param->name, &param->type);
        if (!fault && param->state_of >= p->param.n)
            fault = "a state belongs to no parameter";
        if (!fault && param->module_state && (param->trainable || param->state_of >= 0))
            fault = arena_printf(p->arena, "'%s' is a module's state, which is not trainable "
                                 "and no optimizer's", param->name);
        if (!fault && param->init.depth != 0 && param->type.nstack != 1)
            fault = "initial values depend on the index in no array";
    }
    for (int i = 0; i < p->input.n && !fault; i++)
        fault = check_stored(&w, p->input.at[i].name, &p->input.at[i].type);
    fault = fault ? fault : check_region(&w, p->step);
    fault = fault ? fault : check_assigned(p);
    fault = fault ? fault : verify_schedule(p);
    fault = fault ? fault : verify_memory(p);
    return fault ? fault : check_purpose(p);
}
