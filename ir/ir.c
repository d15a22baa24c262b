/* ir.c: constructs, links, walks and copies programs, regions, ops and values,
 * and answers questions about parameters, updates and ops. */
#include "ir/ir.h"

#include <string.h>

#include "base/bug.h"
#include "ir/internal.h"
#include "ir/memory.h"

Program *ir_program(Arena *a, Diag *d)
{
    Program *p = NEW(a, Program);
    p->arena = a;
    p->diag = d;
    p->model = "";
    p->plan.name = "";
    p->names.arena = a;
    p->step = ir_raw_region(p, NULL, 0);
    return p;
}

DecayShape schedule_shape(const LrSchedule *s)
{
    return s->kind == SCHEDULE_WSD      ? s->shape
           : s->kind == SCHEDULE_COSINE ? DECAY_COSINE
                                        : DECAY_LINEAR;
}

bool train_scales(const Train *t)
{
    return t->clip > 0 || t->loss_scale > 0;
}

int64_t program_sample_tokens(const Program *p)
{
    for (int i = 0; i < p->input.n; i++) {
        const Input *in = &p->input.at[i];
        if (in->below > 0 && in->type.ndim > 1 &&
            in->type.dim[1] == p->train.seq)
            return p->train.seq;
    }
    return 1;
}

Type update_state_type(const Train *t, OptimizerKind k, const Type *param, int i)
{
    Type s = *param;
    s.dtype = DT_F32;
    if (k == OPT_ADAFACTOR && s.ndim > 1 && i < 2) {
        s.dim[s.ndim - 1 - i] = 1;
        s.place = (Placement){0};
    }
    (void)t;
    return s;
}

bool param_is_mean(const Program *p, const Param *state)
{
    if (state->state_of < 0)
        return false;
    const Param *of = &p->param.at[state->state_of];
    return state->type.ndim > 1 && param_optimizer(&p->train, of) == OPT_ADAFACTOR &&
           (strcmp(state->state, "row") == 0 || strcmp(state->state, "column") == 0);
}

StateNames update_states(const Train *t, OptimizerKind k, const Type *shape)
{
    static const StateNames states[OPTIMIZERS] = {
        [OPT_SGD] = {1, {"momentum"}},
        [OPT_ADAM] = {2, {"m", "v"}},
        [OPT_ADAMW] = {2, {"m", "v"}},
        [OPT_LION] = {1, {"m"}},
        [OPT_MUON] = {1, {"momentum"}},
        [OPT_ADAFACTOR] = {2, {"row", "column"}},
    };
    StateNames s = {0};
    if (k != OPT_SGD || t->momentum != 0.0)
        s = states[k];
    if (k == OPT_ADAFACTOR && shape->ndim < 2)
        s = (StateNames){1, {"square"}};
    if (t->ema > 0)
        s.name[s.n++] = "average";
    return s;
}

const double *muon_coefficients(const Train *t)
{
    /* Keller Jordan, "Muon: An optimizer for hidden layers in neural networks",
     * 2024: the largest slope at 0. */
    static const double standard[] = {3.4445, -4.7750, 2.0315};
    return t->ns_coefficients.n > 0 ? t->ns_coefficients.v : standard;
}

int update_first_state(const Op *update)
{
    return update->nargs - (update->nouts - 1);
}

bool program_trains(const Program *p)
{
    return p->purpose == FOR_TRAINING || p->purpose == FOR_ROUNDS;
}

const char *count_name(const Program *p, const char *name)
{
    return p->purpose == FOR_OUTPUTS ? arena_printf(p->arena, ".%s", name) : name;
}

Value *program_output(const Program *p, const char *name)
{
    for (const Op *op = p->step->first; op; op = op->next)
        if (op->kind == OP_output && !strcmp(attr_name(op), name))
            return op->arg[0];
    return NULL;
}

Value *update_old(const Op *update, int i)
{
    return update->arg[i ? update_first_state(update) + i - 1 : UPDATE_PARAM];
}

int ir_param_index(const Program *p, const char *name)
{
    for (int i = 0; i < p->param.n; i++) {
        const Param *param = &p->param.at[i];
        if (strcmp(param->name, name) == 0)
            return i;
        for (int j = 0; j < param->nalias; j++)
            if (strcmp(param->alias[j], name) == 0)
                return i;
    }
    return -1;
}

Module *ir_module(const Program *p, const char *path)
{
    for (int i = 0; i < p->module.n; i++)
        if (strcmp(p->module.at[i].path, path) == 0)
            return &p->module.at[i];
    return NULL;
}

const Weight *module_weight(const Module *m)
{
    return m && m->weight.n == 1 ? &m->weight.at[0] : NULL;
}

