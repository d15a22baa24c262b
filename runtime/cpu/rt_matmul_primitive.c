/* rt_matmul_primitive.c: chooses the oneDNN matmul kernel of a product.
 *
 * The first kernel that the library offers is not always the fastest. Fast
 * kernels require each operand to be contiguous along one of its last two
 * dims, and the result along its last dim.
 */
#include "cpu/rt_matmul_primitive.h"

#include <string.h>

static dnnl_data_type_t data_type(ParcType type)
{
    static const dnnl_data_type_t of[] = {[PARC_F32] = dnnl_f32,
                                          [PARC_BF16] = dnnl_bf16,
                                          [PARC_F16] = dnnl_f16};
    return of[type];
}

/* Whether the machine has the instructions and oneDNN may use them. */
static bool knows(unsigned isa)
{
    return ((unsigned)dnnl_get_effective_cpu_isa() & isa) == isa;
}

static bool is_bf16(const Plan *p)
{
    return p->view[SRC].type == PARC_BF16 && p->view[WEIGHTS].type == PARC_BF16;
}

double rt_primitive_speedup(const Plan *p)
{
    return !is_bf16(p)                            ? 1
           : knows(dnnl_cpu_isa_avx512_core_amx)  ? 16
           : knows(dnnl_cpu_isa_avx512_core_bf16) ? 2
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
#define PACKING "gemm:jit"
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

int64_t rt_description_scratch(const_dnnl_primitive_desc_t description)
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
    return rt_is_all_f32(p) ? knows(dnnl_cpu_isa_avx512_core)
                            : is_bf16(p) && knows(dnnl_cpu_isa_avx512_core_bf16);
}

/* Whether a kernel is fast. In f32 all but the reference are. */
static bool is_fast(const Plan *p, const char *name)
{
    return rt_is_all_f32(p) ? strncmp(name, "ref", 3) != 0
                            : strncmp(name, "brg", 3) == 0 ||
                                  (is_large(p) && strcmp(name, PACKING) == 0);
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
                                             data_type(v->type),
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
                rt_description_scratch(*description) <= capacity;
        if (!found)
            dnnl_primitive_desc_destroy(*description);
    } while (!found && dnnl_primitive_desc_iterator_next(it) == dnnl_success);
    dnnl_primitive_desc_iterator_destroy(it);
    return found;
}

static bool describe(const Plan *p, int64_t capacity, dnnl_engine_t engine,
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
                  first_kernel(p, PACKING, capacity, &matmul, attributes,
                               engine, description)) ||
                 first_kernel(p, NULL, capacity, &matmul, attributes, engine,
                              description);
    dnnl_primitive_attr_destroy(attributes);
    return found;
}

bool rt_describe(Plan *p, int64_t capacity, dnnl_engine_t engine,
                 dnnl_primitive_desc_t *description)
{
    Plan one = rt_plan_one_by_one(p);
    if (!has_kernels(p) || !is_countable(p))
        return false;
    if (describe(p, capacity, engine, description))
        return true;
    if (p->batch == 1 || !describe(&one, capacity, engine, description))
        return false;
    *p = one;
    return true;
}
