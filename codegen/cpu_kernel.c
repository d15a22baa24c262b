/* cpu_kernel.c: kernel IR as vectorised C.
 *
 *   void k03_norm(ParcRt *rt, float *restrict y, const float *restrict x)
 *   {
 *   #pragma omp parallel for schedule(static) num_threads(parc_threads(rt))
 *       for (int64_t i0 = 0; i0 < 2048; i0++) {
 *           float *y_row = y + i0 * 4096;
 *           …
 *           float r2 = 0.0f;
 *   #pragma omp simd reduction(+ : r2)
 *           for (int j = 0; j < 4096; j++) {
 *
 * Loops that have little to do run on one thread. Buffers that memory
 * planning may lay on top of each other are not `restrict`; the loops still
 * vectorise, because the pragma says that elements are independent.
 */
#include <string.h>

#include "codegen/cpu_kernel.h"

const char *kernel_name(const Program *p, const Op *fused, int number)
{
    return arena_printf(p->arena, "k%02d_%s", number,
                        c_clean(p->arena, op_attr(fused, "name").s));
}

/* ---- the head ------------------------------------------------------------ */

/* Parameter number i of a kernel's function: a buffer, then the workspace. */
static const char *parameter(const CpuKernel *c, int i)
{
    if (i == c->k->nbuffers)
        return "float *restrict workspace";
    const KernelBuffer *b = &c->k->buffer[i];
    return arena_printf(c->p->arena, "%s%s *%s%s", b->out ? "" : "const ",
                        c_type(b->dtype), b->shared ? "" : "restrict ",
                        b->name);
}

/* "name(ParcRt *rt, float *restrict y, …)" broken into lines. */
static void signature(CpuKernel *c, int number, const char *end)
{
    const Kernel *k = c->k;
    Arena *a = c->p->arena;
    const char *line =
        arena_printf(a, "void %s(ParcRt *rt", kernel_name(c->p, k->op, number));
    int hang = (int)(strlen(line) - strlen("ParcRt *rt"));
    int n = k->nbuffers + (k->workspace > 0);
    for (int i = 0; i < n; i++)
        if (hang >= 40 || hang + (int)strlen(parameter(c, i)) > 77)
            hang = 8;
    for (int i = 0; i < n; i++) {
        const char *item = parameter(c, i);
        if (strlen(line) + strlen(item) + 3 > 79) {
            out_line(c->o, "%s,", line);
            line = arena_printf(a, "%*s%s", hang, "", item);
        } else {
            line = arena_printf(a, "%s, %s", line, item);
        }
    }
    out_line(c->o, "%s)%s", line, end);
}

/* Words in a comment, filled into lines. */
static void fill_line(Out *o, const char **line, Arena *a, const char *word)
{
    if (strlen(*line) + strlen(word) + 2 > 78) {
        out_line(o, "%s", *line);
        *line = " *         ";
    }
    *line = arena_printf(a, "%s %s", *line, word);
}

static void list_ops(CpuKernel *c)
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

static void list_source(CpuKernel *c)
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

static const char *local_shape(const CpuKernel *c, const Type *t)
{
    int64_t dim[SPACE_DIMS];
    int n = fuse_local_dims(c->p, t, dim);
    const char *text = "[";
    for (int i = 0; i < n; i++)
        text = arena_printf(c->p->arena, "%s%s%lld", text, i ? ", " : "",
                            (long long)dim[i]);
    return arena_printf(c->p->arena, "%s]", text);
}

static void list_buffers(CpuKernel *c)
{
    for (int i = 0; i < c->k->nbuffers; i++) {
        const KernelBuffer *b = &c->k->buffer[i];
        out_line(c->o, " * %s %s: %s of %s", b->out ? "writes  " : "reads   ",
                 b->name, local_shape(c, &b->value->type),
                 type_text(c->p->arena, &b->value->type, &c->p->mesh));
    }
}