double param_lr_factor(const Param *p)
{
    return p->group.lr_factor > 0 ? p->group.lr_factor : 1;
}

double param_weight_decay(const Train *t, const Param *p)
{
    if (!p->decay)
        return 0;
    return p->group.weight_decay > 0 ? p->group.weight_decay : t->weight_decay;
}

OptimizerKind param_optimizer(const Train *t, const Param *p)
{
    return p->group.adamw ? OPT_ADAMW : t->optimizer;
}

bool param_is_padded(const Param *p)
{
    for (int d = 0; d < p->type.ndim; d++)
        if (p->pad[d])
            return true;
    return false;
}

Type param_shape(const Param *p)
{
    Type t = p->type;
    for (int d = 0; d < t.ndim; d++)
        t.dim[d] -= p->pad[d];
    return t;
}

/* ---- raw parts ----------------------------------------------------------- */

Value *ir_raw_value(Program *p, const char *name, Type t, Loc loc)
{
    Value *v = NEW(p->arena, Value);
    v->id = p->nvalues++;
    v->name = name;
    v->type = t;
    v->loc = loc;
    return v;
}

void ir_check_size(Program *p, const Type *t, Loc loc)
{
    if (!type_too_large(t))
        return;
    diag_error(p->diag, loc,
               "a tensor of this statement is too large: %s has more than "
               "2^%d elements", type_text(p->arena, t, &p->mesh), MAX_ELEMENTS_LOG2);
    diag_stop(p->diag);
}

_Noreturn void ir_too_deep(const Program *p, Loc loc)
{
    diag_error(p->diag, loc, "loops are nested too deep: at most %d, and one of "
                             "microbatches", MAX_STACK);
    diag_stop(p->diag);
}

Value *ir_new_value(Program *p, const char *hint, Type t, Loc loc)
{
    ir_check_size(p, &t, loc);
    return ir_raw_value(p, ir_unique_name(p, hint), t, loc);
}

Op *ir_raw_op(Program *p, OpKind kind, int nargs, int nouts)
{
    Op *op = NEW(p->arena, Op);
    op->workspace = -1;
    op->id = p->nops++;
    op->kind = kind;
    op->nargs = nargs;
    op->nouts = nouts;
    op->arg = NEW_ARRAY(p->arena, Value *, nargs);
    op->out = NEW_ARRAY(p->arena, Value *, nouts);
    op->path = "";
    return op;
}

void ir_set_out(Op *op, int i, Value *v)
{
    if (!v->loc.file)
        v->loc = op->loc;
    op->out[i] = v;
    v->def = op;
    v->index = i;
    v->region = op->region;
}

void ir_set_members(Op *op, int n, Value **arg, Value **out)
{
    op->arg = arg;
    op->out = out;
    op->nargs = op->nouts = n;
    for (int i = 0; i < n; i++)
        ir_set_out(op, i, out[i]);
}

Region *ir_raw_region(Program *p, Op *owner, int nargs)
{
    Region *r = NEW(p->arena, Region);
    r->owner = owner;
    r->nargs = nargs;
    r->arg = NEW_ARRAY(p->arena, Value *, nargs);
    return r;
}

void ir_set_region_arg(Region *r, int i, Value *v)
{
    if (!v->loc.file && r->owner)
        v->loc = r->owner->loc;
    r->arg[i] = v;
    v->def = NULL;
    v->region = r;
    v->index = i;
}

/* ---- linking ------------------------------------------------------------- */

void ir_insert(Op *op, Region *r, Op *before)
{
    if (before && before->region != r)
        bug("insertion before an op of another region");
    op->region = r;
    op->next = before;
    op->prev = before ? before->prev : r->last;
    *(op->prev ? &op->prev->next : &r->first) = op;
    *(before ? &before->prev : &r->last) = op;
    for (int i = 0; i < op->nouts; i++)
        if (op->out[i])
            op->out[i]->region = r;
}

void ir_remove(Op *op)
{
    Region *r = op->region;
    *(op->prev ? &op->prev->next : &r->first) = op->next;
    *(op->next ? &op->next->prev : &r->last) = op->prev;
    op->prev = op->next = NULL;
    op->region = NULL;
}

void ir_move(Op *op, Region *r, Op *before)
{
    if (op == before)
        return;
    ir_remove(op);
    ir_insert(op, r, before);
}

/* ---- walking ------------------------------------------------------------- */

static void replace_in(Value **at, int n, const Value *old, Value *with)
{
    for (int i = 0; i < n; i++)
        if (at[i] == old)
            at[i] = with;
}

/* The first op of r that may read v: uses follow the definition. */
static Op *first_user(const Value *v, const Region *r)
{
    return v->def && v->def->region == r ? v->def->next : r->first;
}

