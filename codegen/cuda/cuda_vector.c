/* cuda_vector.c: lowers the transfer of vectors of columns between memory and
 * local arrays: in<n> holds what was read, kept<n> what is kept on the chip,
 * out<b> what will be written. */
#include "codegen/cuda/cuda_lower.h"

/* ---- names of vectors ---------------------------------------------------- */

/* Lanes are stored one after the other. */
const char *cuda_place(const Lowering *c, int lane)
{
    int vector = c->plan->vector;
    return lower_index(c, "%d + %s", vector * lane, vector > 1 ? "e" : "0");
}

/* In a vector of a buffer lanes may alternate. */
static const char *place_in(const Lowering *c, const KernelBuffer *b, int lane)
{
    if (b && cuda_is_interleaved(c->plan, b))
        return lane ? "2 * e + 1" : "2 * e";
    return cuda_place(c, lane);
}

const char *cuda_strip(const Lowering *c)
{
    return c->plan->strips > 1 ? "s" : "0";
}

const char *cuda_own(const Lowering *c, const char *array, int lane)
{
    if (c->plan->at_edge)
        return array;
    return lower_text(c, "%s[%s][%s]", array, cuda_strip(c),
                      cuda_place(c, lane));
}

static const char *kept_value(const Lowering *c, int instr, int lane)
{
    return cuda_own(
        c, lower_text(c, c->plan->at_edge ? "edge%d" : "kept%d", instr), lane);
}

const KernelBuffer *cuda_loaded_buffer(const CudaPlan *p, int instr)
{
    const KernelInstr *i = &p->k->instr[instr];
    return i->code == KERNEL_LOAD ? &p->k->buffer[i->buffer] : NULL;
}

/* "in3", or of a pair of vectors "in3[s]". */
static const char *in_array(const Lowering *c, int instr)
{
    return lower_text(c, "in%d%s", instr, c->pairs ? "[s]" : "");
}

static const char *in_vector(const Lowering *c, int instr, int lane)
{
    return lower_text(c, "%s[%s]", in_array(c, instr),
                      place_in(c, cuda_loaded_buffer(c->plan, instr), lane));
}

/* The type of an instruction's values in memory or on the chip. */
static DType stored_type(const CudaPlan *p, int instr)
{
    const KernelBuffer *b = cuda_loaded_buffer(p, instr);
    return b ? b->dtype : p->k->instr[instr].dtype;
}

bool cuda_is_raw(const CudaPlan *p, int instr)
{
    const KernelBuffer *b = cuda_loaded_buffer(p, instr);
    return b && dtype_size(b->dtype) == 2 && cuda_is_vector(p, b);
}

/* Whether a step that is computed is read or drawn as a vector. */
static bool comes_as_vector(const CudaPlan *p, int instr)
{
    const KernelBuffer *b = cuda_loaded_buffer(p, instr);
    return (b && cuda_is_vector(p, b)) ||
           cuda_draws_four(p, &p->k->instr[instr]);
}

/* Whether a load is read to where it is kept in registers. */
static bool is_read_to_kept(const CudaPlan *p, int instr)
{
    const KernelBuffer *b = cuda_loaded_buffer(p, instr);
    return p->on_chip[instr] && p->storage == CUDA_REGISTERS && b &&
           cuda_is_vector(p, b) &&
           (cuda_is_raw(p, instr) || !cuda_is_interleaved(p, b));
}

bool cuda_reads_kept(const CudaPlan *p, const KernelStep *step)
{
    return !step->reused && is_read_to_kept(p, step->instr);
}

bool cuda_is_staged(const CudaPlan *p, const KernelStep *step)
{
    if (p->on_chip[step->instr]) {
        if (p->storage == CUDA_SHARED)
            return true;
        if (step->reused || is_read_to_kept(p, step->instr))
            return cuda_is_raw(p, step->instr);
    }
    return comes_as_vector(p, step->instr);
}

