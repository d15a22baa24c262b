/* rt_cuda_experts.c: launches the kernels of mixtures of experts (parc_experts.h).
 *
 * limit_choices.cuh: which choices of a sequence an expert takes, in four kernels: ranks in
 * parts, sums over parts, choices, numbers of dropped ones.
 *
 * group_rows.cuh: the rows of the pairs of tokens and choices, in four kernels: ranks in parts,
 * sums over parts, sums over experts, rows.
 *
 * expert_rows.cuh: moves tokens to rows and back. Variants differ in the bytes that a thread
 * moves at a time, which depend on the alignment of a row.
 *
 * grouped_matmul.cuh: multiplies the rows of experts by their matrices.
 */
#include <stdio.h>

#include "common/type.h"
#include "cuda/core/rt_cuda_launch.h"
#include "cuda/core/rt_experts_plan.h"
#include "rt.h"

enum { WARPS = KERNEL_THREADS / PARC_WARP };
#define SHAPE(of) (of)->g, (of)->h, (of)->b, (of)->s, (of)->k, (of)->x, (of)->r

/* ---- routing ------------------------------------------------------------- */

/* Numbers the pairs of each of `all` experts: ranks in parts, and the numbers of pairs before a
 * part, count [groups, all, parts], and in all. */
static void rank_pairs(ParcRt *rt, const ParcGroups *of, int64_t all, int32_t *rank,
                       const int32_t *ids, int32_t *count, int32_t *total)
{
    int64_t groups = of->g * of->h, parts = rt_group_parts(of);
    RT_CUDA_LAUNCH(rt, "group_rank", groups * parts, KERNEL_THREADS, 0, rt_pointer_bits(rank),
                   rt_pointer_bits(count), rt_pointer_bits(ids), SHAPE(of), all, parts);
    RT_CUDA_LAUNCH(rt, "group_part_sums", rt_blocks(groups * all, WARPS), KERNEL_THREADS, 0,
                   rt_pointer_bits(count), rt_pointer_bits(total), groups * all, parts);
}

void parc_limit_choices(ParcRt *rt, const ParcChoices *of, int32_t *kept, float *rest,
                        float *blocks, const int32_t *ids, const int64_t *base, void *scratch)
{
    ParcGroups groups = rt_choice_groups(of);
    int64_t parts = rt_group_parts(&groups), n = of->sequences * of->own * of->k;
    int32_t *count = scratch, *total = count + of->sequences * of->experts * parts;
    int32_t *rank = total + of->sequences * of->experts;
    int64_t piece = of->own / of->pieces;
    rank_pairs(rt, &groups, of->experts, rank, ids, count, total);
    RT_CUDA_LAUNCH(rt, "limit_keep", rt_blocks(n, KERNEL_THREADS), KERNEL_THREADS, 0,
                   rt_pointer_bits(kept), rt_pointer_bits(ids), rt_pointer_bits(rank),
                   rt_pointer_bits(count), of->sequences, of->length, of->own, piece, of->k,
                   of->experts, parts, of->limit, rt_pointer_bits(base));
    RT_CUDA_LAUNCH(rt, "limit_count", of->sequences, KERNEL_THREADS, 0, rt_pointer_bits(rest),
                   rt_pointer_bits(blocks), rt_pointer_bits(kept), rt_pointer_bits(ids),
                   of->sequences, of->length, of->own, piece, of->k, of->experts,
                   rt_pointer_bits(base));
}

