/* interp.c: the reference interpreter: entry points, the table of
 * evaluators.
 *
 * Most ops are evaluated rank
 * by rank (`local`); those that need all ranks, or have a body, are evaluated
 * once (`whole`). After every op its Replicate results are compared between
 * ranks, so that an error is reported at the op that causes it.
 */
#include "tests/interp/interp_impl.h"

#include "base/bug.h"

#include <stdarg.h>
#include <string.h>

typedef struct Evaluator {
    LocalEval *local;
    WholeEval *whole;
} Evaluator;

static const Evaluator evaluators[OP_COUNT] = {
    [OP_full] = {.local = interp_full},
    [OP_zeros] = {.local = interp_zeros},
    [OP_iota] = {.local = interp_iota},
    [OP_random] = {.local = interp_random},
    [OP_split_key] = {.local = interp_split_key},
    [OP_sum] = {.local = interp_reduce},
    [OP_max] = {.local = interp_reduce},
    [OP_sumsq] = {.whole = interp_sumsq},
    [OP_reshape] = {.local = interp_reshape},
    [OP_fold] = {.local = interp_reshape},
    [OP_unfold] = {.local = interp_reshape},
    [OP_transpose] = {.local = interp_transpose},
    [OP_slice] = {.local = interp_slice},
    [OP_pad] = {.local = interp_pad},
    [OP_concat] = {.local = interp_concat},
    [OP_einsum] = {.local = interp_einsum},
    [OP_einsum_bias] = {.local = interp_einsum_bias},
    [OP_einsum_add] = {.local = interp_einsum_add},
    [OP_einsum_bias_grad] = {.local = interp_einsum_bias_grad},
    [OP_einsum_gelu] = {.local = interp_einsum_gelu},
    [OP_einsum_gelu_grad] = {.local = interp_einsum_gelu_grad},
    [OP_embedding] = {.local = interp_embedding},
    [OP_embedding_grad] = {.local = interp_embedding_grad},
    [OP_embedding_add] = {.local = interp_embedding_add},
    [OP_onehot] = {.local = interp_onehot},
    [OP_topk] = {.local = interp_topk},
    [OP_topk_grad] = {.local = interp_topk_grad},
    [OP_conv] = {.local = interp_conv},
    [OP_conv_grad_x] = {.local = interp_conv},
    [OP_conv_grad_weight] = {.local = interp_conv},
    [OP_limit_choices] = {.local = interp_limit_choices},
    [OP_group_rows] = {.local = interp_group_rows},
    [OP_gather_rows] = {.local = interp_gather_rows},
    [OP_combine_rows] = {.local = interp_combine_rows},
    [OP_gather_pairs] = {.local = interp_gather_rows},
    [OP_scatter_pairs] = {.local = interp_combine_rows},
    [OP_grouped_matmul] = {.local = interp_grouped_matmul},
    [OP_grouped_matmul_grad_rows] = {.local = interp_grouped_matmul},
    [OP_grouped_matmul_grad_weight] = {.local = interp_grouped_matmul},
    [OP_rotary] = {.local = interp_rotary},
    [OP_attention] = {.local = interp_attention},
    [OP_attention_grad] = {.local = interp_attention_grad},
    [OP_attention_sinks] = {.local = interp_attention_sinks},
    [OP_attention_bias_grad] = {.local = interp_attention_bias_grad},
    [OP_attention_step] = {.local = interp_attention},
    [OP_attention_grad_step] = {.local = interp_attention_grad},
    [OP_base] = {.local = interp_base},
    [OP_param] = {.whole = interp_param_op},
    [OP_input] = {.whole = interp_input_op},
    [OP_scalar] = {.whole = interp_scalar_op},
    [OP_update] = {.whole = interp_update},
    [OP_assign] = {.whole = interp_assign},
    [OP_output] = {.whole = interp_output_op},
    [OP_loop] = {.whole = interp_loop},
    [OP_fused] = {.whole = interp_fused},
    [OP_early] = {.whole = interp_nothing},
    [OP_start] = {.whole = interp_nothing},
    [OP_record] = {.whole = interp_nothing},
    [OP_wait] = {.whole = interp_nothing},
    [OP_join] = {.whole = interp_nothing},
    [OP_post] = {.whole = interp_nothing},
    [OP_await] = {.whole = interp_nothing},
    [OP_barrier] = {.whole = interp_nothing},
    [OP_all_gather] = {.whole = interp_collective},
    [OP_all_reduce] = {.whole = interp_collective},
    [OP_reduce_scatter] = {.whole = interp_collective},
    [OP_all_to_all] = {.whole = interp_collective},
    [OP_shift] = {.whole = interp_shift},
    [OP_move] = {.whole = interp_collective},
    [OP_receive] = {.whole = interp_collective},
    [OP_send] = {.whole = interp_collective},
    [OP_local_slice] = {.whole = interp_collective},
    [OP_mask_to_partial] = {.whole = interp_collective},
};

