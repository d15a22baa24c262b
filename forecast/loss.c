/* loss.c: where a step loses time; see loss.h. */
#include "forecast/loss.h"

#include <stdlib.h>
#include <string.h>

#include "ir/options.h"
#include "ir/plan/user_axes.h"
#include "ir/units.h"

typedef struct Losses {
    const Program *p;
    const Forecast *f;
    VEC(Loss) loss;
} Losses;

/* Seconds for one reason, and the statement with the most of them. */
typedef struct Sum {
    double seconds, most;
    const Statement *of;
} Sum;

static void add_to(Sum *s, double seconds, const Statement *of)
{
    s->seconds += seconds;
    if (seconds <= s->most)
        return;
    s->most = seconds;
    s->of = of;
}

static void add_loss(Losses *l, double seconds, const char *what, const char *remedy)
{
    if (seconds > 0)
        vec_push(l->p->arena, &l->loss, ((Loss){seconds, what, remedy}));
}

/* ---- collectives --------------------------------------------------------- */

static bool is_of_unit(const Op *op)
{
    return (op->kind == OP_all_gather || op->kind == OP_reduce_scatter) &&
           attr_unit(op) && *attr_unit(op);
}

static const char *collective_remedy(const Losses *l, uint32_t axes, const Op *most)
{
    Arena *a = l->p->arena;
    const char *axis = user_axes_text(l->p, axes);
    if (is_of_unit(most) && most->kind == OP_reduce_scatter &&
        most->arg[0]->type.dtype == DT_F32 && l->p->train.precision != DT_F32)
        return arena_printf(a, "`%s=%s` for the units halves the bytes of gradients",
                            option_name(OPTION_unit_reduce), dtype_name(DT_BF16));
    if (is_of_unit(most))
        return arena_printf(a, "more tokens on each rank: fewer ranks on '%s', or a "
                            "larger batch", axis);
    if (most->recomputed && l->p->train.recompute == RECOMPUTE_ALL)
        return arena_printf(a, "`recompute=%s` saves what the backward pass "
                            "re-gathers, if the memory allows it",
                            option_word(OPTION_recompute, RECOMPUTE_ELEMENTWISE));
    if ((axes & l->p->plan.tensor_axes) && l->p->streams > 1 && l->p->train.async_tp < 2 &&
        !l->p->train.head_chunk && !l->p->plan.pipeline.axes)
        return arena_printf(a, "`%s=2` computes one half of a microbatch while the other is "
                            "gathered or reduced", option_name(OPTION_async_tp));
    if (spans_nodes(l->p, l->f->machine, axes))
        return arena_printf(a, "keep '%s' inside a node", axis);
    return arena_printf(a, "fewer ranks on '%s'", axis);
}

/* Whether the collective is the first of the list over its axes. */
static bool is_first_over(const Forecast *f, int i)
{
    for (int k = 0; k < i; k++)
        if (f->work[k].class == WORK_COLLECTIVE &&
            attr_axes(f->statement[k].op) == attr_axes(f->statement[i].op))
            return false;
    return true;
}

static void add_collectives(Losses *l)
{
    const Forecast *f = l->f;
    for (int i = 0; i < f->n; i++) {
        if (f->work[i].class != WORK_COLLECTIVE || !is_first_over(f, i))
            continue;
        Sum sum = {0};
        uint32_t axes = attr_axes(f->statement[i].op);
        for (int k = i; k < f->n; k++)
            if (f->work[k].class == WORK_COLLECTIVE &&
                attr_axes(f->statement[k].op) == axes)
                add_to(&sum, f->time[k].exposed, &f->statement[k]);
        if (sum.of)
            add_loss(l, sum.seconds,
                     arena_printf(l->p->arena, "waiting for collectives over %s, most "
                                  "for %s", user_axes_text(l->p, axes), sum.of->id),
                     collective_remedy(l, axes, sum.of->op));
    }
}

/* ---- statements that compute --------------------------------------------- */

static double sustained(const Losses *l, const Statement *s)
{
    const Machine *m = l->f->machine;
    return machine_value(m, matmul_sustained) *
           (dtype_size(s->type[0]) == 2 ? machine_value(m, peak_bf16)
                                        : machine_value(m, peak_f32));
}

