/* train_c.c: writes the C files of an emitted program. emit_step.c writes the
 * functions of train.c, emit_map.c the memory map of model.h, emit_tables.c the
 * tables of model.c, cpu_kernel*.c the kernels.
 */
#include "base/version.h"
#include "codegen/emit/train_c.h"
#include "codegen/experts_call.h"
#include "codegen/machine.h"

#include "codegen/emit/emitter.h"
#include "codegen/kernel/lower.h"
#include "codegen/numbers.h"
#include "ir/plan/pipeline.h"
#include "runtime/parc_rt.h"

#include <string.h>

/* ---- train.c, model.h, model.c ------------------------------------------- */

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

/* "Mesh: dp=2 tp=4", or "Mesh: none". */
static void mesh_line(Out *o, const Mesh *m)
{
    out(o, " * Mesh:");
    for (int i = 0; i < m->n; i++)
        out(o, " %s=%lld", c_comment(o->arena, m->name[i]),
            (long long)m->size[i]);
    out(o, "%s\n", m->n ? "" : " none");
}

static void train_head(Emitter *e)
{
    Out *o = &e->files->train_c;
    Arena *a = e->p->arena;
    out_line(o, "/* train.c: one training step of %s", c_comment(a, e->p->model));
    out_line(o, " *");
    out_line(o, " * Written by parc " PARC_VERSION " from %s:",
             c_comment(a, e->options->source));
    wrapped_comment(o, c_comment(a, e->options->command));
    out_line(o, " * Edit it freely; the next run of parc overwrites it.");
    out_line(o, " *");
    mesh_line(o, &e->p->mesh);
    out_line(o, " */");
    out_line(o, "#include \"model.h\"");
}

static bool has_op(const Region *r, bool (*is)(OpKind kind))
{
    for_ops(op, r)
        if (is(op->kind))
            return true;
    return false;
}

static void model_h_head(Emitter *e)
{
    Out *o = &e->files->model_h;
    out_line(o, "/* model.h: the memory map of %s, and the functions of train.c. */",
             c_comment(e->p->arena, e->p->model));
    out(o, "#ifndef MODEL_H\n"
           "#define MODEL_H\n\n"
           "#include \"kernels.h\"\n");
    if (e->t->cpu)
        out_line(o, "#include \"parc_cpu.h\"");
    if (has_op(e->p->step, op_is_attention))
        out_line(o, "#include \"parc_attention.h\"");
    if (has_op(e->p->step, op_is_of_experts))
        out_line(o, "#include \"parc_experts.h\"");
    if (numbers_all(e->p).convs)
        out_line(o, "#include \"parc_conv.h\"");
    if (pipeline_axis(e->p) >= 0)
        out_line(o, "#include \"parc_pipeline.h\"");
    out(o,
        "\n#include <stddef.h>\n\n"
        "#if PARC_RT_VERSION != %d\n"
        "#error \"the runtime is of another version of parc; rerun parc\"\n"
        "#endif\n",
        PARC_RT_VERSION);
}

static void model_c_head(Emitter *e)
{
    Out *o = &e->files->model_c;
    Arena *a = e->p->arena;
    out_line(o, "/* model.c: describes %s to the runtime.",
             c_comment(a, e->p->model));
    out_line(o, " *");
    out_line(o, " * Collectives: calls per step x bytes per call on each rank:");
    for (int i = 0; i < e->ncollectives; i++) {
        const CollectiveInfo *c = &e->collective[i];
        out_line(o, " *   %-5s %-14s over %-6s %4lld x %12lld  %s%s", c->label,
                 c->kind, c_comment(a, c->axis), (long long)c->count,
                 (long long)c->bytes, c_comment(a, c->tensor),
                 c->in_place ? "; in place: the ranks share the memory" : "");
    }
    if (!e->ncollectives)
        out_line(o, " *   none");
    out_line(o, " */");
    out_line(o, "#include \"model.h\"");
}

static void main_function(Out *o, const TargetInfo *t)
{
    out_line(o, "\nint main(int argc, char **argv)");
    out_line(o, "{");
    if (t->cpu)
        out_line(o, "    parc_cpu_check(argv[0], &(ParcCpu){\"%s\", "
                    "PARC_CPU_FEATURES});", t->cpu->name);
    out_line(o, "    return parc_main(argc, argv, &model);");
    out_line(o, "}");
}

/* Lets a program's functions or tables be written to a file. */
static void write_to(Emitter *e, Out *o)
{
    for (; e; e = e->next)
        e->o = o;
}

void train_c_emit(SourceFiles *files, const Program *p, const TargetInfo *t,
                  const EmitOptions *options, const CudaProgram *cuda)
{
    Emitter e;
    out_init(&files->train_c, p->arena);
    out_init(&files->model_h, p->arena);
    out_init(&files->model_c, p->arena);
    emitter_init(&e, files, p, t, options, cuda);
    model_h_head(&e);
    write_to(&e, &files->model_h);
    emit_map(&e);
    out_line(&files->model_h, "\n/* Functions of train.c. */");
    train_head(&e);
    write_to(&e, &files->train_c);
    emit_step_functions(&e);
    out_line(&files->model_h, "\n#endif");
    model_c_head(&e);
    write_to(&e, &files->model_c);
    emit_tables(&e);
    main_function(&files->model_c, t);
}

/* ---- kernels.c, kernels.h ------------------------------------------------ */

void kernels_c_emit(Out *o, const Program *p)
{
    out(o,
        "/* kernels.c: the fused kernels of %s, written by parc " PARC_VERSION
        ".\n *\n"
        " * Each is a group of elementwise ops and reductions that accesses "
        "memory once.\n"
        " * The comment above a kernel has the lines of the model that it "
        "computes, and\n"
        " * its tensors: a rank's part `of` the type of the global tensor. */\n"
        "#include \"kernels.h\"\n\n"
        "#include \"parc_math.h\"\n",
        c_comment(p->arena, p->model));
    bool draws = false;
    for (const Program *q = p; q; q = program_next(q))
        for_ops(op, q->step)
            draws |= op->kind == OP_random;
    if (draws)
        out_line(o, "#include \"parc_random.h\"");
    kernel_each(p, cpu_kernel_emit, o);
}

void kernels_h_emit(Out *o, const Program *p)
{
    prototypes_emit(o, p, "the fused kernels",
                    cpu_kernel_prototype, o);
}
