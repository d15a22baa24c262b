/* rt_grouped.c: multiplies the rows of each expert by its matrix.
 *
 *   rows [6, d] with ends [2, 2, 6]   y [0 … 1] = rows [0 … 1] weight[0]'
 *   and weight [3, f, d]              y [2 … 5] = rows [2 … 5] weight[2]'
 *
 * Each expert is one product, whose size is known when it is computed. In f32 with AVX-512, and in
 * bf16 where the machine has instructions for it, oneDNN's packing kernel computes it: of the
 * library's fast kernels the one that takes sizes at run time. It is created once for each spec.
 * In f32 with tiles, rt_matmul_split.c computes large products; rt_matmul_vector.c all others.
 *
 * Products have their sums in f32. A result in 16 bits is computed in pieces of rows, in a buffer
 * in the scratch, and rounded once; so is a gradient of the weight that several groups of tokens
 * add to. The order of sums depends on the sizes and the number of threads.
 */
#include <stdlib.h>
#include <string.h>

#include <oneapi/dnnl/dnnl.h>

#include "common/message.h"
#include "common/type.h"
#include "cpu/rt_dnnl.h"
#include "cpu/rt_grouped.h"
#include "cpu/rt_matmul.h"
#include "launch/world.h"
#include "parc_experts.h"
#include "rt.h"

/* A piece of a result has at most PIECE_BYTES, or MIN_ROWS rows. For each piece the kernel packs
 * its second operand again: with 1 MiB two matrices of 512 x 1792 are multiplied 10% slower. */
enum { PIECE_BYTES = 4 << 20, MIN_ROWS = 64, ALIGNMENT = 64, GRAIN = 1 << 12 };

/* ---- products ------------------------------------------------------------ */

/* The product of one expert with `count` rows: `rows` rows of its result from `first` on, in
 * f32. */
static Plan product(const ParcGrouped *s, int64_t count, int64_t rows)
{
    int64_t f = s->f, d = s->d;
    ParcMatmulSpec m = {.batch = 1, .m = rows, .n = d, .k = f, .sa = {0, f, 1}, .sb = {0, d, 1},
                        .type = {s->type, s->type, PARC_F32}};
    if (s->computes == PARC_GROUPED_Y) {
        m = (ParcMatmulSpec){.batch = 1, .m = rows, .n = f, .k = d, .sa = {0, d, 1},
                             .sb = {0, 1, d}, .type = m.type};
    } else if (s->computes == PARC_GROUPED_WEIGHT) {
        m.k = count;
        m.sa[1] = 1;
        m.sa[2] = f;
    }
    m.sc[1] = m.n;
    m.sc[2] = 1;
    return rt_plan_of(&m);
}

/* Columns of the result; rows of it for all `r` rows. */
static int64_t result_columns(const ParcGrouped *s)
{
    return s->computes == PARC_GROUPED_Y ? s->f : s->d;
}

static int64_t result_rows(const ParcGrouped *s)
{
    return s->computes == PARC_GROUPED_WEIGHT ? s->f : s->r;
}

/* The result's buffers: one if it is rounded, or several groups add to it; and one for what is
 * added. */
static int64_t buffer_count(const ParcGrouped *s)
{
    bool adds = s->computes == PARC_GROUPED_WEIGHT && s->groups > 1;
    return (s->out != PARC_F32) + adds;
}

/* The most rows of the result that are computed at a time. */
static int64_t piece_rows(const ParcGrouped *s)
{
    int64_t rows = result_rows(s);
    int64_t some = PIECE_BYTES / (result_columns(s) * (int64_t)sizeof(float));
    return buffer_count(s) ? rt_least(rows, some > MIN_ROWS ? some : MIN_ROWS) : rows;
}

/* The rows of each piece of `rows` rows, the last of which may have fewer. */
static int64_t even_rows(const ParcGrouped *s, int64_t rows)
{
    int64_t most = piece_rows(s);
    return rows > most ? rt_pieces(rows, rt_pieces(rows, most)) : most;
}