int ir_count_uses(const Value *v)
{
    const Region *r = v->region;
    int n = 0;
    for (const Op *op = first_user(v, r); op; op = op->next)
        for (int i = 0; i < op->nargs; i++)
            n += op->arg[i] == v;
    for (int i = 0; i < r->nyields; i++)
        n += r->yield[i] == v;
    return n;
}

void ir_replace_uses(Region *r, Value *old, Value *with)
{
    for (Op *op = first_user(old, r); op; op = op->next) {
        replace_in(op->arg, op->nargs, old, with);
        /* A body reads its own arguments only. */
        if (op->body && old->region != r)
            ir_replace_uses(op->body, old, with);
    }
    replace_in(r->yield, r->nyields, old, with);
}

Op *ir_next(const Region *r, const Op *op)
{
    if (!op)
        return r->first;
    if (op->body && op->body->first)
        return op->body->first;
    for (; !op->next; op = op->region->owner)
        if (op->region == r)
            return NULL;
    return op->next;
}

const Value *ir_find_value(const Region *r, const char *name)
{
    for_ops(op, r) {
        for (int i = 0; i < op->nouts; i++)
            if (strcmp(op->out[i]->name, name) == 0)
                return op->out[i];
        for (int i = 0; op->body && i < op->body->nargs; i++)
            if (strcmp(op->body->arg[i]->name, name) == 0)
                return op->body->arg[i];
    }
    return NULL;
}

void ir_walk(Region *r, OpVisit *visit, void *context)
{
    /* The visitor may remove the op that it is given. */
    for (Op *op = r->first, *next; op; op = next) {
        next = op->next;
        Region *body = op->body;
        visit(op, context);
        if (body)
            ir_walk(body, visit, context);
    }
}

int64_t ir_trip_count(const Op *op)
{
    int64_t n = 1;
    for (const Region *r = op->region; r && r->owner; r = r->owner->region)
        if (r->owner->kind == OP_loop)
            n *= loop_usual_trips(r->owner);
    return n;
}

/* ---- questions about ops -------------------------------------------------- */

Op *op_loop(const Op *op)
{
    Op *owner = op->region->owner;
    while (owner && owner->kind != OP_loop)
        owner = owner->region->owner;
    return owner;
}

Op *op_early(const Op *op)
{
    Op *owner = op->region->owner;
    return owner && owner->kind == OP_early ? owner : NULL;
}

bool op_reads(const Op *op, const Op *of)
{
    for (int i = 0; i < op->nargs; i++)
        if (op->arg[i]->def == of)
            return true;
    return false;
}

bool op_reads_any(const Op *op, const bool *marked)
{
    for (int i = 0; i < op->nargs; i++)
        if (marked[op->arg[i]->id])
            return true;
    return false;
}

bool op_is_zero(const Op *op)
{
    return op && (op->kind == OP_zeros ||
                  (op->kind == OP_full && attr_value(op) == 0));
}

/* ---- copies -------------------------------------------------------------- */

/* How the copy's values and ops are numbered and named: newly, or, for a whole
 * program, as in the original. */
typedef struct Copy {
    Program *p;
    Value **map; /* by id of the original; NULL: none */
    bool exact;
    Phase phase; /* unless exact */
} Copy;

/* The place with the copies of its loops, which enclose the value. */
static const Address *copy_address(const Copy *c, const Address *from)
{
    if (!from || from->nstrides == 0)
        return from;
    Address *at = arena_copy(c->p->arena, from, sizeof *from);
    for (int i = 0; i < at->nstrides; i++)
        at->loop[i] = c->map[from->loop[i]->out[0]->id]->def;
    return at;
}

static Value *copy_value(Copy *c, const Value *v)
{
    Value *w = NEW(c->p->arena, Value);
    *w = *v;
    w->address = c->exact ? copy_address(c, v->address) : NULL;
    if (!c->exact) {
        w->id = c->p->nvalues++;
        w->name = ir_unique_name(c->p, v->name);
    }
    if (c->map)
        c->map[v->id] = w;
    return w;
}

static Value *mapped(const Copy *c, Value *v)
{
    return c->map && c->map[v->id] ? c->map[v->id] : v;
}

static Value **mapped_list(const Copy *c, Value *const *at, int n)
{
    Value **list = NEW_ARRAY(c->p->arena, Value *, n);
    for (int i = 0; i < n; i++)
        list[i] = mapped(c, at[i]);
    return list;
}

static Region *copy_region(Copy *c, const Region *from, Op *owner);

