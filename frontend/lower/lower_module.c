/* lower_module.c: creates the instances of modules, with sizes and parameters.
 *
 * Members are evaluated in order: a constant may use earlier ones, and a
 * compile-time `if` selects members. Each parameter first becomes a Candidate;
 * a tie makes one Candidate refer to another. The Candidates without a tie are
 * then numbered and become Program.param; the parameters of a module and its
 * children are adjacent.
 *
 * before   layers: [4] Block(dim)
 * after    module "layers.*" class="Block"
 *          param "layers.*.wq.weight" : f32[4 x 8, 8]
 */
#include "frontend/lower/lower.h"

#include <string.h>

static Instance *instantiate(Lower *l, const Decl *decl, Instance *at);
static void run_members(Lower *l, Instance *m, Member *const *member, int n);

static const char *join_path(Lower *l, const char *path, const char *name)
{
    return *path ? arena_printf(l->arena, "%s.%s", path, name) : name;
}

/* ---- children ------------------------------------------------------------ */

/* Binds the arguments of a child's declaration to the formals of its class. */
static bool child_formals(Lower *l, const Decl *decl, const Expr *call,
                          Binding **formals)
{
    Signature s;
    Bound bound;
    signature_of_decl(l->arena, decl, &s);
    if (!bind_call(l->arena, l->diag, &s, call, &bound))
        return false;
    *formals = bind_formals(l, decl, &bound, NULL);
    return true;
}

/* The length of an array; 1 for a single child. Checks the nesting of arrays.
 */
static bool array_length(Lower *l, const Instance *m, const Member *mb,
                         int64_t *n)
{
    *n = 1;
    if (!mb->count)
        return true;
    if (!lower_size(l, mb->count, "the length of an array", n))
        return false;
    if (m->nstack < MAX_STACK)
        return true;
    return lower_error(l, mb->name.loc, NULL,
                       "arrays are nested more than %d deep", MAX_STACK);
}

/* A declared child; all elements of an array have the same formals. */
typedef struct Child {
    const Member *member;
    const Decl *decl;
    Binding *formals;
    int64_t length;
    const char *path; /* path of the array or the child, without an index */
} Child;

static Instance *new_instance(Lower *l, Instance *m, const Child *c,
                              const LayerRun *run)
{
    Instance *child = NEW(l->arena, Instance);
    *child = (Instance){.decl = c->decl, .parent = m,
                        .name = c->member->name.name, .path = c->path,
                        .loc = lower_user_loc(l, c->member->name.loc),
                        .formals = c->formals, .nstack = m->nstack};
    memcpy(child->stack, m->stack, sizeof m->stack);
    if (!run)
        return child;
    child->is_array = true;
    child->length = c->length;
    child->count = run->count;
    child->range = run->range;
    child->period = run->period;
    child->stack[child->nstack++] = run->count;
    const char *index = run->whole ? "*"
                                   : path_range_text(l->arena, run->range);
    child->path = join_path(l, c->path, index);
    return child;
}

static Instance *add_instance(Lower *l, Instance *m, const Child *c,
                              const LayerRun *run)
{
    Frame f;
    Instance *child = new_instance(l, m, c, run);
    if (!push_frame(l, &f, c->decl->name.name, c->member->value->loc, child))
        return NULL;
    instantiate(l, c->decl, child);
    pop_frame(l);
    return child;
}

static Datum add_instances(Lower *l, Instance *m, const Child *c)
{
    Datum d = {.kind = DATUM_MODULE};
    if (!c->member->count) {
        d.module = add_instance(l, m, c, NULL);
        return d.module ? d : datum_poison();
    }
    d.kind = DATUM_ARRAY;
    LayerRuns runs = lower_runs(l, c->path, c->decl->name.name, c->length);
    Instance **next = &d.module;
    for (int i = 0; i < runs.n; i++) {
        *next = add_instance(l, m, c, &runs.at[i]);
        if (!*next)
            return datum_poison();
        (*next)->array = d.module;
        next = &(*next)->next_run;
    }
    return d;
}