static int64_t buffer_bytes(const ParcGrouped *s)
{
    int64_t bytes = piece_rows(s) * result_columns(s) * (int64_t)sizeof(float);
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

int64_t parc_grouped_scratch(const ParcGrouped *s, int threads, ParcCpuLevel level)
{
    Plan all = product(s, s->r, piece_rows(s));
    Plan some = product(s, rt_pieces(s->r, s->experts),
                        rt_least(piece_rows(s), rt_pieces(result_rows(s), s->experts)));
    int64_t work = rt_vector_most_scratch(&all, threads);
    bool native = level == PARC_CPU_NATIVE, tiles = level == PARC_CPU_AMX;
    const Plan *plan[] = {&all, &some};
    for (int i = 0; i < 2; i++) {
        if (!rt_is_all_f32(plan[i]) || !(native ? rt_split_takes(plan[i])
                                                : tiles && rt_split_pays(plan[i])))
            continue;
        int64_t split = rt_split_scratch(plan[i], threads);
        work = split > work ? split : work;
    }
    return buffer_count(s) * buffer_bytes(s) + work;
}

/* ---- oneDNN -------------------------------------------------------------- */

/* A kernel for the products of a spec; `primitive` is NULL if the library has none. */
typedef struct RtGroupedKernel RtGroupedKernel;
struct RtGroupedKernel {
    ParcGrouped of;
    dnnl_primitive_t primitive;
    RtGroupedKernel *next;
};

static bool is_same(const ParcGrouped *a, const ParcGrouped *b)
{
    return a->computes == b->computes && a->f == b->f && a->d == b->d && a->type == b->type &&
           buffer_count(a) == buffer_count(b);
}

/* The matrix with its size; with the one of `open` left to the call. */
static dnnl_status_t describe(const View *v, bool open_rows, bool open_columns,
                              dnnl_memory_desc_t *m)
{
    const dnnl_dims_t dim = {open_rows ? DNNL_RUNTIME_DIM_VAL : v->rows,
                             open_columns ? DNNL_RUNTIME_DIM_VAL : v->columns};
    const dnnl_dims_t stride = {v->stride[1], v->stride[2]};
    return dnnl_memory_desc_init_by_strides(m, 2, dim, rt_dnnl_type(v->type), stride);
}

/* Rows of the result, or the contracted dim, are those of an expert. */
static dnnl_status_t describe_all(const ParcGrouped *s, const Plan *p, bool open,
                                  dnnl_memory_desc_t m[DST + 1])
{
    bool weight = open && s->computes == PARC_GROUPED_WEIGHT, rows = open;
    dnnl_status_t status = describe(&p->view[SRC], rows, weight, &m[SRC]);
    if (status == dnnl_success)
        status = describe(&p->view[WEIGHTS], weight, false, &m[WEIGHTS]);
    return status == dnnl_success ? describe(&p->view[DST], rows, false, &m[DST]) : status;
}

static bool has_kernel(const ParcGrouped *s)
{
    return rt_dnnl_knows(s->type == PARC_F32 ? dnnl_cpu_isa_avx512_core
                                             : dnnl_cpu_isa_avx512_core_bf16) &&
           s->type != PARC_F16;
}

/* Creates the packing kernel; NULL: the library has none. */
static dnnl_primitive_t create(ParcRt *rt, const ParcGrouped *s)
{
    Plan p = product(s, s->r, result_rows(s));
    dnnl_memory_desc_t m[DST + 1];
    dnnl_matmul_desc_t matmul;
    dnnl_primitive_desc_iterator_t it;
    dnnl_primitive_t primitive = NULL;
    bool more = has_kernel(s) && describe_all(s, &p, true, m) == dnnl_success &&
                dnnl_matmul_desc_init(&matmul, &m[SRC], &m[WEIGHTS], NULL, &m[DST]) ==
                    dnnl_success &&
                dnnl_primitive_desc_iterator_create(&it, &matmul, NULL, rt->engine, NULL) ==
                    dnnl_success;
    if (!more)
        return NULL;
    while (more) {
        dnnl_primitive_desc_t d = dnnl_primitive_desc_iterator_fetch(it);
        const char *name = "";
        dnnl_primitive_desc_query(d, dnnl_query_impl_info_str, 0, (void *)&name);
        if (strcmp(name, RT_PACKING) == 0 && dnnl_primitive_create(&primitive, d) != dnnl_success)
            primitive = NULL;
        dnnl_primitive_desc_destroy(d);
        more = !primitive && dnnl_primitive_desc_iterator_next(it) == dnnl_success;
    }
    dnnl_primitive_desc_iterator_destroy(it);
    return primitive;
}

static dnnl_primitive_t kernel_of(ParcRt *rt, const ParcGrouped *s)
{
    RtGroupedKernel *k = rt->grouped;
    while (k && !is_same(&k->of, s))
        k = k->next;
    if (k)
        return k->primitive;
    k = rt_allocate(sizeof *k);
    *k = (RtGroupedKernel){*s, create(rt, s), rt->grouped};
    rt->grouped = k;
    return k->primitive;
}

void rt_grouped_close(ParcRt *rt)
{
    while (rt->grouped) {
        RtGroupedKernel *k = rt->grouped;
        rt->grouped = k->next;
        if (k->primitive)
            dnnl_primitive_destroy(k->primitive);
        free(k);
    }
}

static void execute(ParcRt *rt, dnnl_primitive_t primitive, const ParcGrouped *s, const Plan *p,
                    const void *src, const void *weights, float *dst)
{
    static const int argument[] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST};
    /* oneDNN's addresses are not const, but it only reads the operands. */
    void *const at[] = {(void *)(uintptr_t)src, (void *)(uintptr_t)weights, dst};
    dnnl_memory_desc_t m[DST + 1];
    dnnl_memory_t memory[DST + 1] = {NULL};
    dnnl_exec_arg_t arguments[DST + 1];
    dnnl_status_t status = describe_all(s, p, false, m);
    for (int i = 0; i <= DST && status == dnnl_success; i++) {
        status = dnnl_memory_create(&memory[i], &m[i], rt->engine, at[i]);
        arguments[i] = (dnnl_exec_arg_t){argument[i], memory[i]};
    }
    if (status == dnnl_success)
        status = dnnl_primitive_execute(primitive, rt->stream, DST + 1, arguments);
    if (status != dnnl_success)
        rt_fail(rt, "oneDNN failed in a product of an expert (%lld x %lld): status %d",
                (long long)p->view[DST].rows, (long long)p->view[DST].columns, (int)status);
    dnnl_stream_wait(rt->stream);
    for (int i = 0; i <= DST; i++)
        dnnl_memory_destroy(memory[i]);
}

