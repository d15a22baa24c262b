/* rt_experts_plan.h: computes the kernels and the workspace of mixtures of experts on CUDA
 * (parc_experts.h). parc plans them, the runtime launches them. */
#ifndef PARC_RT_EXPERTS_PLAN_H
#define PARC_RT_EXPERTS_PLAN_H

#include <stdbool.h>

#include "../../parc_experts.h"
#include "rt_instances.h"

/* The parts of a group's pairs that blocks of group_rows sort. */
static inline int64_t rt_group_parts(const ParcGroups *of)
{
    return (of->b * of->s * of->k + SORT_TILE - 1) / SORT_TILE;
}

/* The workspace of group_rows in bytes: for each expert of each group, counts of the parts and
 * a total. */
static inline int64_t rt_group_bytes(const ParcGroups *of, int64_t shards, int64_t experts)
{
    return of->g * of->h * shards * experts * (rt_group_parts(of) + 1) * 4;
}

/* The sequences of limit_choices as groups of one. */
static inline ParcGroups rt_choice_groups(const ParcChoices *of)
{
    return (ParcGroups){of->sequences, 1, 1, of->length, of->k, 1, 1};
}

/* The workspace of limit_choices in bytes: that of its groups, and each choice's rank. */
static inline int64_t rt_limit_bytes(const ParcChoices *of)
{
    ParcGroups groups = rt_choice_groups(of);
    return rt_group_bytes(&groups, 1, of->experts) + of->sequences * of->length * of->k * 4;
}

/* Elements of x [g b, h s, k] as tokens with one choice. */
static inline ParcGroups rt_group_pairs(const ParcGroups *of)
{
    ParcGroups x = *of;
    x.s *= x.k;
    x.k = 1;
    return x;
}

/* Blocks of a kernel of grouped_matmul.cuh, which fill a large GPU several times. */
#ifndef GROUPED_MOST_BLOCKS
#define GROUPED_MOST_BLOCKS 2112
#endif

/* A kernel of grouped_matmul.cuh, and how it is launched. */
typedef struct GroupedPlan {
    int kind, rows; /* GROUPED_KIND, and the rows of a tile */
    bool vectors;   /* f and d are multiples of 16 bytes */
    int64_t tiles, blocks, shared_bytes;
    char symbol[RT_SYMBOL];
} GroupedPlan;

/* The tiles of rows that a rank's experts may need: each has the rest of its rows in one. */
static inline int64_t rt_grouped_tiles(const ParcGrouped *s, int rows)
{
    int64_t each = s->r / rows + s->experts, most = each < s->r ? each : s->r;
    return s->groups * s->x * most;
}

/* The rows of an expert in a group, if all experts of all shards have equally many. */
static inline int64_t rt_grouped_mean(const ParcGrouped *s)
{
    return (s->used + s->experts - 1) / s->experts;
}

/* The rows of a tile: of an expert's rows, or of the gradient of its matrix. */
static inline int rt_grouped_rows(const ParcGrouped *s)
{
    enum { SMALL = 64, LARGE = 128, LARGE_FROM = 96 };
    int64_t rows = s->computes == PARC_GROUPED_WEIGHT ? s->f : rt_grouped_mean(s);
    return rows < LARGE_FROM ? SMALL : LARGE;
}

static inline void rt_grouped_plan(GroupedPlan *p, const ParcGrouped *s)
{
    static const char *const name[] = {"f32", "bf16", "f16"};
    bool weight = s->computes == PARC_GROUPED_WEIGHT;
    int64_t columns = s->computes == PARC_GROUPED_Y ? s->f : s->d, size = s->type == PARC_F32 ? 4 : 2;
    int64_t strips = (columns + GROUPED_COLUMNS - 1) / GROUPED_COLUMNS;
    int type = s->type == PARC_F32 ? TILE_F32 : TILE_BF16;
    p->kind = (int)s->computes;
    p->rows = rt_grouped_rows(s);
    p->vectors = s->f * size % 16 == 0 && s->d * size % 16 == 0;
    int64_t tiles = weight ? s->x * s->experts * ((s->f + p->rows - 1) / p->rows)
                           : (rt_grouped_tiles(s, p->rows) + GROUPED_BAND - 1) / GROUPED_BAND *
                                 GROUPED_BAND;
    p->tiles = tiles * strips;
    p->blocks = weight || p->tiles < GROUPED_MOST_BLOCKS ? p->tiles : GROUPED_MOST_BLOCKS;
    p->shared_bytes = GROUPED_STAGES * size *
                      (GROUPED_A_TILE(p->kind, type, p->rows) + GROUPED_B_TILE(p->kind, type));
    snprintf(p->symbol, sizeof p->symbol, "grouped_matmul_%s_%s_%s_%d%s",
             weight ? "weight" : s->computes == PARC_GROUPED_Y ? "y" : "rows", name[s->type],
             name[s->out], p->rows, p->vectors ? "" : "_odd");
}

#endif
