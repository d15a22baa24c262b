/* rt_conv.c: computes convolutions and their gradients with oneDNN's primitives.
 *
 * oneDNN's fast kernels read and write images in blocks of channels, or with the channels last,
 * and weights in blocks. Tensors of a program have plain layouts: two reorders copy the operands
 * into the layouts that the kernel chooses, and a third one copies its result back. On 16 images
 * of 32 channels of 16 x 16 elements (3 x 3 kernel, f32, AVX-512) this takes 0.18 ms. Without
 * the reorders it would take 0.15 ms; oneDNN's kernel for plain layouts takes 0.37 ms.
 *
 * The library has a list of kernels for each pair of layouts. The first one is taken that was
 * generated for the machine (its name begins with "jit" or "br"): with layouts that the library
 * chooses, else with the channels last, which has such kernels for the gradients of the weights
 * of depthwise convolutions. If there is none whose scratch fits, the reference kernel computes
 * the convolution from plain layouts.
 *
 * 16-bit types for which the machine has no instructions are converted to f32 and back.
 * Primitives, their memory objects and their places in the scratch memory are created once; a
 * call sets addresses and executes. The order of sums depends only on the spec and the number of
 * threads.
 */
#include <stdlib.h>
#include <string.h>

#include <omp.h>
#include <oneapi/dnnl/dnnl.h>

#include "common/message.h"
#include "common/type.h"
#include "cpu/rt_conv.h"
#include "cpu/rt_dnnl.h"
#include "cpu/rt_matmul.h"
#include "launch/world.h"
#include "parc_conv.h"
#include "rt.h"

/* ---- shapes -------------------------------------------------------------- */

enum { X, WEIGHT, Y, TENSORS };
enum { ALIGNMENT = 64 };

