/* cuda_body.c: what a CUDA kernel does for a row, or for a vector: phases of
 * row statements and loops over the columns that a thread owns.
 *
 * A slot is a vector of columns. Its loads come first, then one statement an
 * op for each element, then its stores, so that a thread that writes where it
 * has read does so behind all of the vector's loads.
 */
#include "codegen/cuda_kernel.h"

/* ---- columns ------------------------------------------------------------- */

const char *cuda_column_type(const CudaPlan *c)
{
    const Kernel *k = c->k;
    int64_t stride = 1;
    for (int i = 0; i < k->nbuffers && c->inner >= 0; i++)
        if (k->buffer[i].stride[c->inner] > stride)
            stride = k->buffer[i].stride[c->inner];
    return c->columns < INT32_MAX / 4 / stride ? "int" : "int64_t";
}

int cuda_open_block(CudaPrinter *c, const char *line)
{
    out_line(c->text.o, "%s", line);
    c->text.o->indent += 4;
    return 1;
}

void cuda_close_blocks(CudaPrinter *c, int n)
{
    while (n-- > 0)
        kernel_close_block(&c->text);
}

void cuda_split_columns(CudaPrinter *c, const char *from)
{
    const CudaPlan *p = c->plan;
    if (!p->outer)
        return;
    out_line(c->text.o, "const %s j = %s %% %lld;", cuda_column_type(p), from,
             (long long)p->length);
    kernel_split_index(&c->text, p->outer, from, p->length);
}

/* Whether the slots are an array in registers, which wants the loop unrolled.
 */
static bool has_arrays(const CudaPlan *p)
{
    bool any = false;
    for (int i = 0; i < p->k->ninstrs; i++)
        any |= p->keep[i];
    for (int i = 0; i < p->k->ntotals; i++)
        any |= p->k->total[i].columns;
    return any && p->place == CUDA_REGISTERS;
}

static bool is_unrolled(const CudaPlan *p)
{
    return has_arrays(p) || p->slots <= 4;
}

int cuda_open_slots(CudaPrinter *c)
{
    const CudaPlan *p = c->plan;
    Arena *a = c->text.p->arena;
    int opened = 0;
    int64_t step = (int64_t)p->group * p->vector;
    const char *name = p->outer ? "c" : "j", *type = cuda_column_type(p);
    if (p->form == CUDA_FLAT || p->form == CUDA_TILES)
        return 0;
    const char *first =
        p->vector > 1 ? arena_printf(a, "t * %d", p->vector) : "t";
    if (!is_unrolled(p)) {
        /* Two vectors on their way are enough; more cost registers. */
        out_line(c->text.o, "PARC_UNROLL_2");
        opened += cuda_open_block(
            c, arena_printf(a, "for (%s %s = %s; %s < %lld; %s += %lld) {",
                            type, name, first, name, (long long)p->columns,
                            name, (long long)step));
        cuda_split_columns(c, name);
        return opened;
    }
    if (p->slots > 1) {
        out_line(c->text.o, "PARC_UNROLL");
        opened += cuda_open_block(
            c, arena_printf(a, "for (int s = 0; s < %d; s++) {", p->slots));
        first = arena_printf(a, "(s * %d + t)%s", p->group,
                             p->vector > 1 ? arena_printf(a, " * %d", p->vector)
                                           : "");
    } else {
        opened += cuda_open_block(c, "{");
    }
    out_line(c->text.o, "const %s %s = %s;", type, name, first);
    if (p->columns % step)
        opened += cuda_open_block(c, arena_printf(a, "if (%s < %lld) {", name,
                                                  (long long)p->columns));
    cuda_split_columns(c, name);
    return opened;
}

int cuda_open_vector(CudaPrinter *c)
{
    const CudaPlan *p = c->plan;
    if (p->vector == 1)
        return 0;
    c->text.inner = "(j + e)";
    out_line(c->text.o, "PARC_UNROLL");
    return cuda_open_block(c, arena_printf(c->text.p->arena,
                                           "for (int e = 0; e < %d; e++) {",
                                           p->vector));
}