static void add_matmuls(Losses *l)
{
    const Forecast *f = l->f;
    Sum sum = {0};
    for (int i = 0; i < f->n; i++)
        if (f->work[i].class == WORK_MATMUL) {
            double ideal = f->statement[i].flops / sustained(l, &f->statement[i]);
            double times = f->work[i].seconds > 0
                               ? f->time[i].run / f->work[i].seconds
                               : 0;
            add_to(&sum, f->time[i].run - f->time[i].slowed - times * ideal,
                   &f->statement[i]);
        }
    if (sum.of)
        add_loss(l, sum.seconds,
                 arena_printf(l->p->arena, "matmuls below the rate of large ones, most "
                              "in %s (%lld x %lld x %lld)", sum.of->id,
                              (long long)sum.of->m, (long long)sum.of->n,
                              (long long)sum.of->k),
                 "more rows or columns on each rank: more tokens in a microbatch, or "
                 "fewer ranks on the axis that divides the weights");
}

static void add_slowed(Losses *l)
{
    Sum sum = {0};
    for (int i = 0; i < l->f->n; i++)
        if (l->f->work[i].fills)
            add_to(&sum, l->f->time[i].slowed, &l->f->statement[i]);
    if (sum.of)
        add_loss(l, sum.seconds,
                 arena_printf(l->p->arena, "matmuls and attention that share "
                              "multiprocessors with collectives, most %s", sum.of->id),
                 "fewer bytes of collectives, or fewer channels: NCCL_MAX_CTAS");
}

static void add_recomputed(Losses *l)
{
    Sum sum = {0};
    for (int i = 0; i < l->f->n; i++)
        if (l->f->statement[i].op->recomputed)
            add_to(&sum, l->f->time[i].exposed, &l->f->statement[i]);
    if (sum.of)
        add_loss(l, sum.seconds,
                 arena_printf(l->p->arena, "recomputing the forward pass, most %s",
                              sum.of->id),
                 "`checkpoint` fewer layers (`every=2`) if the memory allows it");
}

static void add_kernels(Losses *l)
{
    const Forecast *f = l->f;
    Sum step = {0}, update = {0};
    for (int i = 0; i < f->n; i++)
        if (f->work[i].class == WORK_KERNEL || f->work[i].class == WORK_COPY) {
            bool updates = f->statement[i].op->phase == PH_OPTIMIZER;
            add_to(updates ? &update : &step, f->time[i].exposed, &f->statement[i]);
        }
    if (step.of)
        add_loss(l, step.seconds,
                 arena_printf(l->p->arena, "kernels at the bandwidth of the memory, most "
                              "%s", step.of->id),
                 l->p->train.precision == DT_F32
                     ? "`precision = bf16` halves their bytes"
                 : l->p->train.recompute != RECOMPUTE_FUSED
                     ? "`recompute=fused` has the least traffic, if the memory allows it"
                     : "more ranks on an axis that divides activations by sequence");
    if (update.of)
        add_loss(l, update.seconds, "the optimizer's kernels",
                 "more ranks that shard the optimizer's states, or more microbatches");
}

static void add_rest(Losses *l)
{
    const Forecast *f = l->f;
    add_loss(l, f->bubble, "waiting for other stages of the pipeline",
             "more microbatches (`accumulate`), or `schedule=interleaved`");
    add_loss(l, f->waits, "between statements",
             "more tokens in a microbatch: longer statements");
    Sum transfers = {0};
    for (int i = 0; i < f->n; i++)
        if (f->work[i].class == WORK_TRANSFER)
            add_to(&transfers, f->time[i].exposed, &f->statement[i]);
    if (transfers.of)
        add_loss(l, transfers.seconds,
                 arena_printf(l->p->arena, "waiting for host memory, most for %s",
                              transfers.of->id),
                 "offload less, or prefetch earlier");
}

static int by_seconds(const void *x, const void *y)
{
    double a = ((const Loss *)x)->seconds, b = ((const Loss *)y)->seconds;
    return (a < b) - (a > b);
}

const Loss *losses_of(const Program *p, const Forecast *f, int *n)
{
    Losses l = {.p = p, .f = f};
    add_collectives(&l);
    add_matmuls(&l);
    add_slowed(&l);
    add_recomputed(&l);
    add_kernels(&l);
    add_rest(&l);
    if (l.loss.n > 1)
        qsort(l.loss.at, (size_t)l.loss.n, sizeof *l.loss.at, by_seconds);
    *n = l.loss.n;
    return l.loss.at;
}
