/* rt_matmul.c: computes matrix products with oneDNN's matmul primitive.
 *
 * A primitive, its memory objects and its scratchpad (in the rank's arena) are
 * created once; a call sets three pointers and executes. oneDNN's fast kernels
 * require each operand to be contiguous along one of its last two dims, and
 * the result along its last dim. A result that is contiguous by columns is
 * computed as the transposed product, c' = b' a'. The first kernel that the
 * library offers is not always the fastest.
 *
 * Two cases use other implementations. f32 is multiplied as three parts of bf16
 * if that is faster (rt_matmul_split.c). Products for which oneDNN has no fast
 * kernel on this machine are computed by rt_matmul_vector.c.
 */
#include <stdlib.h>
#include <string.h>

#include <omp.h>
#include <oneapi/dnnl/dnnl.h>

#include "common/message.h"
#include "common/type.h"
#include "cpu/rt_dnnl.h"
#include "cpu/rt_matmul.h"
#include "launch/world.h"
#include "rt.h"

/* ---- the choice of a kernel ---------------------------------------------- */

static bool is_bf16(const Plan *p)
{
    return p->view[SRC].type == PARC_BF16 && p->view[WEIGHTS].type == PARC_BF16;
}

/* How many times as fast as vectors of f32 the instructions for the plan's
 * types are. */
static double primitive_speedup(const Plan *p)
{
    return !is_bf16(p)                            ? 1
           : rt_dnnl_knows(dnnl_cpu_isa_avx512_core_amx)  ? 16
           : rt_dnnl_knows(dnnl_cpu_isa_avx512_core_bf16) ? 2
                                                  : 1;
}

/* oneDNN offers its kernels in a fixed order, first "brg…", which reads the
 * operands in place. For large products a kernel that packs them is faster: by
 * 5 to 8% at 2048 x 256 x 32000, whose rows of 128000 bytes map to few sets of
 * the cache, and by 10% in bf16.
 *
 * In f32 the threshold is lower if the right operand is contiguous by rows, as
 * for gradients: the gain is 5 to 20%, and 60 to 100% if its rows are a
 * multiple of 4096 bytes apart, which map to one set. But if the left operand
 * is contiguous by columns and the result has few columns (the gradient of a
 * head with few dims), packing is a large part of the work and costs 5 to 30%.
 * For a 16-bit result the kernel would need scratch of the result's size for
 * its sums. */
static const double LARGE = 4e9, LARGE_BY_ROWS = 2e8; /* flops */
static const int64_t FEW_COLUMNS = 512;

static bool is_large(const Plan *p)
{
    const View *a = &p->view[SRC], *b = &p->view[WEIGHTS];
    bool direct = rt_is_all_f32(p) ||
                  (is_bf16(p) && p->view[DST].type == PARC_F32);
    bool by_rows = rt_is_all_f32(p) && b->stride[2] == 1;
    bool few = by_rows && a->stride[2] != 1 && b->columns <= FEW_COLUMNS;
    return direct && !few && p->batch == 1 &&
           2.0 * (double)a->rows * (double)a->columns * (double)b->columns >=
               (by_rows ? LARGE_BY_ROWS : LARGE);
}

static const char *name_of(const_dnnl_primitive_desc_t description)
{
    const char *name = "";
    dnnl_primitive_desc_query(description, dnnl_query_impl_info_str, 0,
                              (void *)&name);
    return name;
}

/* The scratch bytes that a description (oneDNN's primitive_desc) requests. */
static int64_t description_scratch(const_dnnl_primitive_desc_t description)
{
    const dnnl_memory_desc_t *m =
        dnnl_primitive_desc_query_md(description, dnnl_query_scratchpad_md, 0);
    return m ? (int64_t)dnnl_memory_desc_get_size(m) : 0;
}

/* Whether the library has fast kernels for the element types. It emulates
 * 16-bit types without instructions, and its kernels in f32 for AVX2 are slower
 * than rt_matmul_vector.c. */
static bool has_kernels(const Plan *p)
{
    return rt_is_all_f32(p) ? rt_dnnl_knows(dnnl_cpu_isa_avx512_core)
                            : is_bf16(p) && rt_dnnl_knows(dnnl_cpu_isa_avx512_core_bf16);
}