static void close_vector(CudaPrinter *c, int opened)
{
    cuda_close_blocks(c, opened);
    c->text.inner = "j";
}

/* ---- names of vectors ---------------------------------------------------- */

/* The place of (lane, element) in a vector: lanes one behind the other. */
static const char *plane(const CudaPrinter *c, int lane)
{
    const CudaPlan *p = c->plan;
    if (p->vector == 1)
        return arena_printf(c->text.p->arena, "%d", lane);
    return lane ? arena_printf(c->text.p->arena, "%d + e", p->vector * lane)
                : "e";
}

static const char *place_in(const CudaPrinter *c, const KernelBuffer *b,
                            int lane)
{
    if (b && cuda_is_interleaved(c->plan, b))
        return lane ? "2 * e + 1" : "2 * e";
    return plane(c, lane);
}

const char *cuda_own(const CudaPrinter *c, const char *array, int lane)
{
    return arena_printf(c->text.p->arena, "%s[%s][%s]", array,
                        c->plan->slots > 1 ? "s" : "0", plane(c, lane));
}

static const KernelBuffer *buffer_of(const CudaPrinter *c, int instr)
{
    const KernelInstr *i = &c->plan->k->instr[instr];
    return i->code == KERNEL_LOAD ? &c->plan->k->buffer[i->buffer] : NULL;
}

static const char *in_vector(const CudaPrinter *c, int instr, int lane)
{
    return arena_printf(c->text.p->arena, "in%d[%s]", instr,
                        place_in(c, buffer_of(c, instr), lane));
}

/* "f32": what the functions of vectors call a type. */
static const char *kept_type(const CudaPrinter *c, int instr)
{
    const KernelBuffer *b = buffer_of(c, instr);
    return dtype_name(b ? b->dtype : c->plan->k->instr[instr].dtype);
}

/* Elements of 16 bits stay as they are in memory, two in a register. */
static bool is_raw(const CudaPrinter *c, int instr)
{
    const KernelBuffer *b = buffer_of(c, instr);
    return b && dtype_size(b->dtype) == 2 && cuda_is_vector(c->plan, b);
}

static int width(const CudaPrinter *c, int instr)
{
    return c->plan->vector *
           kernel_lanes(c->plan->k, c->plan->k->instr[instr].axes);
}

/* Whether its values of this phase pass through in<n>. */
static bool is_staged(const CudaPrinter *c, const CudaStep *step)
{
    const CudaPlan *p = c->plan;
    const KernelBuffer *b = buffer_of(c, step->instr);
    if (p->keep[step->instr]) {
        if (p->place == CUDA_SHARED)
            return true;
        if (step->kept)
            return is_raw(c, step->instr);
    }
    return (b && cuda_is_vector(p, b)) ||
           cuda_draws_four(p, &p->k->instr[step->instr]);
}

/* ---- expressions --------------------------------------------------------- */

const char *cuda_load_expression(const KernelPrinter *text,
                                 const KernelInstr *instr, char where, int lane)
{
    const CudaPrinter *c = (const CudaPrinter *)text;
    const KernelBuffer *b = &text->k->buffer[instr->buffer];
    int number = (int)(instr - text->k->instr);
    if (where == 't' && c->staged && c->staged[number] &&
        cuda_is_vector(c->plan, b))
        return in_vector(c, number, lane);
    return kernel_loaded(
        text, b,
        arena_printf(text->p->arena, "%s[%s]", b->name,
                     kernel_index(text, b->axes, b->stride, lane)));
}

const char *cuda_random_expression(const KernelPrinter *text,
                                   const KernelInstr *instr, char where,
                                   int lane)
{
    const CudaPrinter *c = (const CudaPrinter *)text;
    int number = (int)(instr - text->k->instr);
    if (where == 't' && c->staged && c->staged[number] &&
        cuda_draws_four(c->plan, instr))
        return in_vector(c, number, lane);
    return kernel_random_alone(text, instr, where, lane);
}

