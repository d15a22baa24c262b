/* rt_matmul.c: matrix products by oneDNN's matmul primitive.
 *
 * A primitive, its memory objects and its scratchpad (in the rank's arena)
 * are made once; a call sets three pointers and runs. oneDNN's fast kernels
 * want each operand contiguous along one of its last two dims and the result
 * along its last: a result that is contiguous by columns is computed as the
 * transposed product, c' = b' a'. Where only the reference kernel would take
 * a batch, its products run one by one; 16-bit types that have no fast kernel
 * here are multiplied in f32 (rt_matmul_wide.c), f32 in three parts of bf16
 * where that is faster (rt_matmul_split.c).
 */
#include <stdlib.h>
#include <string.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include <omp.h>
#include <oneapi/dnnl/dnnl.h>

#include "rt.h"
#include "rt_matmul.h"
#include "rt_threads.h"
#include "rt_type.h"

enum { SCRATCH = DST + 1, NMEMORIES };

typedef enum Way { PRIMITIVE, WIDE, SPLIT } Way;

struct ParcMatmul {
    Plan plan;
    Way way;
    dnnl_primitive_desc_t description;
    dnnl_primitive_t primitive;
    dnnl_memory_t memory[NMEMORIES];
    dnnl_exec_arg_t argument[NMEMORIES];
    int64_t scratch, scratch_bytes; /* at; of how many */
    ParcMatmul *next;
};

static View transposed(View v)
{
    return (View){v.columns,
                  v.rows,
                  {v.stride[0], v.stride[2], v.stride[1]},
                  v.type};
}

/* Strides of dims of one element say nothing; oneDNN reads them as layout. */
static void tidy(View *v)
{
    int64_t *s = v->stride;
    if (v->columns == 1 && s[1] != 1) {
        s[2] = 1;
        s[1] = v->rows == 1 ? 1 : s[1];
    }
    if (v->rows == 1 && s[2] == 1) {
        s[1] = v->columns;
    }
}

static Plan plan_of(const ParcMatmulSpec *spec)
{
    const int64_t *sa = spec->sa, *sb = spec->sb, *sc = spec->sc;
    View a = {spec->m, spec->k, {sa[0], sa[1], sa[2]}, spec->type.a};
    View b = {spec->k, spec->n, {sb[0], sb[1], sb[2]}, spec->type.b};
    View c = {spec->m, spec->n, {sc[0], sc[1], sc[2]}, spec->type.c};
    Plan p = {.batch = spec->batch, .loops = 1};
    tidy(&a);
    tidy(&b);
    tidy(&c);
    p.swapped = c.stride[2] != 1;
    p.view[SRC] = p.swapped ? transposed(b) : a;
    p.view[WEIGHTS] = p.swapped ? transposed(a) : b;
    p.view[DST] = p.swapped ? transposed(c) : c;
    return p;
}

static void run_one_by_one(Plan *p)
{
    p->loops = p->batch;
    p->batch = 1;
    for (int i = 0; i <= DST; i++) {
        p->step[i] = p->view[i].stride[0];
    }
}

static dnnl_data_type_t data_type(ParcType type)
{
    static const dnnl_data_type_t of[] = {[PARC_F32] = dnnl_f32,
                                          [PARC_BF16] = dnnl_bf16,
                                          [PARC_F16] = dnnl_f16};
    return of[type];
}

static bool is_all_f32(const Plan *p)
{
    return p->view[SRC].type == PARC_F32 && p->view[WEIGHTS].type == PARC_F32 &&
           p->view[DST].type == PARC_F32;
}

/* Whether the machine multiplies bf16, and oneDNN may use that. */
static bool knows_bf16(void)
{
    unsigned want = dnnl_cpu_isa_avx512_core_bf16;
    return ((unsigned)dnnl_get_effective_cpu_isa() & want) == want;
}

static bool is_bf16(const Plan *p)
{
    return p->view[SRC].type == PARC_BF16 && p->view[WEIGHTS].type == PARC_BF16;
}