/* ---- elements ------------------------------------------------------------ */

bool cuda_stores_vector(const Lowering *c, int buffer)
{
    return cuda_is_vector(c->plan, &c->k->buffer[buffer]);
}

const char *cuda_element(const Lowering *c, int buffer, int lane)
{
    const KernelBuffer *b = &c->k->buffer[buffer];
    if (!cuda_is_vector(c->plan, b))
        return kernel_element(c, b, lane);
    return lower_text(c, "out%d[%s]", buffer, place_in(c, b, lane));
}

const char *cuda_value(const Lowering *c, int instr, int lane)
{
    const KernelBuffer *b = cuda_loaded_buffer(c->plan, instr);
    if (c->staged && c->staged[instr] && comes_as_vector(c->plan, instr))
        return in_vector(c, instr, lane);
    if (c->staged && is_read_to_kept(c->plan, instr))
        return kept_value(c, instr, lane);
    return b ? kernel_loaded(c, b, kernel_element(c, b, lane))
             : kernel_random_alone(c, instr, lane);
}

const char *cuda_reused(const Lowering *c, const KernelStep *step, int lane)
{
    return c->staged[step->instr] ? in_vector(c, step->instr, lane)
                                  : kept_value(c, step->instr, lane);
}

const char *cuda_kept(const Lowering *c, int instr, int lane)
{
    const CudaPlan *p = c->plan;
    bool vector = comes_as_vector(p, instr);
    if (!p->on_chip[instr] || (p->storage == CUDA_SHARED && vector) ||
        is_read_to_kept(p, instr))
        return NULL;
    return c->staged[instr] && !vector ? in_vector(c, instr, lane)
                                       : kept_value(c, instr, lane);
}

/* ---- reading and writing vectors ----------------------------------------- */

static void move(Lowering *c, StmtCode code, DType type, const char *array,
                 const char *address, int count)
{
    lower_add(c, (Stmt){.code = code,
                        .dtype = type,
                        .name = array,
                        .text = address,
                        .count = count});
}

/* The number of accesses for a buffer's vector, and the elements of each
 * access. Lanes that are not interleaved are accessed separately, each in the
 * same number of accesses. */
static int moves(const CudaPlan *p, const KernelBuffer *b, int *elements)
{
    int lanes = kernel_lanes(p->k, b->axes);
    int width = cuda_width(p, b), pieces = p->vector / width;
    bool one = lanes == 1 || cuda_is_interleaved(p, b);
    *elements = width * (one ? lanes : 1);
    return pieces * (one ? 1 : lanes);
}

/* The address of access m. */
static const char *address(const Lowering *c, const KernelBuffer *b, int m)
{
    int elements, n = moves(c->plan, b, &elements);
    int pieces = c->plan->vector / cuda_width(c->plan, b);
    const char *vector =
        kernel_index(c, b->axes, b->stride, n > pieces ? m / pieces : 0);
    return lower_index(c, "%s + %s + %d", b->name, vector,
                       m % pieces * elements);
}

/* The address of a kept value in shared memory. */
static const char *kept_address(const Lowering *c, int instr)
{
    int lanes = kernel_lanes(c->k, c->k->instr[instr].axes);
    return lower_index(c, "kept%d + %s * %d - %s", instr, cuda_flat_column(c),
                       lanes, cuda_row_head(c->plan));
}

static void draw_vector(Lowering *c, int instr)
{
    const KernelInstr *i = &c->k->instr[instr];
    for (int lane = 0; lane < kernel_lanes(c->k, i->axes); lane++)
        for (int n = 0; n < c->plan->vector; n += 4)
            lower_add(
                c, (Stmt){.code = STMT_LINE,
                          .source = i->source,
                          .text = lower_index(
                              c,
                              "parc_random_four(%s + %d, %s, %lld, (%s) / 4 "
                              "+ %d);",
                              in_array(c, instr), lane * c->plan->vector + n,
                              kernel_value(c, i->arg[0], lane),
                              (long long)attr_site(i->source),
                              kernel_random_index(c, i, i->axes, lane),
                              n / 4)});
}

