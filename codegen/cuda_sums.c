/* cuda_sums.c: sums over rows in CUDA kernels, in two stages.
 *
 * A block adds up its part of the rows: a scalar in every thread (a<n>), put
 * together through warps; a sum by column in the registers of the thread that
 * owns the column, or in its place in shared memory. Where warps of a block
 * have rows of their own, shared memory puts them together. If the block has
 * all rows, what follows from the sums is computed at once; else the sums go
 * to the workspace, [unit][part] or [unit][part][column], and a second kernel
 * adds the parts: a block takes 32 columns, its warps every so many-th part.
 * Always in the same order, so that the bits are the same on every run.
 */
#include "codegen/cuda_kernel.h"

static const char *start_of(const CudaPlan *p, int instr)
{
    return p->k->instr[instr].op == OP_max ? "-INFINITY" : "0.0f";
}

static const char *kind_of(const CudaPlan *p, int instr)
{
    return p->k->instr[instr].op == OP_max ? "max" : "sum";
}

static int64_t all_columns(const CudaPlan *p)
{
    return p->columns * p->lanes;
}

static const char *at_offset(Arena *a, const char *name, int64_t offset)
{
    return offset ? arena_printf(a, "%s + %lld", name, (long long)offset)
                  : name;
}

static const char *flat_column(const CudaPlan *p)
{
    return p->outer ? "c" : "j";
}

/* ---- while rows come ----------------------------------------------------- */

const char *cuda_column_sum(const CudaPrinter *c, int instr, int lane)
{
    const CudaPlan *p = c->plan;
    Arena *a = c->text.p->arena;
    const char *name = arena_printf(a, "a%d", instr);
    if (p->place == CUDA_REGISTERS || p->form == CUDA_TILES)
        return cuda_own(c, name, lane);
    return arena_printf(
        a, "%s[%s%s%s]", name, flat_column(p), p->vector > 1 ? " + e" : "",
        lane ? arena_printf(a, " + %lld", (long long)p->columns) : "");
}

static void set_own(CudaPrinter *c, int instr, const char *value)
{
    const CudaPlan *p = c->plan;
    if (p->place == CUDA_REGISTERS || p->form == CUDA_TILES) {
        int n = 0;
        if (p->slots > 1) {
            out_line(c->text.o, "PARC_UNROLL");
            out_line(c->text.o, "for (int s = 0; s < %d; s++)", p->slots);
            c->text.o->indent += 4 * ++n;
        }
        out_line(c->text.o, "PARC_UNROLL");
        out_line(c->text.o, "for (int e = 0; e < %d; e++)",
                 p->vector * p->lanes);
        out_line(c->text.o, "    a%d[%s][e] = %s;", instr, n ? "s" : "0",
                 value);
        c->text.o->indent -= 4 * n;
        return;
    }
    int opened = cuda_open_slots(c);
    opened += cuda_open_vector(c);
    for (int lane = 0; lane < c->plan->lanes; lane++)
        out_line(c->text.o, "%s = %s;", cuda_column_sum(c, instr, lane), value);
    cuda_close_blocks(c, opened);
    c->text.inner = "j";
}

static void begin_columns(CudaPrinter *c, const KernelTotal *t, int64_t *at)
{
    const CudaPlan *p = c->plan;
    Arena *a = c->text.p->arena;
    bool registers = p->place == CUDA_REGISTERS || p->form == CUDA_TILES;
    if (registers) {
        out_line(c->text.o, "float a%d[%d][%d];", t->instr, p->slots,
                 p->vector * p->lanes);
    } else if (p->global_sums) {
        out_line(c->text.o, "float *a%d = %s + block_index() * %lld;", t->instr,
                 at_offset(a, "workspace", t->offset),
                 (long long)all_columns(p));
    } else {
        out_line(c->text.o, "float *a%d = (float *)%s;", t->instr,
                 *at ? arena_printf(a, "((char *)parc_shared() + %lld)",
                                    (long long)*at)
                     : "parc_shared()");
        *at += all_columns(p) * 4;
    }
    set_own(c, t->instr, start_of(p, t->instr));
}