static int64_t aligned(int64_t bytes)
{
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* The tensor that is the call's first operand, its second one, or its result. */
static int tensor_of(const ParcConvSpec *s, int i)
{
    static const int of[][TENSORS] = {[PARC_CONV_Y] = {X, WEIGHT, Y},
                                      [PARC_CONV_X] = {Y, WEIGHT, X},
                                      [PARC_CONV_WEIGHT] = {Y, X, WEIGHT}};
    return of[s->computes][i];
}

/* The dims of a tensor; a weight of several groups has a dim for them. Returns their number. */
static int dims_of(const ParcConvSpec *s, int tensor, dnnl_dims_t dim)
{
    int n = 0;
    if (tensor == WEIGHT) {
        if (s->g > 1)
            dim[n++] = s->g;
        dim[n++] = s->k;
        dim[n++] = s->c;
    } else {
        dim[n++] = s->n;
        dim[n++] = s->g * (tensor == X ? s->c : s->k);
    }
    const int64_t *last = tensor == X ? s->image : tensor == Y ? s->result : s->kernel;
    dim[n++] = last[0];
    dim[n++] = last[1];
    return n;
}

static int64_t elements_of(const ParcConvSpec *s, int tensor)
{
    dnnl_dims_t dim;
    int64_t all = 1;
    for (int d = dims_of(s, tensor, dim) - 1; d >= 0; d--)
        all *= dim[d];
    return all;
}

/* ---- descriptions -------------------------------------------------------- */

/* The layouts that a kernel may have. */
typedef enum Layout { LIBRARY, CHANNELS_LAST, PLAIN, LAYOUTS } Layout;

/* One kernel, and its operands as the library takes them. */
typedef struct Kernel {
    dnnl_primitive_desc_t description;
    dnnl_data_type_t type, out; /* of the operands, of the result */
    int64_t bytes[TENSORS];     /* of the call's copies: 0 where the tensor itself is read */
    int64_t floats[TENSORS];    /* of the call's tensors in f32, if they are converted */
    int64_t scratch;            /* of the library */
} Kernel;

/* oneDNN 2.6's gradient of a weight in bf16 adds numbers from outside of narrow images, if
 * the stride is more than 1. Narrow: without padding y would have one column or none. */
static bool bf16_is_wrong(const ParcConvSpec *s)
{
    int64_t span = (s->kernel[1] - 1) * s->dilation[1] + 1;
    return s->computes == PARC_CONV_WEIGHT && s->stride[1] > 1 &&
           s->image[1] < span + s->stride[1];
}

/* Whether all tensors of the call have types in which the machine computes, correctly. */
static bool is_native(const ParcConvSpec *s)
{
    bool bf16 = rt_dnnl_knows(dnnl_cpu_isa_avx512_core_bf16) && !bf16_is_wrong(s);
    return (s->type == PARC_F32 && s->out == PARC_F32) ||
           (s->type == PARC_BF16 && s->out != PARC_F16 && bf16);
}

static dnnl_status_t describe_memory(const ParcConvSpec *s, int tensor, Layout layout,
                                     dnnl_data_type_t type, dnnl_memory_desc_t *m)
{
    dnnl_dims_t dim;
    int n = dims_of(s, tensor, dim);
    dnnl_format_tag_t plain = n == 5 ? dnnl_abcde : dnnl_abcd;
    dnnl_format_tag_t tag = layout == PLAIN ? plain : dnnl_format_tag_any;
    if (layout == CHANNELS_LAST && tensor != WEIGHT)
        tag = dnnl_acdb;
    return dnnl_memory_desc_init_by_tag(m, n, dim, type, tag);
}

/* oneDNN's description of the operation. */
static dnnl_status_t describe(const ParcConvSpec *s, ParcConvResult computes, Layout layout,
                              const Kernel *k, dnnl_convolution_desc_t *d)
{
    dnnl_memory_desc_t m[TENSORS];
    dnnl_dims_t stride, dilation, padding, end;
    int result = tensor_of(s, 2);
    for (int i = 0; i < TENSORS; i++) {
        dnnl_status_t status = describe_memory(s, i, layout, i == result ? k->out : k->type, &m[i]);
        if (status != dnnl_success)
            return status;
    }
    for (int i = 0; i < 2; i++) {
        stride[i] = s->stride[i];
        dilation[i] = s->dilation[i] - 1;
        padding[i] = s->padding[i];
        end[i] = (s->result[i] - 1) * s->stride[i] + (s->kernel[i] - 1) * s->dilation[i] + 1 -
                 s->image[i] - s->padding[i]; /* negative: the last elements are not read */
    }
    if (computes == PARC_CONV_X)
        return dnnl_dilated_convolution_backward_data_desc_init(
            d, dnnl_convolution_direct, &m[X], &m[WEIGHT], &m[Y], stride, dilation, padding, end);
    if (computes == PARC_CONV_WEIGHT)
        return dnnl_dilated_convolution_backward_weights_desc_init(
            d, dnnl_convolution_direct, &m[X], &m[WEIGHT], NULL, &m[Y], stride, dilation, padding,
            end);
    return dnnl_dilated_convolution_forward_desc_init(
        d, dnnl_forward_training, dnnl_convolution_direct, &m[X], &m[WEIGHT], NULL, &m[Y], stride,
        dilation, padding, end);
}

/* The memory of the call's tensor i (its operands, then its result), or of the scratch, i = 3. */
static const dnnl_memory_desc_t *memory_of(const ParcConvSpec *s, const Kernel *k, int i)
{
    static const dnnl_query_t of[][TENSORS] = {
        [PARC_CONV_Y] = {dnnl_query_src_md, dnnl_query_weights_md, dnnl_query_dst_md},
        [PARC_CONV_X] = {dnnl_query_diff_dst_md, dnnl_query_weights_md, dnnl_query_diff_src_md},
        [PARC_CONV_WEIGHT] = {dnnl_query_diff_dst_md, dnnl_query_src_md,
                              dnnl_query_diff_weights_md}};
    return dnnl_primitive_desc_query_md(
        k->description, i < TENSORS ? of[s->computes][i] : dnnl_query_scratchpad_md, 0);
}

static int64_t memory_bytes(const dnnl_memory_desc_t *m)
{
    return m ? (int64_t)dnnl_memory_desc_get_size(m) : 0;
}

/* Whether the kernel reads or writes tensor i in the layout that the program has. */
static bool is_plain(const ParcConvSpec *s, const Kernel *k, int i)
{
    dnnl_memory_desc_t plain;
    describe_memory(s, tensor_of(s, i), PLAIN, i < 2 ? k->type : k->out, &plain);
    return dnnl_memory_desc_equal(&plain, memory_of(s, k, i));
}

/* ---- the choice of a kernel ---------------------------------------------- */

static int64_t total_scratch(const Kernel *k)
{
    int64_t bytes = aligned(k->scratch);
    for (int i = 0; i < TENSORS; i++)
        bytes += aligned(k->bytes[i]) + aligned(k->floats[i]);
    return bytes;
}

static void measure(const ParcConvSpec *s, Kernel *k)
{
    k->scratch = memory_bytes(memory_of(s, k, TENSORS));
    for (int i = 0; i < TENSORS; i++)
        k->bytes[i] = is_plain(s, k, i) ? 0 : memory_bytes(memory_of(s, k, i));
}

static bool is_generated(const_dnnl_primitive_desc_t description)
{
    const char *name = "";
    dnnl_primitive_desc_query(description, dnnl_query_impl_info_str, 0, (void *)&name);
    return strncmp(name, "jit", 3) == 0 || strncmp(name, "br", 2) == 0;
}

/* Finds the first kernel of the list whose scratch fits, if `any` of all kernels. */
static bool first_kernel(const ParcConvSpec *s, Layout layout, bool any, int64_t capacity,
                         dnnl_engine_t engine, const_dnnl_primitive_attr_t attributes, Kernel *k)
{
    dnnl_convolution_desc_t operation, forward;
    dnnl_primitive_desc_t hint = NULL;
    dnnl_primitive_desc_iterator_t it;
    bool found = false;
    if (describe(s, s->computes, layout, k, &operation) != dnnl_success)
        return false;
    if (s->computes != PARC_CONV_Y) {
        Kernel same = {.type = k->type, .out = k->type};
        if (describe(s, PARC_CONV_Y, layout, &same, &forward) != dnnl_success ||
            dnnl_primitive_desc_create(&hint, &forward, NULL, engine, NULL) != dnnl_success)
            return false;
    }
    if (dnnl_primitive_desc_iterator_create(&it, &operation, attributes, engine, hint) ==
        dnnl_success) {
        do {
            k->description = dnnl_primitive_desc_iterator_fetch(it);
            measure(s, k);
            found = (any || is_generated(k->description)) && total_scratch(k) <= capacity;
            if (!found)
                dnnl_primitive_desc_destroy(k->description);
        } while (!found && dnnl_primitive_desc_iterator_next(it) == dnnl_success);
        dnnl_primitive_desc_iterator_destroy(it);
    }
    if (hint)
        dnnl_primitive_desc_destroy(hint);
    return found;
}

/* Chooses a kernel; false: none fits. The caller destroys the description. */
static bool choose(const ParcConvSpec *s, int64_t capacity, dnnl_engine_t engine, Kernel *k)
{
    bool native = is_native(s), found = false;
    dnnl_primitive_attr_t attributes;
    *k = (Kernel){.type = native ? rt_dnnl_type(s->type) : dnnl_f32,
                  .out = native ? rt_dnnl_type(s->out) : dnnl_f32};
    for (int i = 0; i < TENSORS; i++)
        if (!native && (i < 2 ? s->type : s->out) != PARC_F32)
            k->floats[i] = 4 * elements_of(s, tensor_of(s, i));
    if (dnnl_primitive_attr_create(&attributes) != dnnl_success)
        return false;
    dnnl_primitive_attr_set_scratchpad_mode(attributes, dnnl_scratchpad_mode_user);
    for (int layout = LIBRARY; layout < PLAIN && !found; layout++)
        found = first_kernel(s, (Layout)layout, false, capacity, engine, attributes, k);
    found = found || first_kernel(s, PLAIN, true, capacity, engine, attributes, k);
    dnnl_primitive_attr_destroy(attributes);
    return found;
}

/* ---- scratch ------------------------------------------------------------- */

static int64_t padded(int64_t channels)
{
    enum { BLOCK = 16 };
    return rt_pieces(channels, BLOCK) * BLOCK;
}

/* What the conversions of 16-bit types take: enough for the reference kernel on any machine. */
static int64_t least_scratch(const ParcConvSpec *s)
{
    int64_t bytes = 0;
    for (int i = 0; i < TENSORS; i++)
        if ((i < 2 ? s->type : s->out) != PARC_F32)
            bytes += aligned(4 * elements_of(s, tensor_of(s, i)));
    return bytes;
}

/* A bound at a named level: copies of all tensors in blocks of channels, and for the library a
 * sum of the weight's gradient and 1 MiB for each thread. */
static int64_t bound(const ParcConvSpec *s, int threads)
{
    enum { ELEMENT = 4, OWN = 1 << 20 };
    int64_t image = s->n * s->image[0] * s->image[1] * padded(s->g * s->c);
    int64_t result = s->n * s->result[0] * s->result[1] * padded(s->g * s->k);
    int64_t weight = padded(s->g) * padded(s->k) * padded(s->c) * s->kernel[0] * s->kernel[1];
    if (s->c == 1 && s->k == 1)
        weight = padded(s->g) * s->kernel[0] * s->kernel[1];
    else if (s->g > 1)
        weight = s->g * padded(s->k) * padded(s->c) * s->kernel[0] * s->kernel[1];
    return aligned(ELEMENT * image) + aligned(ELEMENT * result) + aligned(ELEMENT * weight) +
           threads * (aligned(ELEMENT * weight) + OWN);
}

int64_t parc_conv_scratch(const ParcConvSpec *s, int threads, ParcCpuLevel level)
{
    int64_t least = least_scratch(s), bytes = 0;
    dnnl_engine_t engine;
    Kernel k;
    if (level != PARC_CPU_NATIVE)
        return least + bound(s, threads);
    int before = omp_get_max_threads();
    if (dnnl_engine_create(&engine, dnnl_cpu, 0) != dnnl_success)
        return least;
    omp_set_num_threads(threads);
    if (choose(s, INT64_MAX, engine, &k)) {
        bytes = total_scratch(&k);
        dnnl_primitive_desc_destroy(k.description);
    }
    omp_set_num_threads(before);
    dnnl_engine_destroy(engine);
    return bytes > least ? bytes : least;
}

/* ---- calls --------------------------------------------------------------- */

/* A tensor of the call: as the program has it, and as the kernel takes it. */
typedef struct Port {
    ParcType type;
    int64_t elements;
    char *floats;           /* the tensor in f32; NULL: it is not converted */
    dnnl_memory_t own;      /* in the program's layout; NULL: the kernel takes this */
    dnnl_memory_t memory;   /* the kernel's */
    dnnl_primitive_t moves; /* from one to the other */
} Port;

struct ParcConv {
    dnnl_primitive_t primitive;
    Port port[TENSORS];
    dnnl_memory_t scratch;
    dnnl_exec_arg_t argument[TENSORS + 1];
    ParcConv *next;
};

static void check(ParcRt *rt, const ParcConvSpec *s, dnnl_status_t status)
{
    if (status != dnnl_success)
        rt_fail(rt,
                "oneDNN refuses convolution '%s' (%lld images of %lld channels, %lld x %lld "
                "elements; kernel %lld x %lld): status %d",
                s->name, (long long)s->n, (long long)(s->g * s->c), (long long)s->image[0],
                (long long)s->image[1], (long long)s->kernel[0], (long long)s->kernel[1],
                (int)status);
}

/* Creates the memory objects of tensor i; `*at` is the next free byte of the scratch. */
static void open_port(ParcRt *rt, const ParcConvSpec *s, const Kernel *k, int i, ParcConv *c,
                      char **at)
{
    Port *p = &c->port[i];
    const dnnl_memory_desc_t *m = memory_of(s, k, i);
    *p = (Port){.type = i < 2 ? s->type : s->out, .elements = elements_of(s, tensor_of(s, i))};
    check(rt, s, dnnl_memory_create(&p->memory, m, rt->engine, DNNL_MEMORY_NONE));
    if (k->floats[i] > 0) {
        p->floats = *at;
        *at += aligned(k->floats[i]);
    }
    if (k->bytes[i] == 0)
        return;
    dnnl_memory_desc_t plain;
    dnnl_primitive_desc_t move;
    const dnnl_memory_desc_t *from = i < 2 ? &plain : m, *to = i < 2 ? m : &plain;
    check(rt, s, describe_memory(s, tensor_of(s, i), PLAIN, i < 2 ? k->type : k->out, &plain));
    check(rt, s, dnnl_memory_create(&p->own, &plain, rt->engine, DNNL_MEMORY_NONE));
    check(rt, s, dnnl_memory_set_data_handle(p->memory, *at));
    *at += aligned(k->bytes[i]);
    check(rt, s, dnnl_reorder_primitive_desc_create(&move, from, rt->engine, to, rt->engine, NULL));
    check(rt, s, dnnl_primitive_create(&p->moves, move));
    dnnl_primitive_desc_destroy(move);
}

ParcConv *parc_conv_new(ParcRt *rt, const ParcConvSpec *spec)
{
    static const int argument[][TENSORS] = {
        [PARC_CONV_Y] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST},
        [PARC_CONV_X] = {DNNL_ARG_DIFF_DST, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_SRC},
        [PARC_CONV_WEIGHT] = {DNNL_ARG_DIFF_DST, DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS}};
    ParcConv *c = rt_allocate(sizeof *c);
    Kernel k;
    rt_dnnl_open(rt);
    if (!choose(spec, spec->scratch_bytes, rt->engine, &k))
        rt_fail(rt,
                "oneDNN has no kernel for convolution '%s' with the planned scratch of %lld bytes "
                "on this machine: build the program on this machine, or with parc --cpu LEVEL",
                spec->name, (long long)spec->scratch_bytes);
    char *at = rt->arena + spec->scratch;
    for (int i = 0; i < TENSORS; i++) {
        open_port(rt, spec, &k, i, c, &at);
        c->argument[i] = (dnnl_exec_arg_t){argument[spec->computes][i], c->port[i].memory};
    }
    check(rt, spec, dnnl_memory_create(&c->scratch, memory_of(spec, &k, TENSORS), rt->engine,
                                       DNNL_MEMORY_NONE));
    c->argument[TENSORS] = (dnnl_exec_arg_t){DNNL_ARG_SCRATCHPAD, c->scratch};
    if (k.scratch > 0)
        check(rt, spec, dnnl_memory_set_data_handle(c->scratch, at));
    check(rt, spec, dnnl_primitive_create(&c->primitive, k.description));
    dnnl_primitive_desc_destroy(k.description);
    c->next = rt->convs;
    rt->convs = c;
    return c;
}

