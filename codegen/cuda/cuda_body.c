/* cuda_body.c: prints the code of a CUDA kernel for one row, or for one vector
 * in a kernel without rows (CUDA_FLAT). Each phase (kernel.h) becomes the
 * statements computed once for the row, a loop over the columns of a thread,
 * and the reductions across the threads of the row.
 *
 * The loop processes one vector of columns at a time (in the code its index is
 * the slot, `s`). A vector's loads come first, then one statement for each op
 * and element, then its stores; therefore a thread that writes to memory that
 * it also reads does so after all loads of the vector.
 */
#include "codegen/cuda/cuda_kernel.h"

/* ---- elements of a vector ------------------------------------------------ */

static void element(CudaPrinter *c, const CudaStep *step)
{
    const CudaPlan *p = c->plan;
    int n = step->instr;
    const KernelInstr *instr = &p->k->instr[n];
    const char *array = cuda_kept(c, n);
    if (!step->reused)
        kernel_compute(&c->text, n, 't');
    for (int lane = 0; lane < kernel_lanes(p->k, instr->axes); lane++) {
        const char *value = kernel_value(&c->text, n, 't', lane);
        if (step->reused) {
            out_line(c->text.o, "const %s %s = %s;", c_value_type(instr->dtype),
                     value,
                     c->staged[n] ? cuda_in_vector(c, n, lane)
                                  : cuda_own(c, array, lane));
            continue;
        }
        const KernelBuffer *b = cuda_loaded_buffer(c, n);
        bool loaded = (b && cuda_is_vector(p, b)) || cuda_draws_four(p, instr);
        if (!p->on_chip[n] || (p->storage == CUDA_SHARED && loaded) ||
            (p->storage == CUDA_REGISTERS && cuda_is_raw(c, n)))
            continue;
        out_line(c->text.o, "%s = %s;",
                 c->staged[n] && !loaded ? cuda_in_vector(c, n, lane)
                                         : cuda_own(c, array, lane),
                 value);
    }
}

static void reduce(CudaPrinter *c, const KernelRoot *root)
{
    const Kernel *k = c->plan->k;
    if (cuda_online_element(c, root))
        return;
    const KernelInstr *to = &k->instr[root->target];
    for (int lane = 0; lane < c->plan->lanes; lane++) {
        const char *sum = kernel_value(&c->text, root->target, 'r', 0);
        const char *x = kernel_value(&c->text, root->instr, 't', lane);
        kernel_statement(&c->text, to->source, "%s",
                         kernel_add_to(&c->text, to->op, sum, x));
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
        const char *x = kernel_value(&c->text, root->instr,
                                     root->element ? 't' : 'r', lane);
        kernel_statement(&c->text, to->source, "%s",
                         kernel_add_to(&c->text, to->op, sum, x));
    }
}