/* ---- execution -------------------------------------------------------- */

static bool operands_computed(Interp *in, const Op *op)
{
    for (int i = 0; i < op->nargs; i++)
        if (!in->slot[op->arg[i]->id].at) {
            interp_fail(in, op, "operand %%%s has not been computed",
                        op->arg[i]->name);
            return false;
        }
    return true;
}

static void tell_watcher(Interp *in, const Op *op, bool done)
{
    const char *fault = NULL;
    if (in->watch && !in->error)
        fault = in->watch(in->watcher, in, op, done);
    if (fault)
        interp_fail(in, op, "%s", fault);
}

static void run_op(Interp *in, const Op *op)
{
    const Evaluator *e = &evaluators[op->kind];
    if (!operands_computed(in, op))
        return;
    tell_watcher(in, op, false);
    for (int i = 0; i < op->nouts; i++)
        interp_make(in, op->out[i]);
    if (e->whole) {
        e->whole(in, op);
    } else {
        LocalEval *local = e->local;
        if (!local && interp_has_function(op->kind))
            local = interp_elementwise;
        if (!local)
            bug("interpreter: no evaluator for '%s'", op_info(op->kind)->name);
        for (int64_t rank = 0; rank < in->ranks && !in->error; rank++)
            local(in, op, rank);
    }
    for (int i = 0; i < op->nouts && !in->error; i++) {
        interp_forget(in, op->out[i]);
        interp_check_equal(in, op, op->out[i]);
    }
    tell_watcher(in, op, true);
}

void interp_region(Interp *in, const Region *r)
{
    for (const Op *op = r->first; op && !in->error; op = op->next)
        run_op(in, op);
}

const char *interp_run(Interp *in)
{
    in->error = NULL;
    in->output.n = 0;
    for (int i = 0; i < in->p->param.n; i++)
        in->assigned[i] = in->after[i] = NULL;
    interp_region(in, in->p->step);
    return in->error;
}

/* ---- inputs and outputs ------------------------------------------------ */

Interp *interp_new(const Program *p)
{
    Arena *arena = arena_new();
    Interp *in = NEW(arena, Interp);
    in->arena = arena;
    in->p = p;
    if (p->stage >= STAGE_PARTITIONED)
        in->mesh = p->mesh;
    in->ranks = mesh_parts(&in->mesh);
    in->slot = NEW_ARRAY(arena, Slot, p->nvalues + 1);
    in->param = NEW_ARRAY(arena, double *, p->param.n + 1);
    in->assigned = NEW_ARRAY(arena, double *, p->param.n + 1);
    in->after = NEW_ARRAY(arena, double *, p->param.n + 1);
    in->input = NEW_ARRAY(arena, double *, p->input.n + 1);
    in->layer = NEW_ARRAY(arena, int64_t, p->nops + 1);
    interp_set_scalar(in, "clip", p->train.clip);
    return in;
}

void interp_free(Interp *in)
{
    arena_free(in->arena);
}

static void set_tensor(Interp *in, double **slot, const Type *t,
                       const double *global)
{
    size_t bytes = sizeof(double) * (size_t)type_elements(t);
    if (!*slot)
        *slot = arena_alloc(in->arena, bytes);
    memcpy(*slot, global, bytes);
}