/* Whether a kernel is fast. In f32 all but the reference are. */
static bool is_fast(const Plan *p, const char *name)
{
    return rt_is_all_f32(p) ? strncmp(name, "ref", 3) != 0
                            : strncmp(name, "brg", 3) == 0 ||
                                  (is_large(p) && strcmp(name, RT_PACKING) == 0);
}

/* Whether sizes fit in 32 bits. Otherwise oneDNN divides by zero. */
static bool is_countable(const Plan *p)
{
    for (int i = 0; i <= DST; i++) {
        const View *v = &p->view[i];
        if (v->rows > INT32_MAX || v->columns > INT32_MAX ||
            v->stride[1] > INT32_MAX || v->stride[2] > INT32_MAX)
            return false;
    }
    return true;
}

static dnnl_status_t describe_views(const Plan *p, dnnl_matmul_desc_t *matmul)
{
    dnnl_memory_desc_t memory[DST + 1];
    dnnl_status_t s = dnnl_success;
    for (int i = 0; i <= DST && s == dnnl_success; i++) {
        const View *v = &p->view[i];
        /* A batch stride of 0: all products share the matrix. */
        bool shared = v->stride[0] == 0 && i != DST;
        const dnnl_dims_t dims = {shared ? 1 : p->batch, v->rows, v->columns};
        const dnnl_dims_t strides = {shared ? v->rows * v->columns
                                            : v->stride[0],
                                     v->stride[1], v->stride[2]};
        int skip = p->batch == 1;
        s = dnnl_memory_desc_init_by_strides(&memory[i], 3 - skip, dims + skip,
                                             rt_dnnl_type(v->type),
                                             strides + skip);
    }
    return s != dnnl_success
               ? s
               : dnnl_matmul_desc_init(matmul, &memory[SRC], &memory[WEIGHTS],
                                       NULL, &memory[DST]);
}

/* The first fast kernel of the library's list, of this name (NULL: any), whose
 * scratch fits. */
static bool first_kernel(const Plan *p, const char *wanted, int64_t capacity,
                         const dnnl_matmul_desc_t *matmul,
                         const_dnnl_primitive_attr_t attributes,
                         dnnl_engine_t engine,
                         dnnl_primitive_desc_t *description)
{
    dnnl_primitive_desc_iterator_t it;
    dnnl_status_t s = dnnl_primitive_desc_iterator_create(
        &it, matmul, attributes, engine, NULL);
    if (s != dnnl_success)
        return false;
    bool found = false;
    do {
        *description = dnnl_primitive_desc_iterator_fetch(it);
        const char *name = name_of(*description);
        found = (!wanted || strcmp(name, wanted) == 0) && is_fast(p, name) &&
                description_scratch(*description) <= capacity;
        if (!found)
            dnnl_primitive_desc_destroy(*description);
    } while (!found && dnnl_primitive_desc_iterator_next(it) == dnnl_success);
    dnnl_primitive_desc_iterator_destroy(it);
    return found;
}

static bool describe_plan(const Plan *p, int64_t capacity, dnnl_engine_t engine,
                          dnnl_primitive_desc_t *description)
{
    dnnl_matmul_desc_t matmul;
    dnnl_primitive_attr_t attributes;
    if (describe_views(p, &matmul) != dnnl_success ||
        dnnl_primitive_attr_create(&attributes) != dnnl_success)
        return false;
    dnnl_primitive_attr_set_scratchpad_mode(attributes,
                                            dnnl_scratchpad_mode_user);
    bool found = (is_large(p) &&
                  first_kernel(p, RT_PACKING, capacity, &matmul, attributes,
                               engine, description)) ||
                 first_kernel(p, NULL, capacity, &matmul, attributes, engine,
                              description);
    dnnl_primitive_attr_destroy(attributes);
    return found;
}

/* Describes a primitive of the plan with one of the library's fast kernels, whose
 * scratch is at most `capacity` bytes; whether there is one. If only single
 * products of a batch have one, the plan is changed to compute them one by one.
 * The caller destroys the description. */