void cuda_begin_totals(CudaPrinter *c)
{
    const CudaPlan *p = c->plan;
    int64_t at = p->sums_at;
    for (int i = 0; i < p->k->ntotals; i++) {
        const KernelTotal *t = &p->k->total[i];
        if (t->columns)
            begin_columns(c, t, &at);
        else
            out_line(c->text.o, "float a%d = %s;", t->instr,
                     start_of(p, t->instr));
    }
}

/* ---- the epilogue -------------------------------------------------------- */

static bool has_columns(const CudaPlan *p)
{
    bool any = p->k->ncolumn > 0;
    for (int i = 0; i < p->k->ntotals; i++)
        any |= p->k->total[i].columns;
    return any;
}

static void epilogue_stores(CudaPrinter *c, bool element)
{
    const Kernel *k = c->plan->k;
    Arena *a = c->text.p->arena;
    for (int r = 0; r < k->nroots; r++) {
        const KernelRoot *root = &k->root[r];
        const KernelBuffer *b = &k->buffer[root->target];
        if (root->kind != ROOT_STORE || !root->epilogue ||
            root->element != element)
            continue;
        for (int lane = 0; lane < kernel_lanes(k, b->axes); lane++)
            out_code(
                c->text.o, "%s",
                kernel_stored(&c->text, b,
                              arena_printf(a, "%s[%s]", b->name,
                                           kernel_index(&c->text, b->axes,
                                                        b->stride, lane)),
                              kernel_value(&c->text, root->instr, 'e', lane)));
    }
}

/* What is computed once a unit, and its stores, in one thread. */
static void epilogue_scalars(CudaPrinter *c, const char *one)
{
    const Kernel *k = c->plan->k;
    bool any = false;
    for (int i = 0; i < k->nkept; i++)
        kernel_compute(&c->text, k->kept[i], 'e');
    for (int r = 0; r < k->nroots; r++)
        any |= k->root[r].kind == ROOT_STORE && k->root[r].epilogue &&
               !k->root[r].element;
    if (!any)
        return;
    int opened =
        cuda_open_block(c, arena_printf(c->text.p->arena, "if (%s) {", one));
    epilogue_stores(c, false);
    cuda_close_blocks(c, opened);
}

static void epilogue_column(CudaPrinter *c)
{
    for (int i = 0; i < c->plan->k->ncolumn; i++)
        kernel_compute(&c->text, c->plan->k->column[i], 'e');
    epilogue_stores(c, true);
}

static void name_sum(CudaPrinter *c, int instr, int lane, const char *text)
{
    const KernelInstr *i = &c->plan->k->instr[instr];
    kernel_statement(&c->text, i->source,
                     arena_printf(c->text.p->arena, "const float %s = %s;",
                                  kernel_value(&c->text, instr, 'e', lane),
                                  text));
}

/* ---- the end of a block's rows ------------------------------------------- */

static void end_scalars(CudaPrinter *c)
{
    const CudaPlan *p = c->plan;
    bool put = false;
    for (int i = 0; i < p->k->ntotals; i++) {
        const KernelTotal *t = &p->k->total[i];
        const char *kind = kind_of(p, t->instr);
        if (t->columns || (p->uniform[i] && p->groups == 1))
            continue;
        if (p->threads == 32) {
            out_line(c->text.o, "a%d = warp_%s(a%d);", t->instr, kind,
                     t->instr);
            continue;
        }
        put = true;
        if (p->uniform[i])
            out_line(c->text.o, "block_put(a%d, sum%d);", t->instr, t->instr);
        else
            out_line(c->text.o, "block_put(warp_%s(a%d), sum%d);", kind,
                     t->instr, t->instr);
    }
    if (put)
        out_line(c->text.o, "block_barrier();");
    for (int i = 0; i < p->k->ntotals && put; i++) {
        const KernelTotal *t = &p->k->total[i];
        if (!t->columns && !(p->uniform[i] && p->groups == 1))
            out_line(c->text.o, "a%d = block_get_%s(sum%d);", t->instr,
                     kind_of(p, t->instr), t->instr);
    }
}

static void scalars_away(CudaPrinter *c)
{
    const CudaPlan *p = c->plan;
    int opened = 0;
    for (int i = 0; i < p->k->ntotals; i++) {
        const KernelTotal *t = &p->k->total[i];
        if (t->columns)
            continue;
        if (!opened)
            opened = cuda_open_block(c, "if (thread_index() == 0) {");
        out_line(c->text.o, "workspace[%s] = a%d;",
                 at_offset(c->text.p->arena, "block_index()", t->offset),
                 t->instr);
    }
    cuda_close_blocks(c, opened);
}