static Op *copy_op(Copy *c, const Op *op, Region *r, Op *before)
{
    Op *n = NEW(c->p->arena, Op);
    *n = *op;
    if (!c->exact) {
        n->id = c->p->nops++;
        n->phase = c->phase;
        n->workspace = -1;
    }
    n->arg = mapped_list(c, op->arg, op->nargs);
    n->out = NEW_ARRAY(c->p->arena, Value *, op->nouts);
    n->region = r;
    for (int i = 0; i < op->nouts; i++)
        ir_set_out(n, i, copy_value(c, op->out[i]));
    ir_insert(n, r, before);
    if (op->body)
        n->body = copy_region(c, op->body, n);
    return n;
}

static Region *copy_region(Copy *c, const Region *from, Op *owner)
{
    Region *r = ir_raw_region(c->p, owner, from->nargs);
    for (int i = 0; i < from->nargs; i++)
        ir_set_region_arg(r, i, copy_value(c, from->arg[i]));
    for (const Op *op = from->first; op; op = op->next)
        copy_op(c, op, r, NULL);
    r->nyields = from->nyields;
    r->yield = mapped_list(c, from->yield, from->nyields);
    return r;
}

Op *ir_clone(Build *b, const Op *op, Value **map)
{
    /* Ids of clones are beyond the map, so that an operand is never mapped to a
     * value made in this call. */
    Copy c = {b->p, map, false, b->phase};
    return copy_op(&c, op, b->region, b->before);
}

Op *ir_clone_with(Build *b, const Op *op, Value *const *args)
{
    Copy c = {.p = b->p, .phase = b->phase};
    if (op->body) /* which reads its own values only */
        c.map = NEW_ARRAY(b->p->arena, Value *, b->p->nvalues);
    Op *copy = copy_op(&c, op, b->region, b->before);
    for (int i = 0; i < op->nargs; i++)
        copy->arg[i] = args[i];
    return copy;
}

static void *copy_array(Arena *a, const void *at, int n, size_t size)
{
    return n ? arena_copy(a, at, (size_t)n * size) : NULL;
}

static MemoryPlan *copy_memory(Arena *a, const MemoryPlan *from)
{
    if (!from)
        return NULL;
    MemoryPlan *m = arena_copy(a, from, sizeof *from);
    m->block = copy_array(a, from->block, from->nblocks, sizeof(Block));
    return m;
}

/* Lets attributes name the copies of the ops that they name. */
static void map_ops(const Copy *c, Op *op)
{
    const AttrName *name = op_info(op->kind)->attr;
    for (int i = 0; name[i]; i++)
        if (attr_type_of(name[i]) == ATTR_TYPE_OP && op->attr[i].o)
            op->attr[i].o = c->map[op->attr[i].o->out[0]->id]->def;
}

Program *ir_copy(const Program *p)
{
    Arena *a = p->arena;
    Program *q = NEW(a, Program);
    *q = *p;
    q->memory = copy_memory(a, p->memory);
    q->param.at = copy_array(a, p->param.at, p->param.n, sizeof(Param));
    q->param.capacity = p->param.n;
    q->input.at = copy_array(a, p->input.at, p->input.n, sizeof(Input));
    q->input.capacity = p->input.n;
    q->output.at = copy_array(a, p->output.at, p->output.n, sizeof(Output));
    q->output.capacity = p->output.n;
    q->module.at = copy_array(a, p->module.at, p->module.n, sizeof(Module));
    q->module.capacity = p->module.n;
    q->boundary_name.capacity = p->boundary_name.n; /* grows by a copy */
    q->plan.style =
        copy_array(a, p->plan.style, p->plan.nstyles, sizeof(Style));
    q->plan.unit = copy_array(a, p->plan.unit, p->plan.nunits, sizeof(Unit));
    q->plan.checkpoint = copy_array(a, p->plan.checkpoint,
                                    p->plan.ncheckpoints, sizeof(Checkpoint));
    q->names = text_map_copy(&p->names);
    Copy c = {q, NEW_ARRAY(a, Value *, p->nvalues), true, PH_FORWARD};
    q->step = copy_region(&c, p->step, NULL);
    for_ops(op, q->step)
        map_ops(&c, op);
    for (int i = 0; i < q->param.n; i++)
        if (q->param.at[i].value)
            q->param.at[i].value = mapped(&c, q->param.at[i].value);
    for (int i = 0; i < q->input.n; i++)
        if (q->input.at[i].value)
            q->input.at[i].value = mapped(&c, q->input.at[i].value);
    for (int k = 0; k < PURPOSES; k++)
        if (p->side[k]) {
            q->side[k] = ir_copy(p->side[k]);
            q->side[k]->training = q;
            if (p->side[k]->repeats)
                q->side[k]->repeats =
                    p->side[k]->repeats == p ? q : q->side[FOR_LOSS];
        }
    return q;
}