/* ---- vectors in and out -------------------------------------------------- */

static const char *address(const CudaPrinter *c, const KernelBuffer *b,
                           int lane)
{
    return arena_printf(c->text.p->arena, "%s%s", b->name,
                        kernel_offset(&c->text, b->axes, b->stride, lane));
}

/* How often, and how many elements at once, a buffer's vector is moved. */
static int moves(const CudaPrinter *c, const KernelBuffer *b, int *elements)
{
    int lanes = kernel_lanes(c->plan->k, b->axes);
    bool one = lanes == 1 || cuda_is_interleaved(c->plan, b);
    *elements = c->plan->vector * (one ? lanes : 1);
    return one ? 1 : lanes;
}

static const char *plus(Arena *a, const char *name, int n)
{
    return n ? arena_printf(a, "%s + %d", name, n) : name;
}

/* Where a kept value lies in shared memory. */
static const char *kept_address(const CudaPrinter *c, int instr)
{
    const CudaPlan *p = c->plan;
    int lanes = kernel_lanes(p->k, p->k->instr[instr].axes);
    return arena_printf(c->text.p->arena, "kept%d + %s%s", instr,
                        p->outer ? "c" : "j", lanes > 1 ? " * 2" : "");
}

static void draw_vector(CudaPrinter *c, int instr)
{
    const KernelInstr *i = &c->plan->k->instr[instr];
    Arena *a = c->text.p->arena;
    for (int lane = 0; lane < kernel_lanes(c->plan->k, i->axes); lane++)
        for (int n = 0; n < c->plan->vector; n += 4)
            kernel_statement(
                &c->text, i->source,
                arena_printf(
                    a, "parc_random_four(%s, %s, %lld, (%s) / 4%s);",
                    plus(a, arena_printf(a, "in%d", instr),
                         lane * c->plan->vector + n),
                    kernel_value(&c->text, i->arg[0], 't', lane),
                    (long long)op_attr(i->source, "site").i,
                    kernel_random_index(&c->text, i, i->axes, 't', lane),
                    n ? arena_printf(a, " + %d", n / 4) : ""));
}

static void load_vector(CudaPrinter *c, int instr)
{
    const CudaPlan *p = c->plan;
    const KernelBuffer *b = buffer_of(c, instr);
    Arena *a = c->text.p->arena;
    const char *type = dtype_name(b->dtype);
    int elements, n = moves(c, b, &elements);
    bool raw = p->keep[instr] && p->place == CUDA_REGISTERS && is_raw(c, instr);
    const char *kept =
        arena_printf(a, "kept%d[%s]", instr, p->slots > 1 ? "s" : "0");
    for (int m = 0; m < n; m++) {
        if (raw)
            out_code(c->text.o, "parc_read_words(%s, %s, %d);",
                     plus(a, kept, m * elements / 2), address(c, b, m),
                     elements / 2);
        else
            out_code(c->text.o, "parc_read_%s(%s, %s, %d);", type,
                     plus(a, arena_printf(a, "in%d", instr), m * elements),
                     address(c, b, m), elements);
    }
    if (raw)
        out_code(c->text.o, "parc_widen_%s(in%d, %s, %d);", type, instr, kept,
                 n * elements);
}

/* Brings a step's vector into in<n>, where it does not come of arithmetic. */
static void stage_in(CudaPrinter *c, const CudaStep *step)
{
    const CudaPlan *p = c->plan;
    int n = step->instr, elements = width(c, n);
    const KernelInstr *instr = &p->k->instr[n];
    const KernelBuffer *b = buffer_of(c, n);
    out_line(c->text.o, "%s in%d[%d];", c_value_type(instr->dtype), n,
             elements);
    if (step->kept && p->place == CUDA_SHARED)
        out_code(c->text.o, "parc_read_%s(in%d, %s, %d);", kept_type(c, n), n,
                 kept_address(c, n), elements);
    else if (step->kept)
        out_code(c->text.o, "parc_widen_%s(in%d, kept%d[%s], %d);",
                 kept_type(c, n), n, n, p->slots > 1 ? "s" : "0", elements);
    else if (b && cuda_is_vector(p, b))
        load_vector(c, n);
    else if (cuda_draws_four(p, instr))
        draw_vector(c, n);
}

