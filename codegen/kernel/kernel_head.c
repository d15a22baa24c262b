/* kernel_head.c: prints the comment, the signature and the loop indices of a
 * kernel, for all targets, and numbers and names the kernels of a program:
 * "k07_attention_norm". */
#include <string.h>

#include "codegen/kernel/kernel_text.h"
#include "codegen/numbers.h"

const char *kernel_name(const Program *p, const Op *fused, int number)
{
    if (p->equal_kernel && p->equal_kernel[fused->id])
        return p->equal_kernel[fused->id];
    return arena_printf(p->arena, "k%02d_%s", number,
                        c_identifier(p->arena, attr_name(fused)));
}

/* ---- comment and signature ----------------------------------------------- */

const char *kernel_parameter(const KernelPrinter *c, int i,
                             const char *restricted)
{
    const char *space = *restricted ? " " : "";
    if (i == c->k->nbuffers)
        return arena_printf(c->p->arena, "float *%s%sworkspace", restricted,
                            space);
    const KernelBuffer *b = &c->k->buffer[i];
    return arena_printf(c->p->arena, "%s%s *%s%s%s", b->out ? "" : "const ",
                        c_type(b->dtype), b->shared ? "" : restricted,
                        b->shared ? "" : space, b->name);
}

void kernel_signature(KernelPrinter *c, const char *opening, int n,
                      const char *const *item, const char *end)
{
    Arena *a = c->p->arena;
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
            out_line(c->o, "%s,", line);
            line = arena_printf(a, "%*s%s", hang, "", item[i]);
        } else {
            line = arena_printf(a, "%s, %s", line, item[i]);
        }
    out_line(c->o, "%s)%s", line, end);
}

void kernel_function(KernelPrinter *c, int number, const char *restricted,
                     const char *end)
{
    const Kernel *k = c->k;
    int n = k->nbuffers + (k->workspace > 0);
    const char **item = NEW_ARRAY(c->p->arena, const char *, n + 1);
    item[0] = "ParcRt *rt";
    for (int i = 0; i < n; i++)
        item[i + 1] = kernel_parameter(c, i, restricted);
    kernel_signature(
        c,
        arena_printf(c->p->arena, "void %s(", kernel_name(c->p, k->op, number)),
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

static void list_ops(KernelPrinter *c)
{
    Arena *a = c->p->arena;
    const char *line = " * fused   ";
    int same = 0;
    for (const Op *op = c->k->op->body->first; op; op = op->next) {
        same++;
        if (op->next && op->next->kind == op->kind)
            continue;
        const char *name = op_info(op->kind)->name;
        const char *comma = op->next ? "," : "";
        fill_line(c->o, &line, a,
                  same > 1 ? arena_printf(a, "%s x%d%s", name, same, comma)
                           : arena_printf(a, "%s%s", name, comma));
        same = 0;
    }
    out_line(c->o, "%s", line);
}

static void list_source(KernelPrinter *c)
{
    const Op *fused = c->k->op;
    uint32_t low = UINT32_MAX, high = 0;
    for (const Op *op = fused->body->first; op; op = op->next) {
        if (op->loc.file != fused->loc.file || !op->loc.line)
            continue;
        low = op->loc.line < low ? op->loc.line : low;
        high = op->loc.line > high ? op->loc.line : high;
    }
    const char *where = kernel_where(c->p, fused->loc);
    if (!*where)
        return;
    if (low < high)
        out_line(c->o, " * from     %.*s:%u-%u",
                 (int)(strrchr(where, ':') - where), where, (unsigned)low,
                 (unsigned)high);
    else
        out_line(c->o, " * from     %s", where);
}

static const char *local_shape(const KernelPrinter *c, const Type *t)
{
    int64_t dim[SPACE_DIMS];
    int n = fuse_local_dims(c->p, t, dim);
    const char *text = "[";
    for (int i = 0; i < n; i++)
        text = arena_printf(c->p->arena, "%s%s%lld", text, i ? ", " : "",
                            (long long)dim[i]);
    return arena_printf(c->p->arena, "%s]", text);
}

static void list_buffers(KernelPrinter *c)
{
    for (int i = 0; i < c->k->nbuffers; i++) {
        const KernelBuffer *b = &c->k->buffer[i];
        out_line(c->o, " * %s %s: %s of %s", b->out ? "writes  " : "reads   ",
                 b->name, local_shape(c, &b->value->type),
                 type_text(c->p->arena, &b->value->type, &c->p->mesh));
    }
}

void kernel_comment(KernelPrinter *c, int number)
{
    double bytes = (double)kernel_bytes(c->k);
    static const char *const unit[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    int u = 0;
    for (; bytes >= 1024 && u < 4; u++)
        bytes /= 1024;
    out_line(c->o, "\n/* %s", kernel_name(c->p, c->k->op, number));
    list_source(c);
    list_ops(c);
    list_buffers(c);
    out_line(c->o, " * moves    %.*f %s", u ? 1 : 0, bytes, unit[u]);
}

/* ---- indices ------------------------------------------------------------- */

int kernel_count_axes(uint32_t axes)
{
    int n = 0;
    for (; axes; axes &= axes - 1)
        n++;
    return n;
}

int kernel_first_axis(uint32_t axes)
{
    int a = 0;
    while (!(axes >> a & 1))
        a++;
    return a;
}

/* Whether an address or an index depends on an axis. */
static bool is_used(const KernelPrinter *c, int axis)
{
    const Kernel *k = c->k;
    if (axis == k->space.block && k->space.tail)
        return true;
    for (int i = 0; i < k->nbuffers; i++)
        if (k->buffer[i].stride[axis])
            return true;
    for (int i = 0; i < k->ninstrs; i++)
        if (k->instr[i].stride[axis])
            return true;
    return false;
}

void kernel_split_index(KernelPrinter *c, uint32_t axes, const char *from,
                        int64_t divisor)
{
    const Space *s = &c->k->space;
    Arena *a = c->p->arena;
    int major = axes ? kernel_first_axis(axes) : 0;
    for (int axis = s->naxes; axis-- > 0;) {
        if (!(axes >> axis & 1))
            continue;
        const char *x = from;
        char name = s->column >> axis & 1 ? 'j' : 'i';
        if (divisor > 1)
            x = arena_printf(a, "%s / %lld", x, (long long)divisor);
        if (axis != major)
            x = arena_printf(a, "%s %% %lld", x, (long long)s->size[axis]);
        const char *index = arena_printf(a, "%c%d", name, axis);
        if (is_used(c, axis) && strcmp(x, index) != 0)
            out_line(c->o, "const int64_t %s = %s;", index, x);
        divisor *= s->size[axis];
    }
}

typedef struct Visit {
    KernelVisit *visit;
    void *context;
    int number;
} Visit;

static void visit_region(const Program *p, const Region *r, Visit *v)
{
    for (const Op *op = r->first; op; op = op->next) {
        if (op->kind == OP_loop)
            visit_region(p, op->body, v);
        if (op->kind != OP_fused)
            continue;
        if (!p->equal_kernel || !p->equal_kernel[op->id])
            v->visit(v->context, p, op, v->number);
        v->number++;
    }
}

void kernel_each(const Program *p, KernelVisit *visit, void *context)
{
    Visit v = {visit, context, 0};
    for (; p; p = program_next(p))
        visit_region(p, p->step, &v);
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