/* "workspace + 264 + block_index() * 4096": a block's column sums. */
static const char *block_sums(const CudaPrinter *c, const KernelTotal *t)
{
    const CudaPlan *p = c->plan;
    Arena *a = c->text.p->arena;
    const char *block = "block_index()";
    if (p->tiles > 1)
        block =
            p->units * p->parts > 1
                ? arena_printf(a, "(block_index() / %lld)", (long long)p->tiles)
                : "0";
    return arena_printf(a, "%s + %s * %lld",
                        at_offset(a, "workspace", t->offset), block,
                        (long long)all_columns(p));
}

/* Each thread owns its columns: nothing has to cross. */
static void end_own_columns(CudaPrinter *c)
{
    const CudaPlan *p = c->plan;
    Arena *a = c->text.p->arena;
    if (p->combine && p->global_sums)
        return;
    int opened = p->form == CUDA_TILES
                     ? cuda_open_block(c, arena_printf(a, "if (j < %lld) {",
                                                       (long long)p->columns))
                     : cuda_open_slots(c);
    if (p->combine && p->place == CUDA_REGISTERS) {
        for (int i = 0; i < p->k->ntotals; i++) {
            const KernelTotal *t = &p->k->total[i];
            for (int lane = 0; t->columns && lane < p->lanes; lane++)
                out_code(c->text.o, "parc_write_f32(%s + %s, a%d[%s]%s, %d);",
                         at_offset(a, block_sums(c, t), lane * p->columns),
                         flat_column(p), t->instr, p->slots > 1 ? "s" : "0",
                         lane ? arena_printf(a, " + %d", p->vector) : "",
                         p->vector);
        }
        cuda_close_blocks(c, opened);
        return;
    }
    opened += cuda_open_vector(c);
    const char *element = p->vector > 1 ? " + e" : "";
    for (int i = 0; i < p->k->ntotals; i++) {
        const KernelTotal *t = &p->k->total[i];
        for (int lane = 0; t->columns && lane < p->lanes; lane++) {
            const char *sum = cuda_column_sum(c, t->instr, lane);
            if (p->combine)
                out_code(c->text.o, "(%s)[%s%s] = %s;",
                         at_offset(a, block_sums(c, t), lane * p->columns),
                         flat_column(p), element, sum);
            else
                name_sum(c, t->instr, lane, sum);
        }
    }
    if (!p->combine)
        epilogue_column(c);
    cuda_close_blocks(c, opened);
    c->text.inner = "j";
}

/* Warps that had rows of their own hand their sums over. */
static void hand_over(CudaPrinter *c, int64_t wide)
{
    const CudaPlan *p = c->plan;
    Arena *a = c->text.p->arena;
    int64_t at = p->sums_at / 4;
    const char *from =
        p->form == CUDA_TILES
            ? arena_printf(a, p->vector > 1 ? "t * %d" : "t", p->vector)
            : flat_column(p);
    for (int i = 0; i < p->k->ntotals; i++) {
        const KernelTotal *t = &p->k->total[i];
        if (!t->columns)
            continue;
        out_line(c->text.o, "float *share%d = %s;", t->instr,
                 at_offset(a, "(float *)parc_shared()", at));
        at += p->groups * wide * p->lanes;
        int opened = cuda_open_slots(c);
        for (int lane = 0; lane < p->lanes; lane++)
            out_code(c->text.o,
                     "parc_write_f32(share%d + %s * %lld + %s, a%d[%s]%s, "
                     "%d);",
                     t->instr,
                     lane ? arena_printf(a, "(group + %d)", lane * p->groups)
                          : "group",
                     (long long)wide, from, t->instr, p->slots > 1 ? "s" : "0",
                     lane ? arena_printf(a, " + %d", p->vector) : "",
                     p->vector);
        cuda_close_blocks(c, opened);
    }
    out_line(c->text.o, "block_barrier();");
}