static void head(CpuKernel *c, int number)
{
    double bytes = (double)kernel_bytes(c->k);
    static const char *const unit[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    int u = 0;
    for (; bytes >= 1024 && u < 4; u++)
        bytes /= 1024;
    out_line(c->o, "");
    out_line(c->o, "/* %s", kernel_name(c->p, c->k->op, number));
    list_source(c);
    list_ops(c);
    list_buffers(c);
    out_line(c->o, " * moves    %.*f %s", u ? 1 : 0, bytes, unit[u]);
    out_line(c->o, " */");
}

/* ---- indices ------------------------------------------------------------- */

static int count_axes(uint32_t axes)
{
    int n = 0;
    for (; axes; axes &= axes - 1)
        n++;
    return n;
}

static int first_axis(uint32_t axes)
{
    int a = 0;
    while (!(axes >> a & 1))
        a++;
    return a;
}

/* Whether anything is addressed along an axis. */
static bool is_used(const CpuKernel *c, int axis)
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

const char *cpu_loop_variable(const CpuKernel *c, uint32_t axes, bool parts,
                              const char *name)
{
    if (count_axes(axes) == 1 && !parts)
        return arena_printf(c->p->arena, "i%d", first_axis(axes));
    return name;
}

void cpu_split_index(CpuKernel *c, uint32_t axes, const char *from,
                     int64_t divisor)
{
    const Space *s = &c->k->space;
    Arena *a = c->p->arena;
    int major = axes ? first_axis(axes) : 0;
    for (int axis = s->naxes; axis-- > 0;) {
        if (!(axes >> axis & 1))
            continue;
        const char *x = from;
        if (divisor > 1)
            x = arena_printf(a, "%s / %lld", x, (long long)divisor);
        if (axis != major)
            x = arena_printf(a, "%s %% %lld", x, (long long)s->size[axis]);
        if (is_used(c, axis) && strcmp(x, arena_printf(a, "i%d", axis)) != 0)
            out_line(c->o, "const int64_t i%d = %s;", axis, x);
        divisor *= s->size[axis];
    }
}

void cpu_tail_columns(CpuKernel *c)
{
    const Space *s = &c->k->space;
    out_line(c->o, "const int columns = i%d == %lld ? %lld : %d;", s->block,
             (long long)s->size[s->block] - 1, (long long)s->tail, SPACE_BLOCK);
}

void cpu_open_loop(CpuKernel *c, const char *variable, int64_t n, bool parallel)
{
    if (parallel)
        out_line(c->o, "#pragma omp parallel for schedule(static) "
                       "num_threads(parc_threads(rt))");
    out_line(c->o, "for (int64_t %s = 0; %s < %lld; %s++) {", variable,
             variable, (long long)n, variable);
    c->o->indent += 4;
}

void cpu_close_block(CpuKernel *c)
{
    c->o->indent -= 4;
    out_line(c->o, "}");
}

/* ---- the loops over rows ------------------------------------------------- */

static void rows(CpuKernel *c)
{
    const Kernel *k = c->k;
    bool block = k->space.tail && (k->space.summed >> k->space.block & 1);
    if (k->rows == 1) {
        cpu_row(c);
        return;
    }
    const char *row = cpu_loop_variable(c, k->space.summed, false, "row");
    if (k->parts > 1) {
        const char *part =
            k->units > 1
                ? arena_printf(c->p->arena, "unit %% %lld", (long long)k->parts)
                : "unit";
        out_line(c->o, "const int64_t part = %s;", part);
        out_line(c->o, "const int64_t end = (part + 1) * %lld / %lld;",
                 (long long)k->rows, (long long)k->parts);
        out_line(c->o,
                 "for (int64_t %s = part * %lld / %lld; %s < end; "
                 "%s++) {",
                 row, (long long)k->rows, (long long)k->parts, row, row);
        c->o->indent += 4;
    } else {
        cpu_open_loop(c, row, k->rows, false);
    }
    cpu_split_index(c, k->space.summed, row, 1);
    if (block)
        cpu_tail_columns(c);
    cpu_row(c);
    cpu_close_block(c);
}

static void units(CpuKernel *c)
{
    const Kernel *k = c->k;
    int64_t n = k->units * k->parts;
    const char *unit = NULL;
    if (n > 1) {
        unit = cpu_loop_variable(c, k->space.kept, k->parts > 1, "unit");
        cpu_open_loop(c, unit, n, k->work >= PARALLEL_WORK);
        cpu_split_index(c, k->space.kept, unit, k->parts);
    }
    if (k->space.tail && (k->space.kept >> k->space.block & 1))
        cpu_tail_columns(c);
    cpu_begin_totals(c, unit);
    rows(c);
    cpu_end_totals(c, unit);
    if (unit)
        cpu_close_block(c);
}

static bool loads(const Kernel *k, int instr, int buffer)
{
    return k->instr[instr].code == KERNEL_LOAD &&
           k->instr[instr].buffer == buffer;
}

/* Whether any statement reads an operand: x to the power of 0 does not. */
static bool is_read(const Kernel *k, int buffer)
{
    bool found = k->buffer[buffer].out;
    for (int p = 0; p < k->nphases; p++) {
        for (int i = 0; i < k->phase[p].nrow; i++)
            found |= loads(k, k->phase[p].row[i], buffer);
        for (int i = 0; i < k->phase[p].nelement; i++)
            found |= loads(k, k->phase[p].element[i].instr, buffer);
    }
    for (int i = 0; i < k->nkept; i++)
        found |= loads(k, k->kept[i], buffer);
    for (int i = 0; i < k->ncolumn; i++)
        found |= loads(k, k->column[i], buffer);
    return found;
}

void cpu_kernel_emit(Out *o, const Program *p, const Op *fused, int number)
{
    CpuKernel c = {.o = o, .p = p, .k = kernel_build(p, fused)};
    head(&c, number);
    signature(&c, number, "");
    out_line(o, "{");
    o->indent += 4;
    for (int i = 0; i < c.k->nbuffers; i++)
        if (!is_read(c.k, i))
            out_line(o, "(void)%s;", c.k->buffer[i].name);
    size_t before = o->size;
    units(&c);
    cpu_epilogue(&c);
    o->indent -= 4;
    out_line(o, "}");
    if (strstr(o->text + before, "(rt)"))
        return;
    /* Nothing runs in parallel: say that `rt` is not forgotten. */
    const char *body = arena_strdup(p->arena, o->text + before);
    o->size = before;
    out(o, "    (void)rt;\n%s", body);
}

void cpu_kernel_prototype(Out *o, const Program *p, const Op *fused, int number)
{
    CpuKernel c = {.o = o, .p = p, .k = kernel_build(p, fused)};
    signature(&c, number, ";");
}