static void store(CudaPrinter *c, const KernelRoot *root)
{
    const KernelBuffer *b = &c->plan->k->buffer[root->target];
    for (int lane = 0; lane < kernel_lanes(c->plan->k, b->axes); lane++) {
        const char *value = kernel_value(&c->text, root->instr,
                                         root->element ? 't' : 'r', lane);
        if (root->element && cuda_is_vector(c->plan, b))
            out_line(c->text.o, "out%d[%s] = %s;", root->target,
                     cuda_place_in(c, b, lane), value);
        else
            out_code(c->text.o, "%s",
                     kernel_stored(&c->text, b,
                                   kernel_element(&c->text, b, lane), value));
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

/* Declares the vectors that a phase stores; with `end`, writes them. */
static void stores_of(CudaPrinter *c, int phase, bool end)
{
    const Kernel *k = c->plan->k;
    for (int r = 0; r < k->nroots; r++)
        if (k->root[r].kind == ROOT_STORE && !k->root[r].epilogue &&
            k->root[r].element && k->root[r].phase == phase &&
            cuda_is_vector(c->plan, &k->buffer[k->root[r].target]))
            cuda_stage_out(c, &k->buffer[k->root[r].target], end);
}

/* Bytes that a phase reads for one vector of columns. */
static int64_t loads_of(const CudaPrinter *c, const CudaPhase *phase)
{
    int64_t bytes = 0;
    for (int i = 0; i < phase->nsteps; i++) {
        const CudaStep *step = &phase->step[i];
        const KernelBuffer *b = cuda_loaded_buffer(c, step->instr);
        if (b && !step->reused && cuda_is_vector(c->plan, b))
            bytes += (int64_t)dtype_size(b->dtype) * c->plan->vector *
                     kernel_lanes(c->plan->k, b->axes);
    }
    return bytes;
}

static void columns(CudaPrinter *c, int number)
{
    const CudaPhase *phase = &c->plan->phase[number];
    bool *staged = NEW_ARRAY(c->text.p->arena, bool, c->plan->k->ninstrs + 1);
    int opened = cuda_open_slots(c, loads_of(c, phase));
    for (int i = 0; i < phase->nsteps; i++) {
        staged[phase->step[i].instr] = cuda_is_staged(c, &phase->step[i]);
        if (staged[phase->step[i].instr])
            cuda_stage_in(c, &phase->step[i]);
    }
    stores_of(c, number, false);
    cuda_online_begin(c, number);
    c->staged = staged;
    int vector = cuda_open_vector(c);
    for (int i = 0; i < phase->nsteps; i++)
        element(c, &phase->step[i]);
    element_roots(c, number);
    cuda_close_vector(c, vector);
    c->staged = NULL;
    cuda_online_end(c, number);
    for (int i = 0; i < phase->nsteps; i++)
        cuda_stage_kept(c, &phase->step[i]);
    stores_of(c, number, true);
    cuda_close_slots(c, opened);
}

/* Prints a phase's statements for the edge of a ragged row (cuda_ragged.c). */
static void edge(CudaPrinter *c, int number)
{
    const CudaPlan *whole = c->plan;
    int opened = cuda_open_block(c, "{");
    opened += cuda_open_edge(c, "t");
    c->plan = whole->edge;
    columns(c, number);
    c->plan = whole;
    cuda_close_blocks(c, opened);
}

/* ---- reductions of a row ------------------------------------------------- */

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
        bool online = k->instr[n].code == KERNEL_ONLINE;
        if (put && online)
            out_line(c->text.o, "block_put(%s, %s);", cuda_online_warp(c, n),
                     cuda_sum_array(c, n));
        else if (put)
            out_line(c->text.o, "block_put(warp_%s(r%d), %s);", name, n,
                     cuda_sum_array(c, n));
        else if (get && online)
            out_line(c->text.o, "r%d = %s;", n, cuda_online_block(c, n));
        else if (get)
            out_line(c->text.o, "r%d = block_get_%s(%s);", n, name,
                     cuda_sum_array(c, n));
        else
            out_line(c->text.o, "r%d = warp_%s(r%d);", n, name, n);
    }
}

static void end_reductions(CudaPrinter *c, int phase)
{
    if (!c->plan->phase[phase].reductions)
        return;
    if (c->plan->row_threads == CUDA_WARP) {
        each_reduction(c, phase, NULL, NULL);
        return;
    }
    each_reduction(c, phase, "put", NULL);
    out_line(c->text.o, "block_barrier();");
    each_reduction(c, phase, NULL, "get");
}

/* ---- phases -------------------------------------------------------------- */

/* A condition that holds in one of the threads that have a row's values; "" if
 * there is only one. */
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
            opened = cuda_open_block(c, "if (%s) {", first);
        if (!guard && opened)
            cuda_close_blocks(c, opened--);
        if (root->kind == ROOT_STORE)
            store(c, root);
        else
            accumulate(c, root);
    }
    cuda_close_blocks(c, opened);
}

/* Whether a row value is the same in all iterations of a kernel with sums. */
static bool is_ahead(const CudaPlan *p, int instr)
{
    return p->totals && p->k->instr[instr].phase == 0 &&
           !(p->k->instr[instr].axes & ~p->kept_axes);
}

static void row_values(CudaPrinter *c, const CudaPhase *phase, bool ahead)
{
    for (int i = 0; i < phase->nrow; i++) {
        int n = phase->row[i];
        if (is_ahead(c->plan, n) != ahead)
            continue;
        if (c->plan->k->instr[n].code == KERNEL_PICK)
            cuda_pick(c, n);
        else
            kernel_compute(&c->text, n, 'r');
    }
}

void cuda_ahead(CudaPrinter *c)
{
    row_values(c, &c->plan->phase[0], true);
}

void cuda_body(CudaPrinter *c)
{
    for (int n = 0; n < c->plan->nphases; n++) {
        const CudaPhase *phase = &c->plan->phase[n];
        row_values(c, phase, false);
        row_roots(c, n);
        if (!phase->loop)
            continue;
        begin_reductions(c, n);
        columns(c, n);
        if (c->plan->edge && c->plan->form == CUDA_ROWS)
            edge(c, n);
        end_reductions(c, n);
    }
}
