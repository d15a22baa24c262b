/* cpu_kernel.c: lowers a kernel to a C function with OpenMP: its loops over
 * rows and its sums over rows. cpu_columns.c lowers the work on one row.
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
 * Small loops run on one thread. Buffers that memory planning may overlap are
 * not `restrict`; their loops still vectorize, because the pragma says that
 * iterations are independent.
 *
 * A task is an index over the kept axes (those of the rows that the kernel
 * does not sum over), and a part of the rows that are summed (kernel.h). It
 * adds up its rows: a scalar sum in a double, the variable a<n>; a sum by
 * column in a row of the workspace or of the result, one float per column.
 * After all tasks the parts are added in a fixed order, and the code that
 * uses the sums (the epilogue) follows.
 */
#include "codegen/cpu/cpu_kernel.h"

/* Number of elements from which a parallel loop pays. */
enum { PARALLEL_WORK = 32768 };

/* ---- sums over rows ------------------------------------------------------ */

/* The address of a task's sums; `task` is its number. */
static const char *total_address(const Lowering *c, const KernelTotal *t,
                                 const char *task)
{
    const KernelBuffer *b = &c->k->buffer[t->buffer];
    if (t->direct)
        return lower_index(
            c, "%s + %s", b->name,
            kernel_index(c, b->axes & ~c->k->space.column, b->stride, 0));
    return lower_index(c, "workspace + %lld + (%s) * %lld",
                       (long long)t->offset, task,
                       (long long)(t->columns ? c->k->columns : 1));
}

static const char *column_sum(const Lowering *c, int instr, int lane)
{
    const KernelTotal *t = &c->k->total[c->k->instr[instr].accumulator];
    return lower_text(c, "a%d[%s]", instr,
                      kernel_index(c, c->k->space.column, t->stride, lane));
}

static void begin_totals(Lowering *c, const char *task)
{
    Stmt *outer = c->at;
    for (int i = 0; i < c->k->ntotals; i++) {
        const KernelTotal *t = &c->k->total[i];
        const char *name = lower_text(c, "a%d", t->instr);
        const char *start = lower_start(c, t->instr);
        if (!t->columns) {
            lower_var(c, "double", name, *start == '-' ? start : "0.0");
            continue;
        }
        lower_var(c, "float *", name, total_address(c, t, task));
        cpu_open_columns(c);
        for (int lane = 0; lane < kernel_lanes(c->k, c->k->space.column);
             lane++)
            lower_line(c, "%s = %s;", column_sum(c, t->instr, lane), start);
        c->at = outer;
    }
}

static void end_totals(Lowering *c, const char *task)
{
    for (int i = 0; i < c->k->ntotals; i++) {
        const KernelTotal *t = &c->k->total[i];
        if (!t->columns)
            lower_line(c, "*(%s) = (float)a%d;", total_address(c, t, task),
                       t->instr);
    }
}

/* The number of a task from its index over the kept axes and its part. */
static const char *part_task(const Lowering *c, const char *task,
                             const char *part)
{
    return lower_index(c, "%s * %lld + %s", task, (long long)c->k->parts, part);
}

/* The sum of a scalar's parts, the variable e<n>. */
static void combine_scalar(Lowering *c, const KernelTotal *t, const char *task)
{
    const KernelInstr *instr = &c->k->instr[t->instr];
    bool max = instr->op == OP_max;
    Stmt *outer = c->at;
    const char *sum = lower_text(c, "s%d", t->instr);
    const char *part = part_task(c, task, c->k->parts > 1 ? "part" : "0");
    const char *item = lower_text(c, "*(%s)", total_address(c, t, part));
    if (c->k->parts == 1) {
        lower_total(c, t->instr, 0, item);
        return;
    }
    lower_var(c, "double", sum, max ? "-INFINITY" : "0.0");
    lower_count(c, LOOP_SERIAL, "part", c->k->parts)->brief = true;
    if (max)
        lower_line(c, "%s = parc_max((float)%s, %s);", sum, sum, item);
    else
        lower_line(c, "%s += %s;", sum, item);
    c->at = outer;
    lower_total(c, t->instr, 0, lower_text(c, "(float)%s", sum));
}

