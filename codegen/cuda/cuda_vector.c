/* cuda_vector.c: prints the transfer of vectors of columns between memory and
 * local arrays: in<n> holds what was read, kept<n> what is kept on the chip,
 * out<b> what will be written. */
#include "codegen/cuda/cuda_kernel.h"

/* ---- names of vectors ---------------------------------------------------- */

/* The index of (lane, element) in a vector of computed values: lanes are stored
 * one after the other. */
static const char *plane(const CudaPrinter *c, int lane)
{
    const CudaPlan *p = c->plan;
    if (p->vector == 1)
        return arena_printf(c->text.p->arena, "%d", lane);
    return lane ? arena_printf(c->text.p->arena, "%d + e", p->vector * lane)
                : "e";
}

const char *cuda_place_in(const CudaPrinter *c, const KernelBuffer *b, int lane)
{
    if (b && cuda_is_interleaved(c->plan, b))
        return lane ? "2 * e + 1" : "2 * e";
    return plane(c, lane);
}

const char *cuda_kept(const CudaPrinter *c, int instr)
{
    return arena_printf(c->text.p->arena,
                        c->plan->at_edge ? "edge%d" : "kept%d", instr);
}

const char *cuda_own(const CudaPrinter *c, const char *array, int lane)
{
    if (c->plan->at_edge)
        return array;
    return arena_printf(c->text.p->arena, "%s[%s][%s]", array,
                        c->plan->slots > 1 ? "s" : "0", plane(c, lane));
}

const KernelBuffer *cuda_loaded_buffer(const CudaPrinter *c, int instr)
{
    const KernelInstr *i = &c->plan->k->instr[instr];
    return i->code == KERNEL_LOAD ? &c->plan->k->buffer[i->buffer] : NULL;
}

const char *cuda_in_vector(const CudaPrinter *c, int instr, int lane)
{
    return arena_printf(c->text.p->arena, "in%d[%s]", instr,
                        cuda_place_in(c, cuda_loaded_buffer(c, instr), lane));
}

/* "f32": the type's name in the functions that move vectors. */
static const char *kept_type(const CudaPrinter *c, int instr)
{
    const KernelBuffer *b = cuda_loaded_buffer(c, instr);
    return dtype_name(b ? b->dtype : c->plan->k->instr[instr].dtype);
}

bool cuda_is_raw(const CudaPrinter *c, int instr)
{
    const KernelBuffer *b = cuda_loaded_buffer(c, instr);
    return b && dtype_size(b->dtype) == 2 && cuda_is_vector(c->plan, b);
}

static int width(const CudaPrinter *c, int instr)
{
    return c->plan->vector *
           kernel_lanes(c->plan->k, c->plan->k->instr[instr].axes);
}