/* Values that are kept in shared memory go there behind the elements. */
static void stage_kept(CudaPrinter *c, const CudaStep *step)
{
    if (c->plan->keep[step->instr] && !step->kept &&
        c->plan->place == CUDA_SHARED)
        out_code(c->text.o, "parc_write_%s(%s, in%d, %d);",
                 kept_type(c, step->instr), kept_address(c, step->instr),
                 step->instr, width(c, step->instr));
}

static void stage_out(CudaPrinter *c, const KernelBuffer *b, bool end)
{
    int elements, n = moves(c, b, &elements);
    int number = (int)(b - c->plan->k->buffer);
    Arena *a = c->text.p->arena;
    if (!end) {
        out_line(c->text.o, "%s out%d[%d];", c_value_type(b->dtype), number,
                 n * elements);
        return;
    }
    for (int m = 0; m < n; m++)
        out_code(c->text.o, "parc_write_%s(%s, %s, %d);", dtype_name(b->dtype),
                 address(c, b, m),
                 plus(a, arena_printf(a, "out%d", number), m * elements),
                 elements);
}

/* ---- a vector's elements ------------------------------------------------- */

static void element(CudaPrinter *c, const CudaStep *step)
{
    const CudaPlan *p = c->plan;
    int n = step->instr;
    const KernelInstr *instr = &p->k->instr[n];
    Arena *a = c->text.p->arena;
    const char *array = arena_printf(a, "kept%d", n);
    if (!step->kept)
        kernel_compute(&c->text, n, 't');
    for (int lane = 0; lane < kernel_lanes(p->k, instr->axes); lane++) {
        const char *value = kernel_value(&c->text, n, 't', lane);
        if (step->kept) {
            out_line(c->text.o, "const %s %s = %s;", c_value_type(instr->dtype),
                     value,
                     c->staged[n] ? in_vector(c, n, lane)
                                  : cuda_own(c, array, lane));
            continue;
        }
        const KernelBuffer *b = buffer_of(c, n);
        bool loaded = (b && cuda_is_vector(p, b)) || cuda_draws_four(p, instr);
        if (!p->keep[n] || (p->place == CUDA_SHARED && loaded) ||
            (p->place == CUDA_REGISTERS && is_raw(c, n)))
            continue;
        out_line(c->text.o, "%s = %s;",
                 c->staged[n] && !loaded ? in_vector(c, n, lane)
                                         : cuda_own(c, array, lane),
                 value);
    }
}

static void reduce(CudaPrinter *c, const KernelRoot *root)
{
    const Kernel *k = c->plan->k;
    const KernelInstr *to = &k->instr[root->target];
    for (int lane = 0; lane < c->plan->lanes; lane++) {
        const char *sum = kernel_value(&c->text, root->target, 'r', 0);
        kernel_statement(
            &c->text, to->source,
            kernel_add_to(&c->text, to->op, sum,
                          kernel_value(&c->text, root->instr, 't', lane)));
    }
}

static void accumulate(CudaPrinter *c, const KernelRoot *root)
{
    const Kernel *k = c->plan->k;
    const KernelInstr *to = &k->instr[root->target];
    bool columns = k->total[to->accumulator].columns;
    for (int lane = 0; lane < (root->element ? c->plan->lanes : 1); lane++) {
        const char *sum =
            columns ? cuda_column_sum(c, root->target, lane)
                    : arena_printf(c->text.p->arena, "a%d", root->target);
        kernel_statement(
            &c->text, to->source,
            kernel_add_to(&c->text, to->op, sum,
                          kernel_value(&c->text, root->instr,
                                       root->element ? 't' : 'r', lane)));
    }
}