/* oneDNN offers its kernels in an order of its own: first "brg…", which reads
 * the operands where they are. From some size on the one that packs them is
 * faster (5 to 8% at 2048 x 256 x 32000, whose rows of 128000 bytes meet in
 * few sets of the cache; 10% in bf16). In f32 it is sooner where the right
 * operand is read along its rows, as gradients are: by 5 to 20%, and by 60 to
 * 100% where these rows are a multiple of 4096 bytes apart, so that all meet in
 * one set; but it is later by 5 to 30% where the left operand is read along its
 * columns for few columns of the result (the gradient of a vocabulary's head
 * of few dims): packing that operand is then much of the work. For a result of
 * 16 bits it would sum in scratch of the result's size. */
#define PACKING "gemm:jit"
static const double LARGE = 4e9, LARGE_BY_ROWS = 2e8; /* flops */
static const int64_t FEW_COLUMNS = 512;

static bool is_large(const Plan *p)
{
    const View *a = &p->view[SRC], *b = &p->view[WEIGHTS];
    bool direct = is_all_f32(p) || (is_bf16(p) && knows_bf16() &&
                                    p->view[DST].type == PARC_F32);
    bool by_rows = is_all_f32(p) && b->stride[2] == 1;
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

/* The kernel of that name, if there is one. */
static dnnl_status_t prefer(const char *name, const dnnl_matmul_desc_t *matmul,
                            const_dnnl_primitive_attr_t attributes,
                            dnnl_engine_t engine,
                            dnnl_primitive_desc_t *description)
{
    dnnl_primitive_desc_iterator_t it;
    dnnl_status_t s = dnnl_primitive_desc_iterator_create(
        &it, matmul, attributes, engine, NULL);
    if (s != dnnl_success) {
        return s;
    }
    do {
        *description = dnnl_primitive_desc_iterator_fetch(it);
        if (strcmp(name_of(*description), name) == 0) {
            dnnl_primitive_desc_iterator_destroy(it);
            return dnnl_success;
        }
        dnnl_primitive_desc_destroy(*description);
        s = dnnl_primitive_desc_iterator_next(it);
    } while (s == dnnl_success);
    dnnl_primitive_desc_iterator_destroy(it);
    return s;
}

static dnnl_status_t describe(const Plan *p, dnnl_engine_t engine,
                              dnnl_primitive_desc_t *description)
{
    dnnl_memory_desc_t memory[DST + 1];
    dnnl_matmul_desc_t matmul;
    dnnl_primitive_attr_t attributes;
    dnnl_status_t s = dnnl_success;
    for (int i = 0; i <= DST && s == dnnl_success; i++) {
        const View *v = &p->view[i];
        /* A stride of 0 along the batch: the same matrix for all. */
        bool shared = v->stride[0] == 0 && i != DST;
        const dnnl_dims_t dims = {shared ? 1 : p->batch, v->rows, v->columns};
        const dnnl_dims_t strides = {shared ? v->rows * v->columns
                                            : v->stride[0],
                                     v->stride[1], v->stride[2]};
        int skip = p->batch == 1;
        s = dnnl_memory_desc_init_by_strides(&memory[i], 3 - skip, dims + skip,
                                             data_type(v->type),
                                             strides + skip);
    }
    if (s == dnnl_success) {
        s = dnnl_matmul_desc_init(&matmul, &memory[SRC], &memory[WEIGHTS], NULL,
                                  &memory[DST]);
    }
    if (s != dnnl_success ||
        (s = dnnl_primitive_attr_create(&attributes)) != dnnl_success) {
        return s;
    }
    dnnl_primitive_attr_set_scratchpad_mode(attributes,
                                            dnnl_scratchpad_mode_user);
    s = is_large(p) ? prefer(PACKING, &matmul, attributes, engine, description)
                    : dnnl_unimplemented;
    if (s != dnnl_success) {
        s = dnnl_primitive_desc_create(description, &matmul, attributes, engine,
                                       NULL);
    }
    dnnl_primitive_attr_destroy(attributes);
    return s;
}

/* Anything but the reference in f32. In 16 bits the kernels that we want, and
 * not as an imitation. */
static bool is_fast(const Plan *p, const_dnnl_primitive_desc_t description)
{
    const char *name = name_of(description);
    if (is_all_f32(p)) {
        return strncmp(name, "ref", 3) != 0;
    }
    return (!is_bf16(p) || knows_bf16()) &&
           (strncmp(name, "brg", 3) == 0 || is_large(p));
}

/* Describes the plan's primitive if it has a fast one. */
static bool describe_fast(const Plan *p, dnnl_engine_t engine,
                          dnnl_primitive_desc_t *description)
{
    if (describe(p, engine, description) != dnnl_success) {
        return false;
    }
    if (is_fast(p, *description)) {
        return true;
    }
    dnnl_primitive_desc_destroy(*description);
    return false;
}

/* Whether the plan, or each of its products, is faster in parts of bf16, and
 * what that packs has room. */
static bool may_split(Plan *p, int threads, int64_t room)
{
    Plan one = *p;
    run_one_by_one(&one);
    if (!is_all_f32(&one) || !rt_split_takes(&one) ||
        rt_split_scratch(&one, threads) > room) {
        return false;
    }
    *p = one;
    return true;
}

/* `room`: bytes of scratch at most. The description is a primitive's, if that
 * is the way. */
static dnnl_status_t choose(Plan *p, const ParcMatmulSpec *spec, int threads,
                            int64_t room, dnnl_engine_t engine, Way *way,
                            dnnl_primitive_desc_t *description)
{
    *p = plan_of(spec);
    if (may_split(p, threads, room)) {
        *way = SPLIT;
        return dnnl_success;
    }
    *way = PRIMITIVE;
    if (describe_fast(p, engine, description)) {
        return dnnl_success;
    }
    if (p->batch > 1) {
        run_one_by_one(p);
        if (describe_fast(p, engine, description)) {
            return dnnl_success;
        }
    }
    *way = is_all_f32(p) ? PRIMITIVE : WIDE;
    return *way == WIDE ? dnnl_success : describe(p, engine, description);
}

static int64_t scratch_of(const Plan *p, Way way, int threads,
                          const_dnnl_primitive_desc_t description)
{
    if (way != PRIMITIVE) {
        return way == WIDE ? rt_wide_scratch(p) : rt_split_scratch(p, threads);
    }
    const dnnl_memory_desc_t *m =
        dnnl_primitive_desc_query_md(description, dnnl_query_scratchpad_md, 0);
    return m ? (int64_t)dnnl_memory_desc_get_size(m) : 0;
}

int64_t parc_matmul_scratch(const ParcMatmulSpec *spec, int threads)
{
    dnnl_engine_t engine;
    dnnl_primitive_desc_t description = NULL;
    Plan p;
    Way way;
    int64_t bytes = 0;
    int before = omp_get_max_threads();
    if (dnnl_engine_create(&engine, dnnl_cpu, 0) != dnnl_success) {
        return 0;
    }
    omp_set_num_threads(threads);
    if (choose(&p, spec, threads, INT64_MAX, engine, &way, &description) ==
        dnnl_success) {
        bytes = scratch_of(&p, way, threads, description);
        if (way == PRIMITIVE) {
            dnnl_primitive_desc_destroy(description);
        }
    }
    omp_set_num_threads(before);
    dnnl_engine_destroy(engine);
    return bytes;
}

static void check(ParcRt *rt, const ParcMatmulSpec *spec, dnnl_status_t s)
{
    if (s != dnnl_success) {
        rt_fail(rt,
                "oneDNN refuses matmul '%s' (%lld x [%lld, %lld] [%lld, "
                "%lld]): status %d",
                spec->name, (long long)spec->batch, (long long)spec->m,
                (long long)spec->k, (long long)spec->k, (long long)spec->n,
                (int)s);
    }
}

/* Where oneDNN packs operands it takes aligned blocks from malloc at every
 * call. Mapped anew they would cost a page fault every 4 KiB (5 ms a call of
 * 20 MiB), trimmed away too: they stay in the heap, which is at most a few of
 * the largest blocks. Larger ones than any of oneDNN's are mapped. */
static void tame_malloc(void)
{
#ifdef __GLIBC__
    mallopt(M_MMAP_THRESHOLD, 32 << 20);
    mallopt(M_TRIM_THRESHOLD, 256 << 20);
#endif
}

static void open_engine(ParcRt *rt, const ParcMatmulSpec *spec)
{
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    if (!rt->engine) {
        tame_malloc();
        check(rt, spec, dnnl_engine_create(&engine, dnnl_cpu, 0));
        rt->engine = engine;
        check(rt, spec,
              dnnl_stream_create(&stream, engine, dnnl_stream_default_flags));
        rt->stream = stream;
    }
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
    if (mm->scratch_bytes > 0) {
        check(rt, spec,
              dnnl_memory_set_data_handle(mm->memory[SCRATCH],
                                          rt->arena + mm->scratch));
    }
}

ParcMatmul *parc_matmul_new(ParcRt *rt, const ParcMatmulSpec *spec)
{
    ParcMatmul *mm = rt_allocate(sizeof *mm);
    open_engine(rt, spec);
    mm->next = rt->matmuls;
    rt->matmuls = mm;
    check(rt, spec,
          choose(&mm->plan, spec, rt->threads, spec->scratch_bytes, rt->engine,
                 &mm->way, &mm->description));
    mm->scratch = spec->scratch;
    mm->scratch_bytes =
        scratch_of(&mm->plan, mm->way, rt->threads, mm->description);
    if (mm->scratch_bytes > spec->scratch_bytes) {
        rt_fail(rt,
                "matmul '%s' needs %lld bytes of scratch on this machine; %lld "
                "were planned: build the program here",
                spec->name, (long long)mm->scratch_bytes,
                (long long)spec->scratch_bytes);
    }
    if (mm->way == PRIMITIVE) {
        check(rt, spec, dnnl_primitive_create(&mm->primitive, mm->description));
        make_memories(rt, mm, spec);
    }
    return mm;
}

static void execute(ParcRt *rt, ParcMatmul *mm, const void *src,
                    const void *weights, void *dst)
{
    /* oneDNN's handles are not const; sources are only read. */
    dnnl_memory_set_data_handle(mm->memory[SRC], (void *)(uintptr_t)src);
    dnnl_memory_set_data_handle(mm->memory[WEIGHTS],
                                (void *)(uintptr_t)weights);
    dnnl_memory_set_data_handle(mm->memory[DST], dst);
    dnnl_status_t s = dnnl_primitive_execute(mm->primitive, rt->stream,
                                             NMEMORIES, mm->argument);
    if (s != dnnl_success) {
        rt_fail(rt, "oneDNN failed in a matmul: status %d", (int)s);
    }
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
        void *scratch = rt->arena + mm->scratch;
        if (mm->way == SPLIT) {
            rt_split_product(p, src, weights, dst, scratch, rt->threads);
        } else if (mm->way == WIDE) {
            rt_wide_product(p, src, weights, dst, scratch);
        } else {
            execute(rt, mm, src, weights, dst);
        }
    }
    dnnl_stream_wait(rt->stream);
}

void rt_matmul_close(ParcRt *rt)
{
    while (rt->matmuls) {
        ParcMatmul *mm = rt->matmuls;
        rt->matmuls = mm->next;
        for (int i = 0; i < NMEMORIES && mm->way == PRIMITIVE; i++) {
            dnnl_memory_destroy(mm->memory[i]);
        }
        if (mm->way == PRIMITIVE) {
            dnnl_primitive_destroy(mm->primitive);
            dnnl_primitive_desc_destroy(mm->description);
        }
        free(mm);
    }
    if (rt->engine) {
        dnnl_stream_destroy(rt->stream);
        dnnl_engine_destroy(rt->engine);
        rt->engine = NULL;
    }
}