/* ---- the experts of a rank ----------------------------------------------- */

typedef struct Call {
    ParcRt *rt;
    const ParcGrouped *s;
    dnnl_primitive_t primitive;
    const void *a, *b;
    const int32_t *ends;
    void *out;
    float *buffer, *added; /* a piece of the result, NULL: not needed */
    void *work;
    int64_t work_bytes;
} Call;

/* The rows of an expert in a shard of a group. */
typedef struct Range {
    int64_t begin, n; /* in all rows */
} Range;

static Range range_of(const Call *c, int64_t group, int64_t shard, int64_t expert)
{
    int64_t i = group * c->s->x + shard;
    const int32_t *end = c->ends + i * c->s->experts + expert;
    int32_t begin = expert ? end[-1] : 0;
    return (Range){i * c->s->r + begin, *end - begin};
}

static void multiply(const Call *c, const Plan *p, const void *src, const void *weights, float *dst)
{
    int threads = c->rt->threads;
    if (rt_is_all_f32(p) && rt_split_takes(p) && rt_split_scratch(p, threads) <= c->work_bytes)
        rt_split_product(p, src, weights, dst, c->work, threads);
    else if (c->primitive)
        execute(c->rt, c->primitive, c->s, p, src, weights, dst);
    else
        rt_vector_product(p, src, weights, dst, c->work, threads);
}