static void store(CudaPrinter *c, const KernelRoot *root)
{
    const KernelBuffer *b = &c->plan->k->buffer[root->target];
    Arena *a = c->text.p->arena;
    for (int lane = 0; lane < kernel_lanes(c->plan->k, b->axes); lane++) {
        const char *value = kernel_value(&c->text, root->instr,
                                         root->element ? 't' : 'r', lane);
        if (root->element && cuda_is_vector(c->plan, b))
            out_line(c->text.o, "out%d[%s] = %s;", root->target,
                     place_in(c, b, lane), value);
        else
            out_code(c->text.o, "%s",
                     kernel_stored(&c->text, b,
                                   arena_printf(a, "%s[%s]", b->name,
                                                kernel_index(&c->text, b->axes,
                                                             b->stride, lane)),
                                   value));
    }
}

static void element_roots(CudaPrinter *c, int phase)
{
    static void (*const emit[])(CudaPrinter *, const KernelRoot *) = {
        [ROOT_STORE] = store,
        [ROOT_REDUCE] = reduce,
        [ROOT_TOTAL] = accumulate};
    static const RootKind order[] = {ROOT_REDUCE, ROOT_TOTAL, ROOT_STORE};
    const Kernel *k = c->plan->k;
    for (int o = 0; o < 3; o++)
        for (int r = 0; r < k->nroots; r++)
            if (!k->root[r].epilogue && k->root[r].phase == phase &&
                k->root[r].element && k->root[r].kind == order[o])
                emit[order[o]](c, &k->root[r]);
}

/* The vectors that a phase stores; `end`: they are written now. */
static void stores_of(CudaPrinter *c, int phase, bool end)
{
    const Kernel *k = c->plan->k;
    for (int r = 0; r < k->nroots; r++)
        if (k->root[r].kind == ROOT_STORE && !k->root[r].epilogue &&
            k->root[r].element && k->root[r].phase == phase &&
            cuda_is_vector(c->plan, &k->buffer[k->root[r].target]))
            stage_out(c, &k->buffer[k->root[r].target], end);
}

static void columns(CudaPrinter *c, int number)
{
    const CudaPhase *phase = &c->plan->phase[number];
    bool *staged = NEW_ARRAY(c->text.p->arena, bool, c->plan->k->ninstrs + 1);
    int opened = cuda_open_slots(c);
    for (int i = 0; i < phase->nsteps; i++) {
        staged[phase->step[i].instr] = is_staged(c, &phase->step[i]);
        if (staged[phase->step[i].instr])
            stage_in(c, &phase->step[i]);
    }
    stores_of(c, number, false);
    c->staged = staged;
    int vector = cuda_open_vector(c);
    for (int i = 0; i < phase->nsteps; i++)
        element(c, &phase->step[i]);
    element_roots(c, number);
    close_vector(c, vector);
    c->staged = NULL;
    for (int i = 0; i < phase->nsteps; i++)
        stage_kept(c, &phase->step[i]);
    stores_of(c, number, true);
    cuda_close_blocks(c, opened);
}

/* ---- a row's reductions -------------------------------------------------- */

/* In a loop over rows with one barrier, the next row's parts go to another
 * place: some warps may still read this row's. */
static const char *sum_array(const CudaPrinter *c, int instr)
{
    if (!cuda_alternates(c->plan))
        return arena_printf(c->text.p->arena, "sum%d", instr);
    return arena_printf(c->text.p->arena, "sum%d[%s & 1]", instr, c->row);
}

static void begin_reductions(CudaPrinter *c, int phase)
{
    const Kernel *k = c->plan->k;
    for (int r = 0; r < k->nroots; r++)
        if (k->root[r].kind == ROOT_REDUCE && k->root[r].phase == phase)
            out_line(c->text.o, "float r%d = %s;", k->root[r].target,
                     k->instr[k->root[r].target].op == OP_max ? "-INFINITY"
                                                              : "0.0f");
}

