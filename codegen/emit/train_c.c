/* train_c.c: writes the C files of an emitted program: train.c and, for the
 * CPU, kernels.c and kernels.h.
 *
 * train.c has, in this order: a comment with the command that made it and the
 * list of collectives, the memory map, the functions of a step, the tables that
 * describe the program to the runtime, and main. emit_*.c write the functions
 * and the tables, cpu_kernel*.c the kernels.
 */
#include "codegen/emit/train_c.h"
#include "codegen/cpu_level.h"

#include "codegen/emit/emitter.h"
#include "codegen/kernel/kernel_text.h"
#include "codegen/numbers.h"
#include "passes/schedule/liveness.h"
#include "runtime/parc_rt.h"

#include <string.h>

/* Prints the words of a comment, in lines of at most 72 columns. */
static void wrapped_comment(Out *o, const char *text)
{
    enum { WIDTH = 72 };
    while (*text) {
        size_t n = strlen(text), best = n;
        for (size_t i = 1; n > WIDTH && i < n && (i <= WIDTH || best == n);
             i++)
            if (text[i] == ' ')
                best = i;
        out_line(o, " *   %.*s", (int)best, text);
        text += best;
        text += strspn(text, " ");
    }
}

static void header(Emitter *e)
{
    Out *o = e->o;
    Arena *a = e->p->arena;
    const Program *p = e->p;
    out_line(o, "/* train.c: one training step of %s",
             c_comment(a, p->model));
    out_line(o, " *");
    out_line(o, " * Written by parc 0.1.0 from %s:",
             c_comment(a, e->options->source));
    wrapped_comment(o, c_comment(a, e->options->command));
    out_line(o, " * Edit it freely; the next run of parc overwrites it.");
    out_line(o, " *");
    out(o, " * Mesh:");
    for (int i = 0; i < p->mesh.n; i++)
        out(o, " %s=%lld", c_comment(a, p->mesh.name[i]),
            (long long)p->mesh.size[i]);
    out(o, "%s\n *\n", p->mesh.n ? "" : " none");
    out_line(o, " * Collectives: calls per step x bytes per call on each rank:");
    for (int i = 0; i < e->ncollectives; i++) {
        const CollectiveInfo *c = &e->collective[i];
        out_line(o, " *   %-5s %-14s over %-6s %4lld x %12lld  %s%s", c->label,
                 c->kind, c_comment(a, c->axis), (long long)c->count,
                 (long long)c->bytes, c_comment(a, c->tensor),
                 c->in_place ? "; in place, no data moves" : "");
    }
    if (!e->ncollectives)
        out_line(o, " *   none");
    out_line(o, " */");
    out_line(o, "#include \"kernels.h\"");
    if (e->t->cpu)
        out_line(o, "#include \"parc_cpu.h\"");
    out_line(o, "");
    out_line(o, "#include <stddef.h>");
    out_line(o, "");
    out_line(o, "#if PARC_RT_VERSION != %d", PARC_RT_VERSION);
    out_line(o, "#error \"the runtime is of another version of parc; rerun "
                "parc\"");
    out_line(o, "#endif");
}

static void axes(Emitter *e)
{
    if (!e->p->mesh.n)
        return;
    out_line(e->o, "");
    out_line(e->o, "/* Sets of mesh axes. */");
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
    int first = 0, last = e->nwork - 1;
    while (first < e->nwork && l->begin[e->work[first].op->id] < b->first)
        first++;
    while (last >= 0 && l->begin[e->work[last].op->id] > b->last)
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

/* Prints the buffers of a forward program. */
static void forward_map(Emitter *f)
{
    Liveness l;
    live_analyse(f->p, &l);
    out_line(f->o, "");
    out_line(f->o, "/* Buffers of %s_run, after what the training step keeps. */",
             emitter_word(f));
    blocks(f, &l, false);
}

/* Prints the memory map as #defines: an offset may be too large for an enum. */
static void memory_map(Emitter *e)
{
    Out *o = e->o;
    const MemoryPlan *m = e->memory;
    Liveness l;
    live_analyse(e->p, &l);
    out_line(o, "");
    out_line(o, "/* The offset of each buffer in a rank's arena. The comment "
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
        forward_map(f);
    if (!m->host)
        return;
    out_line(o, "");
    out_line(o, "/* Buffers in host memory; their offsets begin at the arena's "
                "end. */");
    out_line(o, "#define HOST_BYTES INT64_C(%lld)", (long long)m->host);
    blocks(e, &l, true);
}

void train_c_emit(Out *o, const Program *p, const TargetInfo *t,
                  const EmitOptions *options, const CudaProgram *cuda)
{
    Emitter e;
    emitter_init(&e, o, p, t, options, cuda);
    header(&e);
    axes(&e);
    memory_map(&e);
    emit_step_functions(&e);
    emit_tables(&e);
    out_line(o, "");
    out_line(o, "int main(int argc, char **argv)");
    out_line(o, "{");
    if (t->cpu)
        out_line(o, "    parc_cpu_check(argv[0], &(ParcCpu){\"%s\", "
                    "PARC_CPU_FEATURES});", t->cpu->name);
    out_line(o, "    return parc_main(argc, argv, &model);");
    out_line(o, "}");
}

/* ---- kernels.c, kernels.h ------------------------------------------------ */

static void kernel_text(void *context, const Program *p, const Op *fused,
                        int number)
{
    cpu_kernel_emit(context, p, fused, number);
}

static void kernel_line(void *context, const Program *p, const Op *fused,
                        int number)
{
    cpu_kernel_prototype(context, p, fused, number);
}

static void find_random(Op *op, void *context)
{
    *(bool *)context |= op->kind == OP_random;
}

static void walk_random(const Program *p, void *context)
{
    ir_walk(p->step, find_random, context);
}

void kernels_c_emit(Out *o, const Program *p)
{
    out_line(o, "/* kernels.c: the fused kernels of %s, written by parc "
                "0.1.0.", c_comment(p->arena, p->model));
    out_line(o, " *");
    out_line(o, " * Each is a group of elementwise ops and reductions that "
                "accesses memory once.");
    out_line(o, " * The comment above a kernel has the lines of the model that "
                "it computes, and");
    out_line(o, " * its tensors: a rank's part `of` the type of the global "
                "tensor. */");
    out_line(o, "#include \"kernels.h\"");
    out_line(o, "");
    out_line(o, "#include \"parc_math.h\"");
    bool draws = false;
    programs_each(p, walk_random, &draws);
    if (draws)
        out_line(o, "#include \"parc_random.h\"");
    kernel_each(p, kernel_text, o);
}

void kernels_h_emit(Out *o, const Program *p)
{
    out_line(o, "/* kernels.h: prototypes of the fused kernels. */");
    out_line(o, "#ifndef KERNELS_H");
    out_line(o, "#define KERNELS_H");
    out_line(o, "");
    out_line(o, "#include \"parc_rt.h\"");
    out_line(o, "");
    kernel_each(p, kernel_line, o);
    out_line(o, "");
    out_line(o, "#endif");
}