static bool describe(Plan *p, int64_t capacity, dnnl_engine_t engine,
                     dnnl_primitive_desc_t *description)
{
    Plan one = rt_plan_one_by_one(p);
    if (!has_kernels(p) || !is_countable(p))
        return false;
    if (describe_plan(p, capacity, engine, description))
        return true;
    if (p->batch == 1 || !describe_plan(&one, capacity, engine, description))
        return false;
    *p = one;
    return true;
}

/* ---- the choice of an implementation ------------------------------------- */

enum { SCRATCH = DST + 1, NMEMORIES };

typedef enum Way { PRIMITIVE, VECTOR, SPLIT } Way;

struct ParcMatmul {
    Plan plan;
    Way way;
    dnnl_primitive_desc_t description;
    dnnl_primitive_t primitive;
    dnnl_memory_t memory[NMEMORIES];
    dnnl_exec_arg_t argument[NMEMORIES];
    int64_t scratch, scratch_bytes; /* offset in the arena; bytes */
    ParcMatmul *next;
};

/* Whether the split implementation is faster for the plan, or for each of its
 * products, and its packed operands fit in `capacity` bytes. */
static bool may_split(Plan *p, int threads, int64_t capacity)
{
    Plan one = rt_plan_one_by_one(p);
    if (!rt_is_all_f32(&one) || !rt_split_takes(&one) ||
        rt_split_scratch(&one, threads) > capacity)
        return false;
    *p = one;
    return true;
}

/* Chooses the fastest implementation whose scratch is at most `capacity`
 * bytes, and the number of bytes that it uses. Sets *description if it is a
 * primitive. */
static Way choose(Plan *p, const ParcMatmulSpec *spec, int threads,
                  int64_t capacity, dnnl_engine_t engine,
                  dnnl_primitive_desc_t *description, int64_t *scratch)
{
    *p = rt_plan_of(spec);
    if (may_split(p, threads, capacity)) {
        *scratch = rt_split_scratch(p, threads);
        return SPLIT;
    }
    if (describe(p, capacity, engine, description)) {
        *scratch = description_scratch(*description);
        return PRIMITIVE;
    }
    *scratch = rt_vector_scratch(p, threads);
    return VECTOR;
}

/* ---- the bound of the scratch --------------------------------------------
 *
 * A program that is compiled for a named instruction set has the same memory
 * plan wherever it is planned. The scratch of its matrix products is therefore
 * not what oneDNN requests on one machine, but a bound for each level:
 *
 *   level               f32                      both operands in bf16
 *   x86-64-v3, aarch64  vector                   vector
 *   x86-64-v4           vector or brg, 704 KiB   vector
 *   amx                 vector, brg or split     vector or brg, 2 MiB
 *
 *   vector  rt_vector_scratch, the exact size for rt_matmul_vector.c
 *   split   rt_split_scratch, the exact size for rt_matmul_split.c
 *   brg     a bound for oneDNN's "brg…" kernels: threads x the smaller of the
 *           cap in the table and
 *           copies x (m k + k n) x size of an element + 4 m n + 4096
 *           bytes, where m, n and k are rounded up to multiples of 64, and
 *           copies is 1 in f32, 2 in bf16. oneDNN 2.6 requests this for most
 *           shapes
 *
 * ensures: the scratch is enough for `vector` in every case. At run time
 *          choose() takes the fastest implementation that fits.
 */

typedef struct Bound {
    int64_t f32, bf16; /* caps of brg in bytes; 0: the level has no brg */
    bool tiles;
} Bound;

