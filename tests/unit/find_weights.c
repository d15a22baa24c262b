/* find_weights.c: finds the weight, and the biases, of each module from the ops
 * of its forward.
 *
 * Lowering records weights. Programs that tests build without it have none, and
 * the record of a model can be compared with what its ops say:
 *
 *   %x.3 = boundary{path="up", port=in0} %h    the first input of "up"
 *   %e   = einsum{spec="abk,kn->abn"} %x.3, %w   w is the weight of "up":
 *                                                in_dim 0, out_dim 1
 *   %y   = add %e, %b                            b is a bias of w
 */
#include <string.h>

#include "ir/analysis/producer.h"
#include "tests/unit/random.h"

/* A weight, and the module that has it. */
typedef struct Found {
    const char *path;
    Weight weight;
} Found;

/* The walk's result for a value, by its id. */
typedef struct Trail {
    const char *input; /* the module whose first input it is, or ops of that
                        * which keep the last dim; NULL: none */
    int found;         /* 1 + the weight whose result it is, likewise; 0: none */
} Trail;

typedef struct Walk {
    const Program *p;
    VEC(Found) found;
    Trail *origin;
} Walk;

static bool is_child(const char *module, const char *name)
{
    size_t n = strlen(module);
    if (n == 0)
        return !strchr(name, '.');
    return strncmp(name, module, n) == 0 && name[n] == '.' &&
           !strchr(name + n + 1, '.');
}

static bool module_declares(const Program *p, const char *module, int param)
{
    if (param < 0)
        return false;
    const Param *q = &p->param.at[param];
    bool found = is_child(module, q->name);
    for (int i = 0; i < q->nalias; i++)
        found = found || is_child(module, q->alias[i]);
    return found;
}

static bool is_input(const Walk *w, const Value *v, const char *module)
{
    const char *input = w->origin[v->id].input;
    return input && strcmp(input, module) == 0;
}

static void add_weight(Walk *w, const Op *op, Weight weight)
{
    int i = 0;
    for (; i < w->found.n; i++) {
        const Weight *r = &w->found.at[i].weight;
        if (r->param == weight.param && r->in_dim == weight.in_dim &&
            strcmp(w->found.at[i].path, op->path) == 0 &&
            r->lookup == weight.lookup)
            break;
    }
    if (i == w->found.n)
        vec_push(w->p->arena, &w->found, ((Found){op->path, weight}));
    w->origin[op->out[0]->id].found = i + 1;
}

/* The letters of one tensor of a spec. */
typedef struct Letters {
    const char *at;
    size_t n;
} Letters;

static Letters letters_of(const char *spec, int tensor)
{
    for (; tensor > 0; tensor--)
        spec += strcspn(spec, ",>") + 1;
    return (Letters){spec, strcspn(spec, ",-")};
}

static bool has_letter(Letters l, char c)
{
    return memchr(l.at, c, l.n) != NULL;
}

static char last_letter(Letters l)
{
    return l.n > 0 ? l.at[l.n - 1] : 0;
}

/* x's last dim is contracted with one dim of the weight, whose other dim is the
 * result's last. */
static void look_at_einsum(Walk *w, const Op *op)
{
    const char *spec = attr_spec(op);
    Letters out = letters_of(spec, op->nargs);
    for (int i = 0; i < 2 && op->nargs == 2; i++) {
        int param = value_param(op->arg[i]);
        Letters weight = letters_of(spec, i), x = letters_of(spec, 1 - i);
        if (weight.n != 2 || !module_declares(w->p, op->path, param) ||
            !is_input(w, op->arg[1 - i], op->path))
            continue;
        int in = weight.at[0] == last_letter(x) ? 0 : 1;
        char free = weight.at[1 - in];
        if (weight.at[in] == last_letter(x) &&
            !has_letter(out, weight.at[in]) && !has_letter(x, free) &&
            last_letter(out) == free)
            add_weight(w, op, (Weight){.param = param, .in_dim = in,
                                         .out_dim = 1 - in});
    }
}

static void look_at_lookup(Walk *w, const Op *op)
{
    int param = value_param(op->arg[0]);
    if (module_declares(w->p, op->path, param) &&
        is_input(w, op->arg[1], op->path))
        add_weight(w, op, (Weight){.param = param, .lookup = true,
                                     .in_dim = 0, .out_dim = 1});
}