void parc_group_rows(ParcRt *rt, const ParcGroups *of, int64_t shards, int64_t experts,
                     int32_t *pair, int32_t *row, int32_t *ends, float *needed,
                     const int32_t *ids, const int32_t *round, const int64_t *base,
                     void *scratch)
{
    int64_t groups = of->g * of->h, parts = rt_group_parts(of), all = shards * experts;
    int64_t pairs = groups * of->b * of->s * of->k, rows = groups * of->x * of->r;
    int32_t *count = scratch, *first = count + groups * all * parts;
    rank_pairs(rt, of, all, row, ids, count, first);
    RT_CUDA_LAUNCH(rt, "group_ends", rt_blocks(groups * shards, WARPS), KERNEL_THREADS, 0,
                   rt_pointer_bits(ends), rt_pointer_bits(needed), rt_pointer_bits(first),
                   groups * shards, shards, experts, of->x, of->r, rt_pointer_bits(round),
                   rt_pointer_bits(base));
    RT_CUDA_LAUNCH(rt, "group_place", rt_blocks(pairs > rows ? pairs : rows, KERNEL_THREADS),
                   KERNEL_THREADS, 0, rt_pointer_bits(pair), rt_pointer_bits(row),
                   rt_pointer_bits(ends), rt_pointer_bits(ids), rt_pointer_bits(count),
                   rt_pointer_bits(first), SHAPE(of), shards, experts, parts,
                   rt_pointer_bits(round), rt_pointer_bits(base));
}

/* ---- rows and tokens ----------------------------------------------------- */

void parc_gather_rows(ParcRt *rt, const ParcGroups *of, ParcType type, int64_t width, void *rows,
                      const void *x, const int32_t *pair)
{
    char symbol[RT_SYMBOL];
    int bytes = rt_instance_vector(width * rt_type_size(type));
    int64_t vectors = width * rt_type_size(type) / bytes;
    int64_t n = of->g * of->h * of->x * of->r * vectors;
    snprintf(symbol, sizeof symbol, "gather_rows_%d", bytes);
    RT_CUDA_LAUNCH(rt, symbol, rt_blocks(n, KERNEL_THREADS), KERNEL_THREADS, 0,
                   rt_pointer_bits(rows), rt_pointer_bits(x), rt_pointer_bits(pair), SHAPE(of), n,
                   vectors);
}

void parc_combine_rows(ParcRt *rt, const ParcGroups *of, ParcType type, int64_t width, void *x,
                       const void *rows, const int32_t *row, const int64_t *base)
{
    char symbol[RT_SYMBOL];
    int columns = rt_instance_columns(width, (int)rt_type_size(type));
    int64_t n = of->g * of->b * of->h * of->s * width / columns;
    snprintf(symbol, sizeof symbol, "combine_rows_%s_%d", rt_float_name(type), columns);
    RT_CUDA_LAUNCH(rt, symbol, rt_blocks(n, KERNEL_THREADS), KERNEL_THREADS, 0,
                   rt_pointer_bits(x), rt_pointer_bits(rows), rt_pointer_bits(row), SHAPE(of), n,
                   width / columns, rt_pointer_bits(base));
}

void parc_gather_pairs(ParcRt *rt, const ParcGroups *of, ParcType type, void *rows, const void *x,
                       const int32_t *pair)
{
    ParcGroups pairs = rt_group_pairs(of);
    parc_gather_rows(rt, &pairs, type, 1, rows, x, pair);
}

void parc_scatter_pairs(ParcRt *rt, const ParcGroups *of, ParcType type, void *x, const void *rows,
                        const int32_t *row, const int64_t *base)
{
    ParcGroups pairs = rt_group_pairs(of);
    parc_combine_rows(rt, &pairs, type, 1, x, rows, row, base);
}

/* ---- products ------------------------------------------------------------ */

void parc_grouped_matmul(ParcRt *rt, const ParcGrouped *spec, void *out, const void *a,
                         const void *b, const int32_t *ends, void *scratch, int64_t scratch_bytes)
{
    GroupedPlan p;
    (void)scratch;
    (void)scratch_bytes;
    rt_grouped_plan(&p, spec);
    RT_CUDA_LAUNCH(rt, p.symbol, p.blocks, KERNEL_THREADS, p.shared_bytes, rt_pointer_bits(out),
                   rt_pointer_bits(a), rt_pointer_bits(b), rt_pointer_bits(ends), spec->groups,
                   spec->x, spec->r, spec->experts, spec->f, spec->d, p.tiles, p.blocks);
}