/* One column after another by all threads of the block. */
static void end_shared_columns(CudaPrinter *c)
{
    const CudaPlan *p = c->plan;
    Arena *a = c->text.p->arena;
    int64_t wide = p->tiles > 1 || p->form == CUDA_TILES
                       ? (int64_t)32 * p->vector
                       : p->columns;
    const char *type = cuda_column_type(p), *name = flat_column(p);
    if (p->groups > 1)
        hand_over(c, wide);
    int opened = cuda_open_block(
        c, arena_printf(a, "for (int u = thread_index(); u < %lld; u += %d) {",
                        (long long)wide, p->threads));
    out_line(c->text.o, "const %s %s = %s;", type, name,
             p->tiles > 1 ? arena_printf(a, "tile * %lld + u", (long long)wide)
                          : "u");
    if (p->columns % wide)
        opened += cuda_open_block(c, arena_printf(a, "if (%s < %lld) {", name,
                                                  (long long)p->columns));
    cuda_split_columns(c, name);
    for (int i = 0; i < p->k->ntotals; i++) {
        const KernelTotal *t = &p->k->total[i];
        for (int lane = 0; t->columns && lane < p->lanes; lane++) {
            const char *sum = arena_printf(a, "s%d_%d", t->instr, lane);
            const char *at = arena_printf(a, "u + %lld",
                                          (long long)(lane * p->groups * wide));
            out_line(c->text.o, "float %s = share%d[%s];", sum, t->instr, at);
            out_line(c->text.o, "for (int i = 1; i < %d; i++)", p->groups);
            out_line(
                c->text.o, "    %s",
                kernel_add_to(&c->text, p->k->instr[t->instr].op, sum,
                              arena_printf(a, "share%d[%s + i * %lld]",
                                           t->instr, at, (long long)wide)));
            if (p->combine)
                out_code(c->text.o, "(%s)[%s] = %s;",
                         at_offset(a, block_sums(c, t), lane * p->columns),
                         name, sum);
            else
                name_sum(c, t->instr, lane, sum);
        }
    }
    if (!p->combine)
        epilogue_column(c);
    cuda_close_blocks(c, opened);
}

void cuda_end_totals(CudaPrinter *c)
{
    const CudaPlan *p = c->plan;
    bool columns = false;
    for (int i = 0; i < p->k->ntotals; i++)
        columns |= p->k->total[i].columns;
    end_scalars(c);
    if (p->combine) {
        scalars_away(c);
    } else {
        for (int i = 0; i < p->k->ntotals; i++)
            if (!p->k->total[i].columns)
                name_sum(c, p->k->total[i].instr, 0,
                         arena_printf(c->text.p->arena, "a%d",
                                      p->k->total[i].instr));
        epilogue_scalars(c, p->tiles > 1 ? "tile == 0 && thread_index() == 0"
                                         : "thread_index() == 0");
    }
    if (columns && p->groups == 1)
        end_own_columns(c);
    else if (columns || (has_columns(p) && !p->combine))
        end_shared_columns(c);
}

/* ---- the second kernel --------------------------------------------------- */

static const char *part_of(const CudaPlan *p, Arena *a)
{
    if (p->units == 1)
        return "part";
    if (p->parts == 1)
        return "unit";
    return arena_printf(a, "(unit * %lld + part)", (long long)p->parts);
}

static void combine_scalar(CudaPrinter *c, const KernelTotal *t)
{
    const CudaPlan *p = c->plan;
    Arena *a = c->text.p->arena;
    const char *sum = arena_printf(a, "a%d", t->instr);
    const char *item = arena_printf(a, "workspace[%s]",
                                    at_offset(a, part_of(p, a), t->offset));
    out_line(c->text.o, "float %s = %s;", sum, start_of(p, t->instr));
    out_line(c->text.o,
             "for (int part = lane_index(); part < %lld; part += 32)",
             (long long)p->parts);
    out_line(c->text.o, "    %s",
             kernel_add_to(&c->text, p->k->instr[t->instr].op, sum, item));
    name_sum(c, t->instr, 0,
             arena_printf(a, "warp_%s(%s)", kind_of(p, t->instr), sum));
}

