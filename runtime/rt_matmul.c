/* rt_matmul.c: matrix products by oneDNN's matmul primitive.
 *
 * A primitive, its memory objects and its scratchpad (in the rank's arena)
 * are made once; a call sets three pointers and runs. oneDNN's fast kernels
 * want each operand contiguous along one of its last two dims and the result
 * along its last: a result that is contiguous by columns is computed as the
 * transposed product, c' = b' a'. Where only the reference kernel would take
 * a batch, its products run one by one.
 */
#include <stdlib.h>
#include <string.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include <omp.h>
#include <oneapi/dnnl/dnnl.h>

#include "rt.h"

enum { SRC, WEIGHTS, DST, SCRATCH, NMEMORIES };

struct ParcMatmul {
    dnnl_primitive_desc_t description;
    dnnl_primitive_t primitive;
    dnnl_memory_t memory[NMEMORIES];
    dnnl_exec_arg_t argument[NMEMORIES];
    bool swapped;          /* a is the primitive's weights, b its source */
    int64_t loops;         /* products run one by one */
    int64_t step[DST + 1]; /* elements from one to the next */
    int64_t scratch_bytes;
    ParcMatmul *next;
};

/* A matrix of the product, a stack of them if batch > 1. */
typedef struct View {
    int64_t rows, columns, stride[3];
} View;

static View transposed(View v)
{
    return (View){v.columns, v.rows, {v.stride[0], v.stride[2], v.stride[1]}};
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

typedef struct Plan {
    View view[DST + 1]; /* by SRC, WEIGHTS, DST */
    int64_t batch, step[DST + 1], loops;
    bool swapped;
} Plan;

static Plan plan_of(const ParcMatmulSpec *spec)
{
    View a = {spec->m, spec->k, {spec->sa[0], spec->sa[1], spec->sa[2]}};
    View b = {spec->k, spec->n, {spec->sb[0], spec->sb[1], spec->sb[2]}};
    View c = {spec->m, spec->n, {spec->sc[0], spec->sc[1], spec->sc[2]}};
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
                                             dnnl_f32, strides + skip);
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
    s = dnnl_primitive_desc_create(description, &matmul, attributes, engine,
                                   NULL);
    dnnl_primitive_attr_destroy(attributes);
    return s;
}

static bool is_reference(const_dnnl_primitive_desc_t description)
{
    const char *name = "";
    dnnl_primitive_desc_query(description, dnnl_query_impl_info_str, 0,
                              (void *)&name);
    return strncmp(name, "ref", 3) == 0;
}

static dnnl_status_t choose(Plan *p, const ParcMatmulSpec *spec,
                            dnnl_engine_t engine,
                            dnnl_primitive_desc_t *description)
{
    *p = plan_of(spec);
    dnnl_status_t s = describe(p, engine, description);
    if (p->batch > 1 && (s != dnnl_success || is_reference(*description))) {
        if (s == dnnl_success) {
            dnnl_primitive_desc_destroy(*description);
        }
        run_one_by_one(p);
        s = describe(p, engine, description);
    }
    return s;
}

static int64_t scratch_of(const_dnnl_primitive_desc_t description)
{
    const dnnl_memory_desc_t *m =
        dnnl_primitive_desc_query_md(description, dnnl_query_scratchpad_md, 0);
    return m ? (int64_t)dnnl_memory_desc_get_size(m) : 0;
}

int64_t parc_matmul_scratch(const ParcMatmulSpec *spec, int threads)
{
    dnnl_engine_t engine;
    dnnl_primitive_desc_t description;
    Plan p;
    int64_t bytes = 0;
    int before = omp_get_max_threads();
    if (dnnl_engine_create(&engine, dnnl_cpu, 0) != dnnl_success) {
        return 0;
    }
    omp_set_num_threads(threads);
    if (choose(&p, spec, engine, &description) == dnnl_success) {
        bytes = scratch_of(description);
        dnnl_primitive_desc_destroy(description);
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

/* oneDNN packs operands into aligned blocks that it takes from malloc at every
 * call. In glibc's heap an aligned block rarely fits where one of the same
 * size was freed, so that large ones would make the heap grow for hundreds of
 * steps: they are mapped. Small ones stay, trimming them would cost more. */
static void tame_malloc(void)
{
#ifdef __GLIBC__
    mallopt(M_MMAP_THRESHOLD, 2 << 20);
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
                                          rt->arena + spec->scratch));
    }
}

ParcMatmul *parc_matmul_new(ParcRt *rt, const ParcMatmulSpec *spec)
{
    ParcMatmul *mm = rt_allocate(sizeof *mm);
    Plan p;
    open_engine(rt, spec);
    mm->next = rt->matmuls;
    rt->matmuls = mm;
    check(rt, spec, choose(&p, spec, rt->engine, &mm->description));
    mm->swapped = p.swapped;
    mm->loops = p.loops;
    memcpy(mm->step, p.step, sizeof mm->step);
    mm->scratch_bytes = scratch_of(mm->description);
    if (mm->scratch_bytes > spec->scratch_bytes) {
        rt_fail(rt,
                "matmul '%s' needs %lld bytes of scratch on this machine; %lld "
                "were planned: build the program here",
                spec->name, (long long)mm->scratch_bytes,
                (long long)spec->scratch_bytes);
    }
    check(rt, spec, dnnl_primitive_create(&mm->primitive, mm->description));
    make_memories(rt, mm, spec);
    return mm;
}

void parc_matmul(ParcRt *rt, ParcMatmul *mm, const float *a, const float *b,
                 float *c)
{
    const float *src = mm->swapped ? b : a, *weights = mm->swapped ? a : b;
    for (int64_t i = 0; i < mm->loops; i++) {
        /* oneDNN's handles are not const; sources are only read. */
        dnnl_memory_set_data_handle(
            mm->memory[SRC], (void *)(uintptr_t)(src + i * mm->step[SRC]));
        dnnl_memory_set_data_handle(
            mm->memory[WEIGHTS],
            (void *)(uintptr_t)(weights + i * mm->step[WEIGHTS]));
        dnnl_memory_set_data_handle(mm->memory[DST], c + i * mm->step[DST]);
        dnnl_status_t s = dnnl_primitive_execute(mm->primitive, rt->stream,
                                                 NMEMORIES, mm->argument);
        if (s != dnnl_success) {
            rt_fail(rt, "oneDNN failed in a matmul: status %d", (int)s);
        }
    }
    dnnl_stream_wait(rt->stream);
}

void rt_matmul_close(ParcRt *rt)
{
    while (rt->matmuls) {
        ParcMatmul *mm = rt->matmuls;
        rt->matmuls = mm->next;
        for (int i = 0; i < NMEMORIES; i++) {
            dnnl_memory_destroy(mm->memory[i]);
        }
        dnnl_primitive_destroy(mm->primitive);
        dnnl_primitive_desc_destroy(mm->description);
        free(mm);
    }
    if (rt->engine) {
        dnnl_stream_destroy(rt->stream);
        dnnl_engine_destroy(rt->engine);
        rt->engine = NULL;
    }
}
