/* cuda_online.c: lowers a sum relative to a running maximum (KERNEL_ONLINE;
 * online softmax), which kernel_online.c creates.
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
#include "codegen/cuda/cuda_lower.h"

static bool is_sum(const Kernel *k, const KernelRoot *root, int max)
{
    return root->kind == ROOT_REDUCE &&
           k->instr[root->target].code == KERNEL_ONLINE &&
           k->instr[root->target].arg[0] == max;
}

/* The next maximum of the phase, after root r, that has such sums; -1: none. */
static int next_maximum(const Kernel *k, int phase, int *r)
{
    while (++*r < k->nroots) {
        int max = k->root[*r].target;
        for (int i = 0; i < k->nroots && k->root[*r].kind == ROOT_REDUCE &&
                        k->root[*r].phase == phase;
             i++)
            if (is_sum(k, &k->root[i], max))
                return max;
    }
    return -1;
}

static const char *held(const Lowering *c, int instr)
{
    return lower_text(c, "held%d[%s]", instr, cuda_place(c, 0));
}

bool cuda_online_element(Lowering *c, const KernelRoot *root)
{
    const KernelInstr *to = &c->k->instr[root->target];
    const char *value = kernel_value(c, root->instr, 0);
    bool sum = to->code == KERNEL_ONLINE, maximum = false;
    for (int i = 0; i < c->k->nroots; i++)
        maximum |= is_sum(c->k, &c->k->root[i], root->target);
    if (maximum || (sum && to->nargs > 1))
        lower_line(c, "%s = %s;", held(c, root->target), value);
    if (maximum)
        lower_update(c, OP_max, to->source,
                     lower_text(c, "top%d", root->target), value);
    return sum || maximum;
}

void cuda_online_begin(Lowering *c, int phase)
{
    const Kernel *k = c->k;
    int n = c->plan->vector;
    for (int r = -1, max; (max = next_maximum(k, phase, &r)) >= 0;) {
        lower_line(c, "float held%d[%d], top%d = r%d;", max, n, max, max);
        for (int i = 0; i < k->nroots; i++)
            if (is_sum(k, &k->root[i], max) &&
                k->instr[k->root[i].target].nargs > 1)
                lower_line(c, "float held%d[%d];", k->root[i].target, n);
    }
}

/* Adds a vector's terms to a sum, whose earlier terms are rescaled. */
static void add_powers(Lowering *c, int max, int sum)
{
    const KernelInstr *to = &c->k->instr[sum];
    const char *factor =
        to->nargs > 1 ? lower_text(c, "%s * ", held(c, sum)) : "";
    lower_update(c, OP_sum, to->source, lower_text(c, "r%d", sum),
                 lower_text(c, "%sonline_power(%s, base%d)", factor,
                            held(c, max), max));
}

void cuda_online_end(Lowering *c, int phase)
{
    const Kernel *k = c->k;
    Stmt *outer = c->at;
    for (int r = -1, max; (max = next_maximum(k, phase, &r)) >= 0;) {
        lower_line(c, "const float base%d = online_base(top%d);", max, max);
        for (int i = 0; i < k->nroots; i++)
            if (is_sum(k, &k->root[i], max))
                lower_line(c, "r%d *= online_power(r%d, base%d);",
                           k->root[i].target, max, max);
        lower_line(c, "r%d = top%d;", max, max);
        cuda_open_vector(c);
        for (int i = 0; i < k->nroots; i++)
            if (is_sum(k, &k->root[i], max))
                add_powers(c, max, k->root[i].target);
        cuda_close(c, outer);
    }
}