static const Bound bound_of[] = {
    [PARC_CPU_X86_64_V3] = {0, 0, false},
    [PARC_CPU_X86_64_V4] = {704 << 10, 0, false},
    [PARC_CPU_AMX] = {704 << 10, 2 << 20, true},
    [PARC_CPU_AARCH64] = {0, 0, false},
};

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t library_bound(const Plan *p, int threads, const Bound *b)
{
    enum { BLOCK = 64, CONSTANT = 4096 };
    const View *src = &p->view[SRC], *weights = &p->view[WEIGHTS];
    bool f32 = rt_is_all_f32(p);
    bool bf16 = src->type == PARC_BF16 && weights->type == PARC_BF16;
    int64_t most = f32 ? b->f32 : bf16 ? b->bf16 : 0;
    double m = (double)(rt_pieces(src->rows, BLOCK) * BLOCK);
    double k = (double)(rt_pieces(src->columns, BLOCK) * BLOCK);
    double n = (double)(rt_pieces(weights->columns, BLOCK) * BLOCK);
    double copies = (f32 ? 1 : 2) * rt_type_size(src->type);
    double bytes = copies * (m * k + k * n) + 4 * m * n + CONSTANT;
    return threads * (bytes < (double)most ? (int64_t)bytes : most);
}

/* The scratch bytes of a matmul at a level other than PARC_CPU_NATIVE. */
static int64_t bound_at(const ParcMatmulSpec *spec, int threads,
                        ParcCpuLevel level)
{
    const Bound *b = &bound_of[level];
    Plan p = rt_plan_of(spec), one = rt_plan_one_by_one(&p);
    int64_t most = larger(rt_vector_scratch(&p, threads),
                          library_bound(&one, threads, b));
    if (b->tiles && rt_is_all_f32(&one) && rt_split_pays(&one))
        most = larger(most, rt_split_scratch(&one, threads));
    return most;
}

/* The scratch bytes of the fastest implementation on this machine. */
static int64_t requested(const ParcMatmulSpec *spec, int threads)
{
    dnnl_engine_t engine;
    dnnl_primitive_desc_t description = NULL;
    Plan p;
    int64_t bytes = 0;
    int before = omp_get_max_threads();
    if (dnnl_engine_create(&engine, dnnl_cpu, 0) != dnnl_success)
        return 0;
    omp_set_num_threads(threads);
    if (choose(&p, spec, threads, INT64_MAX, engine, &description, &bytes) ==
        PRIMITIVE)
        dnnl_primitive_desc_destroy(description);
    omp_set_num_threads(before);
    dnnl_engine_destroy(engine);
    return bytes;
}

int64_t parc_matmul_scratch(const ParcMatmulSpec *spec, int threads,
                            ParcCpuLevel level)
{
    if (level != PARC_CPU_NATIVE)
        return bound_at(spec, threads, level);
    /* A run may have fewer threads, or a limited instruction set, for which the
     * library has no kernel that fits: the scratch is enough for vectors. */
    Plan p = rt_plan_of(spec);
    int64_t bytes = requested(spec, threads);
    int64_t least = rt_vector_scratch(&p, threads);
    return bytes > least ? bytes : least;
}

double rt_matmul_speedup(const ParcRt *rt)
{
    const double tiles = 16, parts = 6; /* products of parts: rt_split.h */
    double most = 1;
    for (const ParcMatmul *mm = rt->matmuls; mm; mm = mm->next) {
        double own = mm->way == SPLIT       ? tiles / parts
                     : mm->way == PRIMITIVE ? primitive_speedup(&mm->plan)
                                            : 1;
        most = own > most ? own : most;
    }
    return most;
}

static void check(ParcRt *rt, const ParcMatmulSpec *spec, dnnl_status_t s)
{
    if (s != dnnl_success)
        rt_fail(rt,
                "oneDNN refuses matmul '%s' (%lld x [%lld, %lld] [%lld, "
                "%lld]): status %d",
                spec->name, (long long)spec->batch, (long long)spec->m,
                (long long)spec->k, (long long)spec->k, (long long)spec->n,
                (int)s);
}