static void execute(ParcRt *rt, dnnl_primitive_t primitive, int n, const dnnl_exec_arg_t *argument)
{
    dnnl_status_t s = dnnl_primitive_execute(primitive, rt->stream, n, argument);
    if (s != dnnl_success)
        rt_fail(rt, "oneDNN failed in a convolution: status %d", (int)s);
}

/* Copies between the layouts of the program and of the kernel. */
static void move(ParcRt *rt, const Port *p, bool to_kernel)
{
    dnnl_exec_arg_t argument[] = {{DNNL_ARG_FROM, to_kernel ? p->own : p->memory},
                                  {DNNL_ARG_TO, to_kernel ? p->memory : p->own}};
    execute(rt, p->moves, 2, argument);
}

/* Converts n elements, in parallel. */
static void convert(ParcRt *rt, const Port *p, const void *narrow, void *out)
{
    enum { PIECE = 4096 };
    float *wide = (float *)(void *)p->floats;
#pragma omp parallel for schedule(static) num_threads(rt->threads) if (p->elements > PIECE)
    for (int64_t i = 0; i < p->elements; i += PIECE) {
        int64_t n = p->elements - i < PIECE ? p->elements - i : PIECE;
        if (narrow)
            rt_widen(wide + i, p->type, rt_element(p->type, narrow, i), n);
        else
            rt_narrow(p->type, rt_element_out(p->type, out, i), wide + i, n);
    }
}

