/* cuda_online.c: prints the two instructions that kernel_online.c creates:
 * KERNEL_ONLINE, a sum relative to a running maximum (online softmax), and
 * KERNEL_PICK, the element of a row in a given column (a label's logit).
 *
 *   r1 = max x, r4 = sum exp(x - r1), of a row that is read once:
 *
 *   float held1[8], top1 = r1;
 *   for (e …) { …  held1[e] = t0; top1 = parc_max(top1, t0); }
 *   const float base1 = online_base(top1);
 *   r4 *= online_power(r1, base1);
 *   r1 = top1;
 *   for (e …) r4 += online_power(held1[e], base1);
 *   …
 *   block_put(warp_max(r1), sum1);
 *   block_put(warp_online(r4, r1), sum4);
 *   block_barrier();
 *   r1 = block_get_max(sum1);
 *   r4 = block_get_online(sum4, sum1);
 *
 * The sum is rescaled once for each vector, not for each element: nine
 * exponentials for eight elements. While all elements so far are -inf, 0 is
 * subtracted and the exponentials are 0.
 *
 * Reference: Milakov and Gimelshein, Online normalizer calculation for softmax,
 * 2018.
 */
#include "codegen/cuda/cuda_kernel.h"

static bool is_sum(const Kernel *k, const KernelRoot *root, int max)
{
    return root->kind == ROOT_REDUCE &&
           k->instr[root->target].code == KERNEL_ONLINE &&
           k->instr[root->target].arg[0] == max;
}

/* Whether the kernel has sums relative to this maximum. */
static bool has_sums(const Kernel *k, int max)
{
    for (int r = 0; r < k->nroots; r++)
        if (is_sum(k, &k->root[r], max))
            return true;
    return false;
}

static const char *held(const CudaPrinter *c, int instr)
{
    return arena_printf(c->text.p->arena, "held%d[%s]", instr,
                        cuda_place_in(c, NULL, 0));
}

bool cuda_online_element(CudaPrinter *c, const KernelRoot *root)
{
    const Kernel *k = c->plan->k;
    const KernelInstr *to = &k->instr[root->target];
    const char *value = kernel_value(&c->text, root->instr, 't', 0);
    bool sum = to->code == KERNEL_ONLINE;
    if (!sum && !has_sums(k, root->target))
        return false;
    if (!sum || to->nargs > 1)
        out_line(c->text.o, "%s = %s;", held(c, root->target), value);
    if (!sum)
        kernel_statement(&c->text, to->source, "top%d = parc_max(top%d, %s);",
                         root->target, root->target, value);
    return true;
}

/* Visits the maxima of the phase that have such sums, and their sums. */
static void each(CudaPrinter *c, int phase,
                 void (*visit)(CudaPrinter *, int max, int sum))
{
    const Kernel *k = c->plan->k;
    for (int r = 0; r < k->nroots; r++) {
        const KernelRoot *root = &k->root[r];
        if (root->kind != ROOT_REDUCE || root->phase != phase ||
            !has_sums(k, root->target))
            continue;
        visit(c, root->target, -1);
        for (int i = 0; i < k->nroots; i++)
            if (is_sum(k, &k->root[i], root->target))
                visit(c, root->target, k->root[i].target);
    }
}

static void declare_held(CudaPrinter *c, int max, int sum)
{
    int n = c->plan->vector;
    if (sum < 0)
        out_line(c->text.o, "float held%d[%d], top%d = r%d;", max, n, max, max);
    else if (c->plan->k->instr[sum].nargs > 1)
        out_line(c->text.o, "float held%d[%d];", sum, n);
}

/* Rescales the sums so far to the new maximum; r<n> of the maximum still has
 * the old one. */
static void rescale_sums(CudaPrinter *c, int max, int sum)
{
    if (sum < 0)
        out_line(c->text.o, "const float base%d = online_base(top%d);", max,
                 max);
    else
        out_line(c->text.o, "r%d *= online_power(r%d, base%d);", sum, max, max);
}

static void set_maximum(CudaPrinter *c, int max, int sum)
{
    if (sum < 0)
        out_line(c->text.o, "r%d = top%d;", max, max);
}

static void add_powers(CudaPrinter *c, int max, int sum)
{
    if (sum < 0)
        return;
    const KernelInstr *to = &c->plan->k->instr[sum];
    const char *factor =
        to->nargs > 1 ? arena_printf(c->text.p->arena, "%s * ", held(c, sum))
                      : "";
    kernel_statement(&c->text, to->source, "r%d += %sonline_power(%s, base%d);",
                     sum, factor, held(c, max), max);
}

void cuda_online_begin(CudaPrinter *c, int phase)
{
    each(c, phase, declare_held);
}

void cuda_online_end(CudaPrinter *c, int phase)
{
    bool any = false;
    for (int r = 0; r < c->plan->k->nroots; r++)
        any |= c->plan->k->root[r].phase == phase &&
               c->plan->k->root[r].kind == ROOT_REDUCE &&
               c->plan->k->instr[c->plan->k->root[r].target].code ==
                   KERNEL_ONLINE;
    if (!any)
        return;
    each(c, phase, rescale_sums);
    each(c, phase, set_maximum);
    int vector = cuda_open_vector(c);
    each(c, phase, add_powers);
    cuda_close_vector(c, vector);
}

/* ---- reductions across warps --------------------------------------------- */

const char *cuda_online_warp(const CudaPrinter *c, int sum)
{
    return arena_printf(c->text.p->arena, "warp_online(r%d, r%d)", sum,
                        c->plan->k->instr[sum].arg[0]);
}

const char *cuda_online_block(const CudaPrinter *c, int sum)
{
    return arena_printf(c->text.p->arena, "block_get_online(%s, %s)",
                        cuda_sum_array(c, sum),
                        cuda_sum_array(c, c->plan->k->instr[sum].arg[0]));
}

/* ---- picked elements ----------------------------------------------------- */

/* Every thread of the row computes the picked value, so that no exchange is
 * needed. */
void cuda_pick(CudaPrinter *c, int instr)
{
    const CudaPlan *p = c->plan;
    const KernelInstr *pick = &p->k->instr[instr];
    Arena *a = c->text.p->arena;
    const char *column =
        kernel_value(&c->text, p->k->instr[pick->arg[1]].arg[0], 'r', 0);
    const char *there = arena_printf(a, "%s >= 0 && %s < %lld", column, column,
                                     (long long)p->columns);
    if (pick->arg[0] == pick->arg[1]) {
        kernel_statement(&c->text, pick->source,
                         "const float r%d = parc_select(%s, 1.0f, 0.0f);",
                         instr, there);
        return;
    }
    out_line(c->text.o, "%s r%d = 0;", c_value_type(pick->dtype), instr);
    int opened = cuda_open_block(c, "if (%s) {", there);
    out_line(c->text.o, "const %s j = %s;", cuda_column_type(p), column);
    kernel_compute(&c->text, pick->arg[0], 't');
    out_line(c->text.o, "r%d = %s;", instr,
             kernel_value(&c->text, pick->arg[0], 't', 0));
    cuda_close_blocks(c, opened);
}