static void make_memories(ParcRt *rt, ParcMatmul *mm,
                          const ParcMatmulSpec *spec)
{
    static const struct {
        dnnl_query_t what;
        int argument;
    } part[NMEMORIES] = {{dnnl_query_src_md, DNNL_ARG_SRC},
                         {dnnl_query_weights_md, DNNL_ARG_WEIGHTS},
                         {dnnl_query_dst_md, DNNL_ARG_DST},
                         {dnnl_query_scratchpad_md, DNNL_ARG_SCRATCHPAD}};
    for (int i = 0; i < NMEMORIES; i++) {
        const dnnl_memory_desc_t *m =
            dnnl_primitive_desc_query_md(mm->description, part[i].what, 0);
        check(rt, spec,
              dnnl_memory_create(&mm->memory[i], m, rt->engine,
                                 DNNL_MEMORY_NONE));
        mm->argument[i] = (dnnl_exec_arg_t){part[i].argument, mm->memory[i]};
    }
    if (mm->scratch_bytes > 0)
        check(rt, spec,
              dnnl_memory_set_data_handle(mm->memory[SCRATCH],
                                          rt->arena + mm->scratch));
}

ParcMatmul *parc_matmul_new(ParcRt *rt, const ParcMatmulSpec *spec)
{
    ParcMatmul *mm = rt_allocate(sizeof *mm);
    rt_dnnl_open(rt);
    mm->next = rt->matmuls;
    rt->matmuls = mm;
    mm->way = choose(&mm->plan, spec, rt->threads, spec->scratch_bytes,
                     rt->engine, &mm->description, &mm->scratch_bytes);
    if (mm->scratch_bytes > spec->scratch_bytes)
        rt_fail(rt,
                "matmul '%s' needs %lld bytes of scratch on this machine, but "
                "%lld are planned: build the program on this machine, or with "
                "parc --cpu LEVEL",
                spec->name, (long long)mm->scratch_bytes,
                (long long)spec->scratch_bytes);
    mm->scratch = spec->scratch;
    if (mm->way == PRIMITIVE) {
        check(rt, spec, dnnl_primitive_create(&mm->primitive, mm->description));
        make_memories(rt, mm, spec);
    }
    return mm;
}

static void execute(ParcRt *rt, ParcMatmul *mm, const void *src,
                    const void *weights, void *dst)
{
    /* oneDNN's handles are not const, but it only reads the sources. */
    dnnl_memory_set_data_handle(mm->memory[SRC], (void *)(uintptr_t)src);
    dnnl_memory_set_data_handle(mm->memory[WEIGHTS],
                                (void *)(uintptr_t)weights);
    dnnl_memory_set_data_handle(mm->memory[DST], dst);
    dnnl_status_t s = dnnl_primitive_execute(mm->primitive, rt->stream,
                                             NMEMORIES, mm->argument);
    if (s != dnnl_success)
        rt_fail(rt, "oneDNN failed in a matmul: status %d", (int)s);
}

static void multiply(ParcRt *rt, ParcMatmul *mm, const void *src,
                     const void *weights, void *dst)
{
    const Plan *p = &mm->plan;
    char *scratch = rt->arena + mm->scratch;
    if (mm->way == SPLIT)
        rt_split_product(p, src, weights, dst, scratch, rt->threads);
    else if (mm->way == VECTOR)
        rt_vector_product(p, src, weights, dst, scratch, rt->threads);
    else
        execute(rt, mm, src, weights, dst);
}

void parc_matmul(ParcRt *rt, ParcMatmul *mm, const void *a, const void *b,
                 void *c)
{
    const Plan *p = &mm->plan;
    for (int64_t i = 0; i < p->loops; i++) {
        const void *src = rt_element(p->view[SRC].type, p->swapped ? b : a,
                                     i * p->step[SRC]);
        const void *weights = rt_element(
            p->view[WEIGHTS].type, p->swapped ? a : b, i * p->step[WEIGHTS]);
        void *dst = rt_element_out(p->view[DST].type, c, i * p->step[DST]);
        multiply(rt, mm, src, weights, dst);
    }
    dnnl_stream_wait(rt->stream);
}

void rt_matmul_close(ParcRt *rt)
{
    while (rt->matmuls) {
        ParcMatmul *mm = rt->matmuls;
        rt->matmuls = mm->next;
        for (int i = 0; i < NMEMORIES && mm->way == PRIMITIVE; i++)
            dnnl_memory_destroy(mm->memory[i]);
        if (mm->way == PRIMITIVE) {
            dnnl_primitive_destroy(mm->primitive);
            dnnl_primitive_desc_destroy(mm->description);
        }
        free(mm);
    }
}