static void add_child(Lower *l, Instance *m, const Member *mb)
{
    const Expr *call = mb->value;
    Child c = {.member = mb,
               .decl = lower_find_decl(l, call->loc, call->name, DC_MODULE),
               .path = join_path(l, m->path, mb->name.name)};
    Datum d = datum_poison();
    const Instance *above = m;
    while (above && above->decl != c.decl)
        above = above->parent;
    if (above && !lower_is_refused(l, call))
        lower_error(l, c.decl->name.loc, NULL, "module '%s' contains itself",
                    call->name);
    else if (c.decl && !lower_is_refused(l, call) &&
             array_length(l, m, mb, &c.length) &&
             child_formals(l, c.decl, call, &c.formals))
        d = add_instances(l, m, &c);
    if (d.kind == DATUM_POISON)
        vec_push(l->arena, &l->broken, c.path);
    m->members = bind_name(l, m->members, mb->name.name, mb->name.loc, d);
}

/* ---- parameters and buffers ---------------------------------------------- */

static bool member_type(Lower *l, const Member *mb, Type *t)
{
    *t = (Type){.dtype = DT_F32};
    if (mb->ndims > MAX_DIMS)
        return lower_error(l, mb->name.loc, NULL,
                           "a tensor has at most %d dims", MAX_DIMS);
    for (int i = 0; i < mb->ndims; i++)
        if (!lower_size(l, mb->dim[i], "a dimension", &t->dim[t->ndim++]))
            return false;
    /* Overflow check: the size in bytes must fit in 63 bits. */
    int64_t bytes = sizeof(float);
    for (int i = 0; i < t->ndim; i++)
        if (__builtin_mul_overflow(bytes, t->dim[i], &bytes))
            return lower_error(l, mb->name.loc, NULL, "'%s' is too large",
                               mb->name.name);
    return true;
}

/* The stored type of a parameter: the dims of the enclosing arrays come first.
 */
static bool param_type(Lower *l, const Instance *m, const Member *mb, Type *t)
{
    if (!member_type(l, mb, t))
        return false;
    t->nstack = m->nstack;
    memcpy(t->stack, m->stack, sizeof m->stack);
    const char *wrong = type_check(l->arena, t, &l->p->mesh);
    if (wrong)
        lower_error(l, mb->name.loc, NULL, "'%s' is too large: %s",
                    join_path(l, m->path, mb->name.name), wrong);
    return !wrong;
}

/* Adds a parameter, or a state, which is one that only `update` changes. */
static void add_param(Lower *l, Instance *m, const Member *mb)
{
    Candidate s = {.owner = m, .tied_to = -1};
    bool state = mb->kind == MB_STATE;
    bool fine = param_type(l, m, mb, &s.param.type);
    Datum init = lower_expr(l, mb->value);
    if (init.kind != DATUM_INIT && init.kind != DATUM_POISON)
        lower_error(l, mb->value->range,
                    "initializers are zeros, ones, normal(std), "
                    "truncated_normal(std), uniform(lo, hi) and arange(start)",
                    "the %s must be an initializer, not %s",
                    state ? "initial value of a state" : "value of a parameter",
                    datum_text(l->arena, init));
    if (fine && init.kind == DATUM_INIT)
        fine = lower_init_fits(l, mb->value->range, &init.init, &s.param.type);
    Datum d = datum_poison();
    if (fine) {
        s.param.name = join_path(l, m->path, mb->name.name);
        s.param.init = init.init;
        s.param.trainable = s.param.decay = !state;
        s.param.module_state = state;
        s.param.state_of = -1;
        s.param.loc = lower_user_loc(l, mb->name.loc);
        d = (Datum){.kind = DATUM_PARAM, .integer = l->candidate.n,
                    .module = m};
        vec_push(l->arena, &l->candidate, s);
    }
    m->members = bind_name(l, m->members, mb->name.name, mb->name.loc, d);
}

static void add_buffer(Lower *l, Instance *m, const Member *mb)
{
    Datum d = {.kind = DATUM_BUFFER, .module = m};
    d.buffer = NEW(l->arena, Buffer);
    d.buffer->member = mb;
    m->members = bind_name(l, m->members, mb->name.name, mb->name.loc, d);
}

