/* emit_map.c: writes two parts of model.h: the enum of mesh axes and the memory
 * map. The map has the offset of every buffer of the training step, of the
 * side programs, of segments that ranks share, and of host memory. */
#include "codegen/emit/emitter.h"

#include "passes/schedule/liveness.h"
#include "runtime/parc_rt.h"

static void axes(Emitter *e)
{
    if (!e->p->mesh.n)
        return;
    out_line(e->o, "\n/* Sets of mesh axes. */");
    out_line(e->o, "enum {");
    for (int i = 0; i < e->p->mesh.n; i++)
        out_line(e->o, "    AXIS_%s = 1 << %d,", e->axis_name[i], i);
    out_line(e->o, "};");
}

/* Prints the offsets of the segments that ranks share. They are aligned to the
 * largest page size of any machine. */
static void segments(Emitter *e)
{
    int64_t at = e->memory->own;
    for (int i = 0; i < e->memory->nsegments; i++) {
        const Segment *s = &e->memory->segment[i];
        at = (at + PARC_SHARED_ALIGN - 1) / PARC_SHARED_ALIGN *
             PARC_SHARED_ALIGN;
        out_line(e->o, "/* %lld bytes that the ranks along %s share. */",
                 (long long)s->bytes,
                 c_comment(e->p->arena, user_axes_text(e->p, s->axes)));
        out_line(e->o, "#define %s INT64_C(%lld)", emitter_segment_name(e, s),
                 (long long)at);
        at += s->bytes;
    }
}

/* The live range of a block, by the numbers of parc_mark: "marks 4 to 31". The
 * statements of init_constants have no mark. */
static const char *live_marks(const Emitter *e, const Liveness *l,
                              const Block *b)
{
    if (b->first == 0 && b->last == l->end - 1)
        return "the whole run";
    int first = 0, last = e->nstatements - 1;
    while (first < e->nstatements &&
           l->begin[e->statement[first].op->id] < b->first)
        first++;
    while (last >= 0 && l->begin[e->statement[last].op->id] > b->last)
        last--;
    if (last < 0)
        return "init_constants";
    if (first > last) /* a statement without a mark, between two marks */
        return arena_printf(e->p->arena, "after mark %d", e->first.work + last);
    if (first == last)
        return arena_printf(e->p->arena, "mark %d", e->first.work + first);
    return arena_printf(e->p->arena, "marks %d to %d", e->first.work + first,
                        e->first.work + last);
}

static void blocks(Emitter *e, const Liveness *l, bool host)
{
    Out *o = e->o;
    for (int i = 0; i < e->memory->nblocks; i++) {
        const Block *b = &e->memory->block[i];
        if (b->host != host || b->training) /* the training step's block */
            continue;
        out_line(o, "/* %lld bytes, %s, %s */", (long long)b->bytes,
                 memory_class_words[b->class], live_marks(e, l, b));
        const Segment *s = emitter_segment(e, b);
        if (s)
            out_line(o, "#define AT_%s (%s + INT64_C(%lld))", e->block_name[i],
                     emitter_segment_name(e, s),
                     (long long)(b->offset - s->offset));
        else
            out_line(o, "#define AT_%s INT64_C(%lld)", e->block_name[i],
                     (long long)b->offset);
    }
}

/* Prints the buffers of a side program. */
static void side_map(Emitter *f)
{
    Liveness l;
    live_analyse(f->p, &l);
    out_line(f->o,
             "\n/* Buffers of %s_run, after what the training step keeps. */",
             program_word(f->p));
    blocks(f, &l, false);
}

/* Offsets are #defines: one may be too large for an enum. */
void emit_map(Emitter *e)
{
    Out *o = e->o;
    const MemoryPlan *m = e->memory;
    Liveness l;
    axes(e);
    emit_stage_names(e);
    live_analyse(e->p, &l);
    out_line(o, "\n/* The offset of each buffer in a rank's arena. The comment "
                "above an offset has");
    out_line(o, " * the buffer's bytes, its category, and its live range: the "
                "parc_mark numbers of");
    out_line(o, " * the first and last statement that need it. Buffers may "
                "share addresses if their");
    out_line(o, " * live ranges do not overlap. */");
    out_line(o, "#define ARENA_BYTES INT64_C(%lld)", (long long)m->own);
    segments(e);
    blocks(e, &l, false);
    for (Emitter *f = e->next; f; f = f->next)
        if (!f->of)
            side_map(f);
    if (!m->host)
        return;
    out_line(o, "\n/* Buffers in host memory; their offsets begin at the arena's "
                "end. */");
    out_line(o, "#define HOST_BYTES INT64_C(%lld)", (long long)m->host);
    blocks(e, &l, true);
}