/* Adds the column sums of later parts to those of the first part. */
static void combine_columns(Lowering *c, const KernelTotal *t, const char *task)
{
    Stmt *outer = c->at;
    lower_var(c, "float *", lower_text(c, "c%d", t->instr),
              total_address(c, t, part_task(c, task, "0")));
    if (c->k->parts == 1)
        return;
    lower_count(c, LOOP_SERIAL, "part", c->k->parts)->text = "1";
    lower_var(c, "const float *", "more",
              lower_text(c, "c%d + part * %lld", t->instr,
                         (long long)c->k->columns));
    cpu_open_columns(c);
    for (int lane = 0; lane < kernel_lanes(c->k, c->k->space.column); lane++) {
        const char *at = kernel_index(c, c->k->space.column, t->stride, lane);
        lower_update(c, c->k->instr[t->instr].op, NULL,
                     lower_text(c, "c%d[%s]", t->instr, at),
                     lower_text(c, "more[%s]", at));
    }
    c->at = outer;
}

static bool epilogue_has_columns(const Kernel *k)
{
    bool any = k->ncolumn > 0;
    for (int i = 0; i < k->ntotals; i++)
        any |= k->total[i].columns && !k->total[i].direct;
    return any;
}

static void epilogue_columns(Lowering *c)
{
    Stmt *outer = c->at;
    cpu_open_columns(c);
    for (int i = 0; i < c->k->ntotals; i++) {
        const KernelTotal *t = &c->k->total[i];
        for (int lane = 0; t->columns && !t->direct &&
                           lane < kernel_lanes(c->k, c->k->space.column);
             lane++)
            lower_total(c, t->instr, lane,
                        lower_text(c, "c%d[%s]", t->instr,
                                   kernel_index(c, c->k->space.column,
                                                t->stride, lane)));
    }
    lower_column_epilogue(c);
    c->at = outer;
}

/* ---- the loops over rows ------------------------------------------------- */

/* The length of a block of columns, if the last one is shorter and its axis is
 * one of `axes`. */
static void name_columns(Lowering *c, uint32_t axes)
{
    const Space *s = &c->k->space;
    if (s->tail && (axes >> s->block & 1))
        lower_var(c, "const int", "columns",
                  lower_text(c, "i%d == %lld ? %lld : %d", s->block,
                             (long long)s->size[s->block] - 1,
                             (long long)s->tail, SPACE_BLOCK));
}

/* Opens the loop over the indices along `axes`, `per` of them for each, and
 * declares the indices; returns the running index, "0" if there is only one. */
static const char *open_tasks(Lowering *c, uint32_t axes, int64_t per,
                              int64_t work)
{
    int64_t n = space_size(&c->k->space, axes) * per;
    bool one = kernel_count_axes(axes) == 1 && per == 1;
    const char *task =
        one ? lower_text(c, "i%d", kernel_first_axis(axes)) : "task";
    if (n > 1) {
        lower_count(c, work >= PARALLEL_WORK ? LOOP_PARALLEL : LOOP_SERIAL,
                    task, n)
            ->type = "int64_t";
        kernel_split_index(c, axes, task, per);
    }
    name_columns(c, axes);
    return n > 1 ? task : "0";
}