/* A buffer is computed once, in the INIT phase, outside of all loops. */
Datum lower_read_buffer(Lower *l, Instance *owner, Buffer *buffer)
{
    if (buffer->lowered)
        return datum_tensor(buffer->value);
    buffer->lowered = true; /* a buffer that reads itself gets poison */
    const Member *mb = buffer->member;
    Type want;
    Frame f;
    if (!push_frame(l, &f, owner->decl->name.name,
                    l->frame ? l->frame->call : owner->loc, owner))
        return datum_poison();
    Build saved = l->b;
    Level *level = l->level;
    l->level = &l->step;
    l->b = (Build){.p = l->p, .region = l->p->step, .before = l->init_end,
                   .phase = PH_INIT, .loc = lower_user_loc(l, mb->name.loc),
                   .path = owner->path};
    bool fine = member_type(l, mb, &want);
    Datum d = lower_expr(l, mb->value);
    if (fine && datum_is_number(d))
        d = datum_tensor(ir_full(&l->b, datum_number(d), DT_F32, want.ndim,
                                 want.dim));
    if (fine && d.kind == DATUM_TENSOR) {
        if (!type_same_shape(&d.tensor->type, &want))
            lower_error(l, mb->name.loc, NULL,
                        "buffer '%s' is declared as %s, its value is %s",
                        mb->name.name,
                        type_text(l->arena, &want, &(Mesh){0}),
                        datum_text(l->arena, d));
        else
            buffer->value = d.tensor;
    } else if (fine && d.kind != DATUM_POISON) {
        lower_error(l, mb->value->range, NULL,
                    "a buffer is a tensor or a number, not %s",
                    datum_text(l->arena, d));
    }
    l->b = saved;
    l->level = level;
    pop_frame(l);
    return datum_tensor(buffer->value);
}

/* ---- ties ---------------------------------------------------------------- */

/* The candidate of a parameter that a tie names, such as output.weight, relative
 * to the instance. Elements of arrays cannot be tied. -1 after an error. */
static int find_candidate(Lower *l, Instance *m, const Expr *e,
                          Instance **owner)
{
    const char *name = e->kind == EX_NAME || e->kind == EX_MEMBER ? e->name
                                                                  : NULL;
    *owner = m;
    if (name && e->kind == EX_MEMBER)
        find_candidate(l, m, e->arg[0].value, owner);
    if (lower_is_refused(l, e))
        *owner = NULL;
    if (!*owner)
        return -1;
    const Binding *b = name ? find_name((*owner)->members, name) : NULL;
    *owner = NULL;
    if (!b) {
        lower_error(l, e->loc, NULL, name ? "unknown name '%s'"
                                          : "this does not name a parameter%s",
                    name ? name : "");
        return -1;
    }
    if (b->datum.kind == DATUM_ARRAY)
        lower_error(l, e->loc, NULL, "elements of an array cannot be tied "
                    "individually");
    if (b->datum.kind == DATUM_MODULE)
        *owner = b->datum.module;
    return b->datum.kind == DATUM_PARAM ? (int)b->datum.integer : -1;
}

static int tied_candidate(Lower *l, Instance *m, const Expr *e)
{
    Instance *owner;
    int errors = diag_error_count(l->diag);
    int candidate = find_candidate(l, m, e, &owner);
    if (candidate < 0 && errors == diag_error_count(l->diag) && owner)
        lower_error(l, e->range, NULL, "a tie needs a parameter, such as "
                    "output.weight");
    while (candidate >= 0 && l->candidate.at[candidate].tied_to >= 0)
        candidate = l->candidate.at[candidate].tied_to;
    return candidate;
}

static void add_tie(Lower *l, Instance *m, const Member *mb)
{
    int gone = tied_candidate(l, m, mb->value);
    int stays = tied_candidate(l, m, mb->other);
    if (gone < 0 || stays < 0)
        return;
    Candidate *g = &l->candidate.at[gone], *s = &l->candidate.at[stays];
    if (g->param.module_state || s->param.module_state) {
        const char *name = g->param.module_state ? g->param.name : s->param.name;
        lower_error(l, mb->loc, NULL, "'%s' is a state: only parameters can be tied", name);
        return;
    }
    if (gone == stays) {
        lower_error(l, mb->loc, NULL, "'%s' is tied to itself",
                    g->param.name);
        return;
    }
    if (!type_same_shape(&g->param.type, &s->param.type)) {
        lower_error(l, mb->loc, NULL,
                    "'%s' is %s and '%s' is %s: they cannot be one parameter",
                    g->param.name,
                    type_text(l->arena, &g->param.type, &(Mesh){0}),
                    s->param.name,
                    type_text(l->arena, &s->param.type, &(Mesh){0}));
        return;
    }
    g->tied_to = stays;
    g->tie_loc = mb->loc;
    int n = s->param.nalias + 1 + g->param.nalias, k = 0;
    const char **alias = NEW_ARRAY(l->arena, const char *, n);
    for (int i = 0; i < s->param.nalias; i++)
        alias[k++] = s->param.alias[i];
    alias[k++] = g->param.name;
    for (int i = 0; i < g->param.nalias; i++)
        alias[k++] = g->param.alias[i];
    s->param.alias = alias;
    s->param.nalias = n;
}