static void each_reduction(CudaPrinter *c, int phase, const char *put,
                           const char *get)
{
    const Kernel *k = c->plan->k;
    for (int r = 0; r < k->nroots; r++) {
        const KernelRoot *root = &k->root[r];
        if (root->kind != ROOT_REDUCE || root->phase != phase)
            continue;
        int n = root->target;
        const char *name = k->instr[n].op == OP_max ? "max" : "sum";
        if (put)
            out_line(c->text.o, "block_put(warp_%s(r%d), %s);", name, n,
                     sum_array(c, n));
        else if (get)
            out_line(c->text.o, "r%d = block_get_%s(%s);", n, name,
                     sum_array(c, n));
        else
            out_line(c->text.o, "r%d = warp_%s(r%d);", n, name, n);
    }
}

static void end_reductions(CudaPrinter *c, int phase)
{
    if (!c->plan->phase[phase].reductions)
        return;
    if (c->plan->group == 32) {
        each_reduction(c, phase, NULL, NULL);
        return;
    }
    each_reduction(c, phase, "put", NULL);
    out_line(c->text.o, "block_barrier();");
    each_reduction(c, phase, NULL, "get");
}

/* ---- phases -------------------------------------------------------------- */

/* A condition that holds in one thread of those that have a row's values; ""
 * where there is but one. */
static const char *first_of_row(const CudaPrinter *c)
{
    const CudaPlan *p = c->plan;
    const char *text = p->form == CUDA_FLAT && p->inner >= 0 ? "j == 0" : "";
    if (p->form != CUDA_FLAT)
        return p->form == CUDA_TILES ? "j == 0" : "t == 0";
    for (int a = 0; a < p->k->space.naxes; a++)
        if (p->outer >> a & 1)
            text = arena_printf(c->text.p->arena, "%s && j%d == 0", text, a);
    return text;
}

static void row_roots(CudaPrinter *c, int phase)
{
    const Kernel *k = c->plan->k;
    const char *first = first_of_row(c);
    int opened = 0;
    for (int r = 0; r < k->nroots; r++) {
        const KernelRoot *root = &k->root[r];
        if (root->epilogue || root->phase != phase || root->element)
            continue;
        bool guard =
            *first && (root->kind == ROOT_STORE || c->plan->form == CUDA_FLAT);
        if (guard && !opened)
            opened = cuda_open_block(
                c, arena_printf(c->text.p->arena, "if (%s) {", first));
        if (!guard && opened)
            cuda_close_blocks(c, opened--);
        if (root->kind == ROOT_STORE)
            store(c, root);
        else
            accumulate(c, root);
    }
    cuda_close_blocks(c, opened);
}

/* Row values that do not change in the loop of a kernel with sums. */
static bool is_ahead(const CudaPlan *p, int instr)
{
    return p->totals && p->k->instr[instr].phase == 0 &&
           !(p->k->instr[instr].axes & ~p->kept);
}

void cuda_ahead(CudaPrinter *c)
{
    const CudaPhase *phase = &c->plan->phase[0];
    for (int i = 0; i < phase->nrow; i++)
        if (is_ahead(c->plan, phase->row[i]))
            kernel_compute(&c->text, phase->row[i], 'r');
}

void cuda_body(CudaPrinter *c)
{
    for (int n = 0; n < c->plan->nphases; n++) {
        const CudaPhase *phase = &c->plan->phase[n];
        for (int i = 0; i < phase->nrow; i++)
            if (!is_ahead(c->plan, phase->row[i]))
                kernel_compute(&c->text, phase->row[i], 'r');
        row_roots(c, n);
        if (!phase->loop)
            continue;
        begin_reductions(c, n);
        columns(c, n);
        end_reductions(c, n);
    }
}