static void widen(Lowering *c, int instr, int elements)
{
    lower_line(c, "parc_widen_%s(%s, kept%d[%s], %d);",
               dtype_name(stored_type(c->plan, instr)), in_array(c, instr),
               instr, cuda_strip(c), elements);
}

/* Reads a vector to an array: floats, or `words` in the memory format. */
static void read_vector(Lowering *c, int instr, const char *to, bool words)
{
    const KernelBuffer *b = cuda_loaded_buffer(c->plan, instr);
    int elements, n = moves(c->plan, b, &elements);
    int each = words ? elements / 2 : elements;
    for (int m = 0; m < n; m++)
        lower_add(c, (Stmt){.code = STMT_LOAD,
                            .dtype = b->dtype,
                            .words = words,
                            .name = lower_index(c, "%s + %d", to, m * each),
                            .text = address(c, b, m),
                            .count = each});
}

void cuda_read_kept(Lowering *c, const KernelStep *step)
{
    if (cuda_reads_kept(c->plan, step))
        read_vector(c, step->instr,
                    lower_text(c, "kept%d[%s]", step->instr, cuda_strip(c)),
                    cuda_is_raw(c->plan, step->instr));
}

static int width(const Lowering *c, int instr)
{
    return c->plan->vector * kernel_lanes(c->k, c->k->instr[instr].axes);
}

void cuda_declare_in(Lowering *c, const KernelStep *step)
{
    int n = step->instr;
    if (cuda_is_staged(c->plan, step) && !step->early)
        lower_var(c, c_value_type(c->k->instr[n].dtype),
                  lower_text(c, "in%d%s[%d]", n, c->pairs ? "[2]" : "",
                             width(c, n)),
                  NULL);
}

void cuda_stage_in(Lowering *c, const KernelStep *step)
{
    const CudaPlan *p = c->plan;
    int n = step->instr, elements = width(c, n);
    if (!cuda_is_staged(p, step) || step->early)
        return;
    if (!c->pairs)
        cuda_declare_in(c, step);
    if (step->reused && p->storage == CUDA_SHARED)
        move(c, STMT_LOAD, stored_type(p, n), in_array(c, n),
             kept_address(c, n), elements);
    else if (step->reused || is_read_to_kept(p, n))
        widen(c, n, elements);
    else if (cuda_draws_four(p, &p->k->instr[n]))
        draw_vector(c, n);
    else if (comes_as_vector(p, n))
        read_vector(c, n, in_array(c, n), false);
}

void cuda_stage_kept(Lowering *c, const KernelStep *step)
{
    int n = step->instr;
    if (c->plan->on_chip[n] && !step->reused &&
        c->plan->storage == CUDA_SHARED)
        move(c, STMT_STORE, stored_type(c->plan, n), in_array(c, n),
             kept_address(c, n), width(c, n));
}

static void stage_out(Lowering *c, int buffer, bool end)
{
    const KernelBuffer *b = &c->k->buffer[buffer];
    int elements, n = moves(c->plan, b, &elements);
    const char *array = lower_text(c, "out%d", buffer);
    if (!end)
        lower_var(c, c_value_type(b->dtype),
                  lower_text(c, "%s[%d]", array, n * elements), NULL);
    for (int m = 0; m < n && end; m++)
        move(c, STMT_STORE, b->dtype,
             lower_index(c, "%s + %d", array, m * elements), address(c, b, m),
             elements);
}

void cuda_stage_out(Lowering *c, int phase, bool end)
{
    for (int r = 0; r < c->k->nroots; r++) {
        const KernelRoot *root = &c->k->root[r];
        if (root->kind == ROOT_STORE && !root->epilogue && root->element &&
            root->phase == phase && cuda_stores_vector(c, root->target))
            stage_out(c, root->target, end);
    }
}