static void combine_columns(CudaPrinter *c, const KernelTotal *t, int lane)
{
    const CudaPlan *p = c->plan;
    Arena *a = c->text.p->arena;
    const char *sum = arena_printf(a, "a%d_%d", t->instr, lane);
    const char *item = arena_printf(
        a, "%s * %lld + %s", part_of(p, a), (long long)all_columns(p),
        at_offset(a, flat_column(p), t->offset + lane * p->columns));
    out_line(c->text.o, "float %s = %s;", sum, start_of(p, t->instr));
    int opened = 0;
    if (p->columns % 32)
        opened = cuda_open_block(c, arena_printf(a, "if (%s < %lld) {",
                                                 flat_column(p),
                                                 (long long)p->columns));
    out_line(c->text.o, "for (int part = %s; part < %lld; part += %d)",
             p->combine_warps > 1 ? "warp_index()" : "0", (long long)p->parts,
             p->combine_warps);
    out_code(c->text.o, "    %s",
             kernel_add_to(&c->text, p->k->instr[t->instr].op, sum,
                           arena_printf(a, "workspace[%s]", item)));
    cuda_close_blocks(c, opened);
    if (p->combine_warps > 1)
        out_line(c->text.o, "sum%d[warp_index()][lane_index()%s] = %s;",
                 t->instr, lane ? " + 32" : "", sum);
}

static void combined_column(CudaPrinter *c, const KernelTotal *t, int lane)
{
    const CudaPlan *p = c->plan;
    Arena *a = c->text.p->arena;
    const char *sum = arena_printf(a, "a%d_%d", t->instr, lane);
    if (p->combine_warps > 1) {
        const char *item = arena_printf(a, "sum%d[i][lane_index()%s]", t->instr,
                                        lane ? " + 32" : "");
        out_line(c->text.o, "for (int i = 1; i < %d; i++)", p->combine_warps);
        out_line(c->text.o, "    %s",
                 kernel_add_to(&c->text, p->k->instr[t->instr].op, sum, item));
    }
    name_sum(c, t->instr, lane, sum);
}

static void open_combine(CudaPrinter *c, bool columns)
{
    const CudaPlan *p = c->plan;
    Arena *a = c->text.p->arena;
    int64_t tiles = p->combine_grid / p->units;
    for (int i = 0; i < p->k->ntotals; i++)
        if (p->k->total[i].columns && p->combine_warps > 1)
            out_line(c->text.o, "PARC_SHARED float sum%d[%d][%d];",
                     p->k->total[i].instr, p->combine_warps, 32 * p->lanes);
    if (p->units > 1) {
        out_line(c->text.o, "const int64_t unit = block_index()%s;",
                 tiles > 1 ? arena_printf(a, " / %lld", (long long)tiles) : "");
        kernel_split_index(&c->text, p->kept, "unit", 1);
    }
    if (!columns)
        return;
    const char *tile = "(int)block_index()";
    if (p->units > 1)
        tile =
            arena_printf(a, "(int)(block_index() %% %lld)", (long long)tiles);
    out_line(c->text.o, "const %s %s = %slane_index();", cuda_column_type(p),
             flat_column(p),
             tiles > 1 ? arena_printf(a, "%s * 32 + ", tile) : "");
    cuda_split_columns(c, flat_column(p));
}

void cuda_combine(CudaPrinter *c)
{
    const CudaPlan *p = c->plan;
    bool columns = has_columns(p);
    open_combine(c, columns);
    for (int i = 0; i < p->k->ntotals; i++)
        for (int lane = 0; p->k->total[i].columns && lane < p->lanes; lane++)
            combine_columns(c, &p->k->total[i], lane);
    if (p->combine_warps > 1) {
        out_line(c->text.o, "block_barrier();");
        out_line(c->text.o, "if (warp_index() > 0)");
        out_line(c->text.o, "    return;");
    }
    for (int i = 0; i < p->k->ntotals; i++)
        if (!p->k->total[i].columns)
            combine_scalar(c, &p->k->total[i]);
    epilogue_scalars(
        c, columns ? arena_printf(c->text.p->arena, "%s == 0", flat_column(p))
                   : "thread_index() == 0");
    if (!columns)
        return;
    if (p->columns % 32) {
        out_line(c->text.o, "if (%s >= %lld)", flat_column(p),
                 (long long)p->columns);
        out_line(c->text.o, "    return;");
    }
    for (int i = 0; i < p->k->ntotals; i++)
        for (int lane = 0; p->k->total[i].columns && lane < p->lanes; lane++)
            combined_column(c, &p->k->total[i], lane);
    epilogue_column(c);
}