/* to = x, rounded, or to += x. */
static void write_piece(const Call *c, void *to, const float *x, int64_t n, bool add)
{
    enum { PIECE = 1024 };
    ParcType type = add ? PARC_F32 : c->s->out;
#pragma omp parallel for schedule(static) num_threads(c->rt->threads) if (n > GRAIN)
    for (int64_t i = 0; i < n; i += PIECE) {
        int64_t some = rt_least(n - i, PIECE);
        float *sum = (float *)to + i;
        if (!add)
            rt_narrow(type, rt_element_out(type, to, i), x + i, some);
        for (int64_t j = 0; j < some && add; j++)
            sum[j] += x[i + j];
    }
}

/* Rows first … first + rows - 1 of the gradient of an expert's matrix. */
static void weight_piece(const Call *c, int64_t shard, int64_t expert, int64_t first, int64_t rows)
{
    const ParcGrouped *s = c->s;
    int64_t at = ((shard * s->experts + expert) * s->f + first) * s->d, n = rows * s->d;
    void *to = rt_element_out(s->out, c->out, at);
    float *sum = s->out == PARC_F32 ? to : c->buffer;
    bool any = false;
    for (int64_t group = 0; group < s->groups; group++) {
        Range of = range_of(c, group, shard, expert);
        if (of.n == 0)
            continue;
        Plan p = product(s, of.n, rows);
        multiply(c, &p, rt_element(s->type, c->a, of.begin * s->f + first),
                 rt_element(s->type, c->b, of.begin * s->d), any ? c->added : sum);
        if (any)
            write_piece(c, sum, c->added, n, true);
        any = true;
    }
    if (!any)
        memset(to, 0, (size_t)(n * rt_type_size(s->out)));
    else if (sum == c->buffer)
        write_piece(c, to, sum, n, false);
}

/* The result rows of an expert in one group. */
static void expert_rows(const Call *c, Range of, int64_t matrix)
{
    const ParcGrouped *s = c->s;
    int64_t columns = result_columns(s), width = s->f + s->d - columns;
    int64_t most = even_rows(s, of.n);
    for (int64_t i = 0; i < of.n; i += most) {
        int64_t rows = rt_least(most, of.n - i);
        Plan p = product(s, of.n, rows);
        void *to = rt_element_out(s->out, c->out, (of.begin + i) * columns);
        float *sum = s->out == PARC_F32 ? to : c->buffer;
        multiply(c, &p, rt_element(s->type, c->a, (of.begin + i) * width),
                 rt_element(s->type, c->b, matrix * s->f * s->d), sum);
        if (sum == c->buffer)
            write_piece(c, to, sum, rows * columns, false);
    }
}

void parc_grouped_matmul(ParcRt *rt, const ParcGrouped *spec, void *out, const void *a,
                         const void *b, const int32_t *ends, void *scratch, int64_t scratch_bytes)
{
    int64_t buffers = buffer_count(spec), bytes = buffer_bytes(spec);
    int64_t most = even_rows(spec, spec->f);
    rt_dnnl_open(rt);
    Call c = {.rt = rt, .s = spec, .a = a, .b = b, .ends = ends, .out = out,
              .primitive = kernel_of(rt, spec),
              .work = (char *)scratch + buffers * bytes,
              .work_bytes = scratch_bytes - buffers * bytes};
    if (buffers) {
        c.buffer = scratch;
        c.added = (float *)(void *)((char *)scratch + (buffers - 1) * bytes);
    }
    for (int64_t shard = 0; shard < spec->x; shard++)
        for (int64_t e = 0; e < spec->experts; e++) {
            bool weight = spec->computes == PARC_GROUPED_WEIGHT;
            for (int64_t i = 0; i < spec->f && weight; i += most)
                weight_piece(&c, shard, e, i, rt_least(most, spec->f - i));
            for (int64_t group = 0; group < spec->groups && !weight; group++)
                expert_rows(&c, range_of(&c, group, shard, e), shard * spec->experts + e);
        }
}