/* A 1-D parameter that has the result's last dim. One of size 1 is broadcast
 * over it. */
static bool is_bias(const Program *p, const Op *op, int param)
{
    const Type *out = &op->out[0]->type;
    const Type *t = param >= 0 ? &p->param.at[param].type : NULL;
    return t && t->ndim == 1 && t->dim[0] > 1 &&
           t->dim[0] == out->dim[out->ndim - 1] &&
           module_declares(p, op->path, param);
}

static void add_bias(Walk *w, const Op *op, Weight *weight)
{
    for (int i = 0; i < op->nargs; i++) {
        int param = value_param(op->arg[i]);
        bool known = weight->nbiases == MAX_BIASES ||
                     !is_bias(w->p, op, param);
        for (int k = 0; k < weight->nbiases; k++)
            known = known || weight->bias[k] == param;
        if (!known)
            weight->bias[weight->nbiases++] = param;
    }
}

/* Whether the op keeps the features, the last dim, of its operand: a sum over
 * other dims, or a reshape of them. The pass `einsum` inserts both before a
 * contraction. */
static bool keeps_features(const Op *op)
{
    const Type *x = &op->arg[0]->type, *y = &op->out[0]->type;
    const AttrList *sum = op->kind == OP_sum ? attr_dims(op) : NULL;
    if (x->ndim == 0 || y->ndim == 0 || (!sum && op->kind != OP_reshape))
        return false;
    for (int i = 0; sum && i < sum->n; i++)
        if (sum->v[i] == x->ndim - 1)
            return false;
    return x->dim[x->ndim - 1] == y->dim[y->ndim - 1];
}

/* The result of an elementwise op gets the entries of its operands. */
static void look_at_elementwise(Walk *w, const Op *op)
{
    Trail *to = &w->origin[op->out[0]->id];
    for (int i = 0; i < op->nargs; i++) {
        const Trail *from = &w->origin[op->arg[i]->id];
        if (from->input && strcmp(from->input, op->path) == 0)
            to->input = from->input;
        if (from->found && !to->found &&
            strcmp(w->found.at[from->found - 1].path, op->path) == 0)
            to->found = from->found;
    }
    if (to->found)
        add_bias(w, op, &w->found.at[to->found - 1].weight);
}

static void look_at(Walk *w, Op *op)
{
    if (op->phase != PH_FORWARD)
        return;
    if (op->kind == OP_boundary) {
        bool first = port_equal(attr_port(op), (Port){.input = true});
        w->origin[op->out[0]->id] =
            (Trail){.input = first ? attr_path(op) : NULL};
    } else if (op->kind == OP_einsum) {
        look_at_einsum(w, op);
    } else if (op->kind == OP_embedding) {
        look_at_lookup(w, op);
    } else if (op_is_elementwise(op->kind) && op->nouts == 1) {
        look_at_elementwise(w, op);
    } else if (op->nargs == 1 && op->nouts == 1 && keeps_features(op)) {
        w->origin[op->out[0]->id].input = w->origin[op->arg[0]->id].input;
    }
}

void find_weights(Program *p)
{
    Walk w = {.p = p};
    w.origin = NEW_ARRAY(p->arena, Trail, p->nvalues + 1);
    for_ops(op, p->step)
        look_at(&w, op);
    for (int i = 0; i < p->module.n; i++)
        memset(&p->module.at[i].weight, 0, sizeof p->module.at[i].weight);
    for (int i = 0; i < w.found.n; i++)
        vec_push(p->arena, &ir_module(p, w.found.at[i].path)->weight,
                 w.found.at[i].weight);
}

const char *weights_differ(const Program *p)
{
    Program *q = ir_copy(p);
    find_weights(q);
    for (int i = 0; i < p->module.n; i++) {
        const Module *x = &p->module.at[i], *y = &q->module.at[i];
        bool same = x->weight.n == y->weight.n;
        for (int k = 0; same && k < x->weight.n; k++)
            same = memcmp(&x->weight.at[k], &y->weight.at[k],
                          sizeof(Weight)) == 0;
        if (!same)
            return x->path;
    }
    return NULL;
}
