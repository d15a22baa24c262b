/* kernel_head.c: prints the comment, the signature and the loop indices of a
 * kernel, for all targets, and numbers and names the kernels of a program:
 * "k07_attention_norm". */
#include <string.h>

#include "codegen/kernel/lower.h"
#include "codegen/numbers.h"

const char *kernel_name(const Program *p, const Op *fused, int number)
{
    if (p->equal_kernel && p->equal_kernel[fused->id])
        return p->equal_kernel[fused->id];
    return arena_printf(p->arena, "k%02d_%s", number,
                        c_identifier(p->arena, attr_name(fused)));
}

/* ---- comment and signature ----------------------------------------------- */

const char *kernel_parameter(Arena *a, const Kernel *k, int i,
                             const char *restrict_word)
{
    const char *space = *restrict_word ? " " : "";
    if (i == k->nbuffers)
        return arena_printf(a, "float *%s%sworkspace", restrict_word, space);
    const KernelBuffer *b = &k->buffer[i];
    return arena_printf(a, "%s%s *%s%s%s", b->out ? "" : "const ",
                        c_type(b->dtype), b->shared ? "" : restrict_word,
                        b->shared ? "" : space, b->name);
}

void kernel_signature(Out *o, const char *opening, int n,
                      const char *const *item, const char *end)
{
    Arena *a = o->arena;
    const char *line = opening;
    int hang = (int)strlen(opening);
    for (int i = 0; i < n; i++)
        if (hang >= OUT_WIDTH / 2 ||
            hang + (int)strlen(item[i]) > OUT_WIDTH - 3)
            hang = 2 * OUT_INDENT;
    for (int i = 0; i < n; i++)
        if (i == 0) {
            line = arena_printf(a, "%s%s", line, item[i]);
        } else if (strlen(line) + strlen(item[i]) + 3 >= OUT_WIDTH) {
            out_line(o, "%s,", line);
            line = arena_printf(a, "%*s%s", hang, "", item[i]);
        } else {
            line = arena_printf(a, "%s, %s", line, item[i]);
        }
    out_line(o, "%s)%s", line, end);
}

void kernel_function(Out *o, const Program *p, const Kernel *k, int number,
                     const char *restrict_word, const char *end)
{
    Arena *a = p->arena;
    int n = k->nbuffers + (k->workspace > 0);
    const char **item = NEW_ARRAY(a, const char *, n + 1);
    item[0] = "ParcRt *rt";
    for (int i = 0; i < n; i++)
        item[i + 1] = kernel_parameter(a, k, i, restrict_word);
    kernel_signature(o,
                     arena_printf(a, "void %s(", kernel_name(p, k->op, number)),
                     n + 1, item, end);
}

/* Adds a word to a comment and breaks lines. */
static void fill_line(Out *o, const char **line, Arena *a, const char *word)
{
    if (strlen(*line) + strlen(word) + 2 > OUT_WIDTH - 2) {
        out_line(o, "%s", *line);
        *line = " *         ";
    }
    *line = arena_printf(a, "%s %s", *line, word);
}

static void list_ops(Out *o, const Kernel *k)
{
    Arena *a = o->arena;
    const char *line = " * fused   ";
    int same = 0;
    for (const Op *op = k->op->body->first; op; op = op->next) {
        same++;
        if (op->next && op->next->kind == op->kind)
            continue;
        const char *name = op_info(op->kind)->name;
        const char *comma = op->next ? "," : "";
        fill_line(o, &line, a,
                  same > 1 ? arena_printf(a, "%s x%d%s", name, same, comma)
                           : arena_printf(a, "%s%s", name, comma));
        same = 0;
    }
    out_line(o, "%s", line);
}

static void list_source(Out *o, const Program *p, const Kernel *k)
{
    const Op *fused = k->op;
    uint32_t low = UINT32_MAX, high = 0;
    for (const Op *op = fused->body->first; op; op = op->next) {
        if (op->loc.file != fused->loc.file || !op->loc.line)
            continue;
        low = op->loc.line < low ? op->loc.line : low;
        high = op->loc.line > high ? op->loc.line : high;
    }
    const char *where = kernel_where(p, fused->loc);
    if (!*where)
        return;
    if (low < high)
        out_line(o, " * from     %.*s:%u-%u",
                 (int)(strrchr(where, ':') - where), where, (unsigned)low,
                 (unsigned)high);
    else
        out_line(o, " * from     %s", where);
}

static const char *local_shape(const Program *p, const Type *t)
{
    int64_t dim[SPACE_DIMS];
    int n = fuse_local_dims(p, t, dim);
    const char *text = "[";
    for (int i = 0; i < n; i++)
        text = arena_printf(p->arena, "%s%s%lld", text, i ? ", " : "",
                            (long long)dim[i]);
    return arena_printf(p->arena, "%s]", text);
}

static void list_buffers(Out *o, const Program *p, const Kernel *k)
{
    for (int i = 0; i < k->nbuffers; i++) {
        const KernelBuffer *b = &k->buffer[i];
        out_line(o, " * %s %s: %s of %s", b->out ? "writes  " : "reads   ",
                 b->name, local_shape(p, &b->value->type),
                 type_text(p->arena, &b->value->type, &p->mesh));
    }
}

void kernel_comment(Out *o, const Program *p, const Kernel *k, int number)
{
    double bytes = (double)kernel_bytes(k);
    static const char *const unit[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    int u = 0;
    for (; bytes >= 1024 && u < 4; u++)
        bytes /= 1024;
    out_line(o, "\n/* %s", kernel_name(p, k->op, number));
    list_source(o, p, k);
    list_ops(o, k);
    list_buffers(o, p, k);
    out_line(o, " * moves    %.*f %s", u ? 1 : 0, bytes, unit[u]);
}

/* ---- the kernels of a program ---------------------------------------------- */

void kernel_each(const Program *p, KernelVisit *visit, void *context)
{
    int number = 0;
    for (; p; p = program_next(p))
        for_ops(op, p->step) {
            if (op->kind != OP_fused)
                continue;
            if (!p->equal_kernel || !p->equal_kernel[op->id])
                visit(context, p, op, number);
            number++;
        }
}

void prototypes_emit(Out *o, const Program *p, const char *meaning,
                     KernelVisit *visit, void *context)
{
    out(o, "/* kernels.h: prototypes of %s. */\n"
           "#ifndef KERNELS_H\n"
           "#define KERNELS_H\n\n"
           "#include \"parc_rt.h\"\n\n", meaning);
    kernel_each(p, visit, context);
    out_line(o, "\n#endif");
}