/* ---- members ------------------------------------------------------------- */

static void run_member(Lower *l, Instance *m, const Member *mb)
{
    bool yes;
    Datum d;
    switch (mb->kind) {
    case MB_CHILD:
        add_child(l, m, mb);
        break;
    case MB_CONSTANT:
        d = lower_expr(l, mb->value);
        m->formals = bind_name(l, m->formals, mb->name.name, mb->name.loc, d);
        break;
    case MB_PARAM:
    case MB_STATE:
        add_param(l, m, mb);
        break;
    case MB_BUFFER:
        add_buffer(l, m, mb);
        break;
    case MB_TIE:
        add_tie(l, m, mb);
        break;
    case MB_IF:
        if (lower_bool(l, mb->value, "an if's condition", &yes)) {
            if (yes)
                run_members(l, m, mb->body, mb->nbody);
            else
                run_members(l, m, mb->other_body, mb->nother);
        }
        break;
    case MB_FORWARD:
        m->forward = mb;
        break;
    }
}

static void run_members(Lower *l, Instance *m, Member *const *member, int n)
{
    for (int i = 0; i < n; i++)
        run_member(l, m, member[i]);
}

/* Fills an instance whose formals are bound; its frame is pushed. */
static Instance *instantiate(Lower *l, const Decl *decl, Instance *m)
{
    m->decl = decl;
    m->module = l->p->module.n;
    m->first_candidate = l->candidate.n;
    Module module = {.path = m->path, .class = decl->name.name, .loc = m->loc,
                     .first_param = l->candidate.n, .nout = 1};
    vec_push(l->arena, &l->p->module, module);
    vec_push(l->arena, &l->instance, m);
    l->frame->members = true;
    run_members(l, m, decl->member, decl->nmembers);
    l->frame->members = false;
    l->p->module.at[m->module].nparams = l->candidate.n - m->first_candidate;
    if (m->forward)
        l->p->module.at[m->module].nin = m->forward->ninputs;
    return m;
}

/* ---- numbering ----------------------------------------------------------- */

static void number_params(Lower *l)
{
    int *before = NEW_ARRAY(l->arena, int, l->candidate.n + 1);
    for (int i = 0; i < l->candidate.n; i++) {
        Candidate *s = &l->candidate.at[i];
        before[i] = l->p->param.n;
        s->index = l->p->param.n;
        if (s->tied_to < 0)
            vec_push(l->arena, &l->p->param, s->param);
    }
    before[l->candidate.n] = l->p->param.n;
    for (int i = 0; i < l->p->module.n; i++) {
        Module *m = &l->p->module.at[i];
        int first = m->first_param, end = first + m->nparams;
        m->first_param = before[first];
        m->nparams = before[end] - before[first];
    }
}

/* The last two segments of a name, or one if the first of them is an index. */
static const char *short_name(const char *name)
{
    const char *dot = NULL, *before = NULL;
    for (const char *p = name; *p; p++) {
        if (*p != '.')
            continue;
        before = dot;
        dot = p;
    }
    const char *s = before ? before + 1 : name;
    return *s == '*' || (*s >= '0' && *s <= '9') ? dot + 1 : s;
}

static void param_ops(Lower *l)
{
    for (int i = 0; i < l->p->param.n; i++) {
        Param *param = &l->p->param.at[i];
        Attr attr[MAX_ATTRS] = {{.i = i}};
        const char *hint = short_name(param->name);
        l->b.loc = param->loc;
        Op *op = ir_op_typed(&l->b, OP_param, 0, NULL, attr, 1, &param->type,
                             &hint);
        param->value = op->out[0];
    }
}

Instance *lower_instances(Lower *l, Binding *formals)
{
    Instance *m = NEW(l->arena, Instance);
    *m = (Instance){.path = "", .name = l->model->name.name,
                    .loc = l->model->name.loc, .formals = formals};
    Frame f;
    if (!push_frame(l, &f, m->name, m->loc, m))
        return NULL;
    instantiate(l, l->model, m);
    pop_frame(l);
    number_params(l);
    param_ops(l);
    return m;
}