/* Sets the addresses of a tensor, and copies an operand. */
static void bring(ParcRt *rt, const Port *p, void *tensor, bool operand)
{
    if (p->floats && operand)
        convert(rt, p, tensor, NULL);
    dnnl_memory_set_data_handle(p->own ? p->own : p->memory, p->floats ? p->floats : tensor);
    if (p->own && operand)
        move(rt, p, true);
}

void parc_conv(ParcRt *rt, ParcConv *c, const void *a, const void *b, void *out)
{
    const Port *result = &c->port[TENSORS - 1];
    /* oneDNN's addresses are not const, but it only reads the operands. */
    bring(rt, &c->port[0], (void *)(uintptr_t)a, true);
    bring(rt, &c->port[1], (void *)(uintptr_t)b, true);
    bring(rt, result, out, false);
    execute(rt, c->primitive, TENSORS + 1, c->argument);
    if (result->own)
        move(rt, result, false);
    dnnl_stream_wait(rt->stream);
    if (result->floats)
        convert(rt, result, NULL, out);
}

void rt_conv_close(ParcRt *rt)
{
    while (rt->convs) {
        ParcConv *c = rt->convs;
        rt->convs = c->next;
        for (int i = 0; i < TENSORS; i++) {
            dnnl_memory_destroy(c->port[i].memory);
            if (c->port[i].own) {
                dnnl_memory_destroy(c->port[i].own);
                dnnl_primitive_destroy(c->port[i].moves);
            }
        }
        dnnl_memory_destroy(c->scratch);
        dnnl_primitive_destroy(c->primitive);
        free(c);
    }
}
