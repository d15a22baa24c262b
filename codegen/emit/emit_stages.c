/* emit_stages.c: writes the tables of what the stages of a pipeline have, and
 * declares them in model.h.
 *
 *   const int64_t cut_1[] = {0, 5, 8};        layers
 *   const int64_t buffers_1[] = {2, 1};       of tensors of a microbatch
 *
 * Where a rank has several stages, also what of it precedes a stage:
 *
 *   const int64_t row_1[] = {0, 0, 2, 1, 4, 3};    its layers; at the end, of each
 *                                                  rank, all layers
 *   const int64_t first_1[] = {0, 0, 3, 2};        its buffers
 *
 *   static const ParcRange ranges_0[] = {{INT64_C(0), INT64_C(8192)}, {0}};
 *                                             memory that is allocated
 */
#include "codegen/emit/emitter.h"
#include "ir/plan/pipeline.h"
#include "ir/plan/ranges.h"

/* The names of the tables of a staged loop, if the program has one. */
static void loop_names(Emitter *e)
{
    const char *own = emitter_own(e);
    if (e->memory->nrotations)
        out_line(e->o, "\n/* By stage: how many microbatches it has tensors of at one time. "
                 "*/");
    for (int i = 1; i <= e->memory->nrotations; i++)
        out_line(e->o, "extern const int64_t %sbuffers_%d[]%s;", own, i,
                 rank_stages(e->p) == 1 ? "" : arena_printf(e->p->arena,
                                                            ", %sfirst_%d[]", own, i));
    if (pipeline_loop(e->p))
        out_line(e->o, "\n/* What each rank of the pipeline does. */\n"
                 "extern const ParcPipeline %spipeline;", own);
}

void emit_stage_names(Emitter *e)
{
    const Mesh *m = &e->p->mesh;
    if (pipeline_axis(e->p) < 0)
        return;
    if (m->ncuts)
        out_line(e->o, "\n/* The layers of the pipeline's stages: those of stage s begin at "
                 "cut[s]. */");
    for (int i = 1; i <= m->ncuts; i++)
        out_line(e->o, "extern const int64_t cut_%d[];", i);
    if (m->ncuts && rank_stages(e->p) > 1)
        out_line(e->o, "\n/* The rank's layers that precede those of a stage. */");
    for (int i = 1; i <= m->ncuts && rank_stages(e->p) > 1; i++)
        out_line(e->o, "extern const int64_t row_%d[];", i);
    for (Emitter *f = e; f; f = f->next)
        if (!f->of)
            loop_names(f);
}

/* "const int64_t cut_1[] = {0, 5, 8};" */
static void numbers(Emitter *e, const char *name, int i, const int64_t *x, int n)
{
    out(e->o, "%sconst int64_t %s_%d[] = {", i > 1 ? "" : "\n", name, i);
    for (int k = 0; k < n; k++)
        out(e->o, "%s%lld", k ? ", " : "", (long long)x[k]);
    out_line(e->o, "};");
}

/* The tables of ranks that have several stages. */
static void tables_of_ranks(Emitter *e)
{
    int nstages = pipeline_stage_count(e->p), ranks = pipeline_ranks(e->p);
    int64_t *list = NEW_ARRAY(e->p->arena, int64_t, nstages + ranks);
    for (int i = 1; i <= e->p->mesh.ncuts; i++) {
        for (int s = 0; s < nstages + ranks; s++)
            list[s] = stage_row(e->p, i, s);
        numbers(e, "row", i, list, nstages + ranks);
    }
}

/* The tables of a staged loop, if the program has one. */
static void tables_of_loop(Emitter *e)
{
    Arena *a = e->p->arena;
    int nstages = pipeline_stage_count(e->p);
    int64_t *list = NEW_ARRAY(a, int64_t, nstages + 1);
    const char *buffers = arena_printf(a, "%sbuffers", emitter_own(e));
    const char *first = arena_printf(a, "%sfirst", emitter_own(e));
    for (int i = 1; i <= e->memory->nrotations; i++) {
        for (int s = 0; s < nstages; s++)
            list[s] = rotation_modulo(e->p, i, s);
        numbers(e, buffers, i, list, nstages);
    }
    for (int i = 1; i <= e->memory->nrotations && rank_stages(e->p) > 1; i++) {
        for (int s = 0; s < nstages; s++)
            list[s] = rotation_first(e->p, i, s);
        numbers(e, first, i, list, nstages);
    }
    if (pipeline_loop(e->p))
        emit_order(e);
}

/* "SHARED_dp + INT64_C(64)": where a range begins. */
static const char *begin_text(const Emitter *e, const Range *r)
{
    const char *at = arena_printf(e->p->arena, "INT64_C(%lld)",
                                  (long long)r->offset);
    return r->segment ? arena_printf(e->p->arena, "%s + %s",
                                     emitter_segment_name(
                                         e, &e->memory->segment[r->segment - 1]),
                                     at)
                      : at;
}

static void ranges(Emitter *e, int n)
{
    out_line(e->o, "\n/* What the ranks at a coordinate of the pipeline allocate of the "
             "arena. */");
    for (int i = 0; i < n; i++) {
        Ranges at = memory_ranges(e->p, i);
        out(e->o, "static const ParcRange ranges_%d[] = {", i);
        for (int k = 0; k < at.n; k++)
            out(e->o, "%s{%s, INT64_C(%lld)},", k ? "\n    " : "",
                begin_text(e, &at.range[k]), (long long)at.range[k].bytes);
        out_line(e->o, " {0}};");
    }
    out_line(e->o, "static const ParcRange *const ranges[] = {");
    for (int i = 0; i < n; i++)
        out_line(e->o, "    ranges_%d,", i);
    out_line(e->o, "};");
}

void emit_stage_tables(Emitter *e)
{
    const Mesh *m = &e->p->mesh;
    int axis = pipeline_axis(e->p), nstages = pipeline_stage_count(e->p);
    if (axis < 0)
        return;
    for (int i = 0; i < m->ncuts; i++)
        numbers(e, "cut", i + 1, m->cut[i].begin, nstages + 1);
    if (rank_stages(e->p) > 1)
        tables_of_ranks(e);
    ranges(e, (int)m->size[axis]);
    for (Emitter *f = e; f; f = f->next)
        if (!f->of)
            tables_of_loop(f);
}