int64_t param_true_index(const Param *p, int64_t i)
{
    const Type *t = &p->type;
    int64_t index = 0, stride = 1;
    for (int d = t->ndim; d-- > 0; i /= t->dim[d]) {
        int64_t at = i % t->dim[d], size = t->dim[d] - p->pad[d];
        if (at >= size)
            return -1;
        index += at * stride;
        stride *= size;
    }
    return index + i * stride; /* the layer */
}

static void set_param(Interp *in, int param, const double *global)
{
    const Param *p = &in->p->param.at[param];
    in->after[param] = NULL;
    if (!param_is_padded(p)) {
        set_tensor(in, &in->param[param], &p->type, global);
        return;
    }
    int64_t n = type_elements(&p->type);
    double *padded = NEW_ARRAY(in->arena, double, n + 1);
    for (int64_t i = 0; i < n; i++) {
        int64_t from = param_true_index(p, i);
        padded[i] = from < 0 ? 0 : global[from];
    }
    set_tensor(in, &in->param[param], &p->type, padded);
}

void interp_set_param(Interp *in, int param, const double *global)
{
    const Program *p = in->p;
    if (p->param.at[param].init.kind == INIT_COPY)
        return;
    for (int i = 0; i < p->param.n; i++)
        if (i == param || (p->param.at[i].init.kind == INIT_COPY &&
                           p->param.at[i].state_of == param))
            set_param(in, i, global);
}

void interp_set_input(Interp *in, int input, const double *global)
{
    set_tensor(in, &in->input[input], &in->p->input.at[input].type, global);
}

void interp_set_scalar(Interp *in, const char *name, double value)
{
    for (int i = 0; i < in->scalar.n; i++)
        if (strcmp(in->scalar.at[i].name, name) == 0) {
            in->scalar.at[i].value = value;
            return;
        }
    NamedScalar s = {arena_strdup(in->arena, name), value};
    vec_push(in->arena, &in->scalar, s);
}

bool interp_output(Interp *in, const char *name, double *value)
{
    for (int i = 0; i < in->output.n; i++)
        if (strcmp(in->output.at[i].name, name) == 0) {
            *value = in->output.at[i].value;
            return true;
        }
    return false;
}

bool interp_assigned(const Interp *in, int param)
{
    return in->assigned[param] != NULL;
}

const double *interp_param(Interp *in, int param)
{
    const Param *p = &in->p->param.at[param];
    if (in->after[param])
        return in->after[param];
    if (!in->assigned[param] && !param_is_padded(p))
        return in->param[param];
    int64_t n = type_elements(&p->type);
    double *after = NEW_ARRAY(in->arena, double, n + 1);
    if (in->assigned[param])
        interp_assemble(in, &p->type, in->assigned[param], after);
    else
        memcpy(after, in->param[param], sizeof *after * (size_t)n);
    /* Remove padding in place: elements move to lower indices. */
    for (int64_t i = 0; i < n; i++) {
        int64_t to = param_true_index(p, i);
        if (to >= 0)
            after[to] = after[i];
    }
    return in->after[param] = after;
}

const double *interp_value(Interp *in, const char *name, Type *type)
{
    const Value *v = ir_find_value(in->p->step, name);
    if (!v || !in->slot[v->id].at)
        return NULL;
    if (type)
        *type = v->type;
    double *global = NEW_ARRAY(in->arena, double, type_elements(&v->type) + 1);
    interp_assemble(in, &v->type, in->slot[v->id].at, global);
    return global;
}

/* ---- observation -------------------------------------------------------- */

double *interp_parts(const Interp *in, const Value *v, int64_t *n)
{
    *n = in->slot[v->id].shape.n;
    return in->slot[v->id].at;
}

int64_t interp_layer(const Interp *in, const Op *loop)
{
    return in->layer[loop->id];
}

void interp_watch(Interp *in, InterpWatch *watch, void *context)
{
    in->watch = watch;
    in->watcher = context;
}