bool cuda_is_staged(const CudaPrinter *c, const CudaStep *step)
{
    const CudaPlan *p = c->plan;
    const KernelBuffer *b = cuda_loaded_buffer(c, step->instr);
    if (p->on_chip[step->instr]) {
        if (p->storage == CUDA_SHARED)
            return true;
        if (step->reused)
            return cuda_is_raw(c, step->instr);
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
        return cuda_in_vector(c, number, lane);
    return kernel_loaded(text, b, kernel_element(text, b, lane));
}

const char *cuda_random_expression(const KernelPrinter *text,
                                   const KernelInstr *instr, char where,
                                   int lane)
{
    const CudaPrinter *c = (const CudaPrinter *)text;
    int number = (int)(instr - text->k->instr);
    if (where == 't' && c->staged && c->staged[number] &&
        cuda_draws_four(c->plan, instr))
        return cuda_in_vector(c, number, lane);
    return kernel_random_alone(text, instr, where, lane);
}

/* ---- reading and writing vectors ----------------------------------------- */

static const char *plus(Arena *a, const char *name, int n)
{
    return n ? arena_printf(a, "%s + %d", name, n) : name;
}

/* The number of accesses for a buffer's vector, and the elements of each
 * access. Lanes that are not interleaved are accessed separately, each in the
 * same number of accesses. */
static int moves(const CudaPrinter *c, const KernelBuffer *b, int *elements)
{
    int lanes = kernel_lanes(c->plan->k, b->axes);
    int width = cuda_width(c->plan, b), pieces = c->plan->vector / width;
    bool one = lanes == 1 || cuda_is_interleaved(c->plan, b);
    *elements = width * (one ? lanes : 1);
    return pieces * (one ? 1 : lanes);
}

/* The address of access m. */
static const char *address(const CudaPrinter *c, const KernelBuffer *b, int m)
{
    Arena *a = c->text.p->arena;
    int elements, n = moves(c, b, &elements);
    int pieces = c->plan->vector / cuda_width(c->plan, b);
    const char *vector =
        kernel_offset(&c->text, b->axes, b->stride, n > pieces ? m / pieces : 0);
    return plus(a, arena_printf(a, "%s%s", kernel_buffer(&c->text, b), vector),
                m % pieces * elements);
}

/* The address of a kept value in shared memory. */
static const char *kept_address(const CudaPrinter *c, int instr)
{
    const CudaPlan *p = c->plan;
    int lanes = kernel_lanes(p->k, p->k->instr[instr].axes);
    return arena_printf(c->text.p->arena, "kept%d + %s%s%s", instr,
                        cuda_flat_column(c), lanes > 1 ? " * 2" : "",
                        *cuda_row_head(p) ? " - head" : "");
}

static void draw_vector(CudaPrinter *c, int instr)
{
    const KernelInstr *i = &c->plan->k->instr[instr];
    Arena *a = c->text.p->arena;
    for (int lane = 0; lane < kernel_lanes(c->plan->k, i->axes); lane++)
        for (int n = 0; n < c->plan->vector; n += 4)
            kernel_statement(
                &c->text, i->source,
                "parc_random_four(%s, %s, %lld, (%s) / 4%s);",
                plus(a, arena_printf(a, "in%d", instr),
                     lane * c->plan->vector + n),
                kernel_value(&c->text, i->arg[0], 't', lane),
                (long long)attr_site(i->source),
                kernel_random_index(&c->text, i, i->axes, 't', lane),
                n ? arena_printf(a, " + %d", n / 4) : "");
}

static void load_vector(CudaPrinter *c, int instr)
{
    const CudaPlan *p = c->plan;
    const KernelBuffer *b = cuda_loaded_buffer(c, instr);
    Arena *a = c->text.p->arena;
    const char *type = dtype_name(b->dtype);
    int elements, n = moves(c, b, &elements);
    bool raw = p->on_chip[instr] && p->storage == CUDA_REGISTERS &&
               cuda_is_raw(c, instr);
    const char *kept =
        arena_printf(a, "kept%d[%s]", instr, p->slots > 1 ? "s" : "0");
    for (int m = 0; m < n; m++)
        if (raw)
            out_code(c->text.o, "parc_read_words(%s, %s, %d);",
                     plus(a, kept, m * elements / 2), address(c, b, m),
                     elements / 2);
        else
            out_code(c->text.o, "parc_read_%s(%s, %s, %d);", type,
                     plus(a, arena_printf(a, "in%d", instr), m * elements),
                     address(c, b, m), elements);
    if (raw)
        out_code(c->text.o, "parc_widen_%s(in%d, %s, %d);", type, instr, kept,
                 n * elements);
}

void cuda_stage_in(CudaPrinter *c, const CudaStep *step)
{
    const CudaPlan *p = c->plan;
    int n = step->instr, elements = width(c, n);
    const KernelInstr *instr = &p->k->instr[n];
    const KernelBuffer *b = cuda_loaded_buffer(c, n);
    out_line(c->text.o, "%s in%d[%d];", c_value_type(instr->dtype), n,
             elements);
    if (step->reused && p->storage == CUDA_SHARED)
        out_code(c->text.o, "parc_read_%s(in%d, %s, %d);", kept_type(c, n), n,
                 kept_address(c, n), elements);
    else if (step->reused)
        out_code(c->text.o, "parc_widen_%s(in%d, kept%d[%s], %d);",
                 kept_type(c, n), n, n, p->slots > 1 ? "s" : "0", elements);
    else if (b && cuda_is_vector(p, b))
        load_vector(c, n);
    else if (cuda_draws_four(p, instr))
        draw_vector(c, n);
}

void cuda_stage_kept(CudaPrinter *c, const CudaStep *step)
{
    if (c->plan->on_chip[step->instr] && !step->reused &&
        c->plan->storage == CUDA_SHARED)
        out_code(c->text.o, "parc_write_%s(%s, in%d, %d);",
                 kept_type(c, step->instr), kept_address(c, step->instr),
                 step->instr, width(c, step->instr));
}

void cuda_stage_out(CudaPrinter *c, const KernelBuffer *b, bool end)
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