/* Opens the loop over the rows of a part. */
static void open_rows(Lowering *c, const char *task)
{
    const Kernel *k = c->k;
    uint32_t axes = k->space.summed;
    const char *row = kernel_count_axes(axes) == 1
                          ? lower_text(c, "i%d", kernel_first_axis(axes))
                          : "row";
    if (k->rows == 1)
        return;
    if (k->parts > 1)
        lower_let(c, "const int64_t", "part", "%s",
                  k->tasks > 1
                      ? lower_text(c, "%s %% %lld", task, (long long)k->parts)
                      : task);
    lower_rows(c, row, k->rows, k->parts, "0", 1);
    kernel_split_index(c, axes, row, 1);
    name_columns(c, axes);
}

static void all_rows(Lowering *c)
{
    const Kernel *k = c->k;
    const char *task = open_tasks(c, k->space.kept, k->parts, k->work);
    Stmt *outer = c->at;
    begin_totals(c, task);
    open_rows(c, task);
    cpu_row_pointers(c);
    lower_row(c);
    c->at = outer;
    end_totals(c, task);
    c->at = &c->function;
}

static void epilogue(Lowering *c)
{
    const Kernel *k = c->k;
    bool columns = epilogue_has_columns(k), any = false;
    for (int i = 0; i < k->ntotals; i++)
        any |= !k->total[i].direct;
    if (!any)
        return;
    const char *task = open_tasks(
        c, k->space.kept, 1, k->tasks * k->parts * (columns ? k->columns : 1));
    for (int i = 0; i < k->ntotals; i++) {
        const KernelTotal *t = &k->total[i];
        if (!t->direct)
            (t->columns ? combine_columns : combine_scalar)(c, t, task);
    }
    lower_task_epilogue(c, "");
    if (columns)
        epilogue_columns(c);
    c->at = &c->function;
}

/* ---- the function -------------------------------------------------------- */

/* A maximum over columns is taken over integer keys, which become a float. */
static void finish(Lowering *c, int phase)
{
    for (int r = 0; r < c->k->nroots; r++) {
        const KernelRoot *root = &c->k->root[r];
        if (root->kind == ROOT_REDUCE && root->phase == phase)
            lower_add(c, (Stmt){.code = STMT_FINISH,
                                .part = FINISH_LOOP,
                                .op = c->k->instr[root->target].op,
                                .name = kernel_value(c, root->target, 0)});
    }
}

static const char *reused(const Lowering *c, const KernelStep *step, int lane)
{
    return kernel_loaded(c, &c->k->buffer[step->buffer],
                         cpu_element(c, step->buffer, lane));
}

static const KernelTarget target = {.dialect = &dialect_c,
                                    .columns = cpu_columns,
                                    .finish = finish,
                                    .element = cpu_element,
                                    .value = cpu_value,
                                    .reused = reused,
                                    .column_sum = column_sum};

void cpu_kernel_emit(void *out_to, const Program *p, const Op *fused,
                     int number)
{
    Out *o = out_to;
    const Kernel *k = kernel_build(p, fused);
    Lowering c = {.p = p,
                  .arena = p->arena,
                  .k = k,
                  .target = &target,
                  .phase = k->phase,
                  .nphases = k->nphases,
                  .inner = "j",
                  .column_type = kernel_column_type(k, k->columns),
                  .merged = -1,
                  .first = ""};
    c.at = &c.function;
    all_rows(&c);
    epilogue(&c);
    stmt_drop_unused(&c.function);
    kernel_comment(o, p, k, number);
    out_line(o, " */");
    kernel_function(o, p, k, number, dialect_c.restricted, "");
    out_open(o, "{");
    for (int i = 0; i < k->nbuffers; i++)
        if (!stmt_uses(&c.function, k->buffer[i].name))
            out_line(o, "(void)%s;", k->buffer[i].name);
    if (!stmt_is_parallel(&c.function))
        out_line(o, "(void)rt;");
    loops_print(o, &dialect_c, &c.function, p);
    out_close(o);
}

void cpu_kernel_prototype(void *out_to, const Program *p, const Op *fused,
                          int number)
{
    kernel_function(out_to, p, kernel_build(p, fused), number, dialect_c.restricted,
                    ";");
}
