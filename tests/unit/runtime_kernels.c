/* runtime_kernels.c: compares matmuls with all strides and element types that
 * plans use, embedding and topk with their gradients, and strided copies with
 * simple loops. */
#include <malloc.h>
#include <math.h>
#include <omp.h>

#include "runtime/common/message.h"
#include "runtime/common/type.h"
#include "runtime/rt.h"
#include "tests/unit/runtime_tools.h"

enum { ELEMENTS = 1 << 16 };

static float buffer[4][ELEMENTS];

static void fill(void)
{
    for (int b = 0; b < 4; b++) {
        for (int i = 0; i < ELEMENTS; i++)
            buffer[b][i] = value_of(b, i) * 0.25f;
    }
}

/* Converts `from` to an element type and rounds it to the same numbers. */
static void narrow(void *to, float *from, ParcType type)
{
    rt_narrow(type, to, from, ELEMENTS);
    rt_widen(from, type, to, ELEMENTS);
}

/* Half a unit in the last place of a number of this size. */
static double rounding(ParcType type, double x)
{
    double half = type == PARC_BF16 ? 0x1p-8 : type == PARC_F16 ? 0x1p-11 : 0;
    return fabs(x) * half;
}

/* Uses the scratch that is planned for `level`. For a named level the library
 * of this machine may request more. */
static void matmul(ParcRt *rt, Check *c, const ParcMatmulSpec *shape,
                   ParcTypes type, ParcCpuLevel level)
{
    enum { GUARD = 64, MARK = 0x5a };
    static float typed[3][ELEMENTS];
    ParcMatmulSpec s = *shape;
    s.type = type;
    fill();
    narrow(typed[0], buffer[0], type.a);
    narrow(typed[1], buffer[1], type.b);
    narrow(typed[2], buffer[2], type.c);
    float after = 0, before = 0;
    s.scratch_bytes = parc_matmul_scratch(&s, rt->threads, level);
    char *end = rt->arena + s.scratch_bytes;
    memset(end, MARK, GUARD);
    ParcMatmul *mm = parc_matmul_new(rt, &s);
    parc_matmul(rt, mm, typed[0], typed[1], typed[2]);
    parc_matmul(rt, mm, typed[0], typed[1], typed[2]);
    double worst = 0;
    int64_t written = 0;
    for (int64_t x = 0; x < s.batch * s.m * s.n; x++) {
        int64_t b = x / s.m / s.n, i = x / s.n % s.m, j = x % s.n;
        double sum = 0;
        for (int64_t k = 0; k < s.k; k++)
            sum += (double)buffer[0][b * s.sa[0] + i * s.sa[1] + k * s.sa[2]] *
                   (double)buffer[1][b * s.sb[0] + k * s.sb[1] + j * s.sb[2]];
        int64_t to = b * s.sc[0] + i * s.sc[1] + j * s.sc[2];
        rt_widen(&after, type.c, rt_element(type.c, typed[2], to), 1);
        double d = fabs((double)after - sum) - rounding(type.c, sum);
        worst = d > worst || d != d ? d : worst;
        written = to > written ? to : written;
    }
    if (worst > 3e-5)
        printf("matmul '%s' of types %d, %d -> %d at level %d: off by %g\n",
               s.name, type.a, type.b, type.c, (int)level, worst);
    int beyond = 0;
    for (int i = 0; i < GUARD; i++)
        beyond += end[i] != MARK;
    CHECK(c, beyond == 0);
    CHECK(c, worst <= 3e-5);
    rt_widen(&after, type.c, rt_element(type.c, typed[2], written + 1), 1);
    before = buffer[2][written + 1];
    CHECK(c, after == before);
}

/* The rest of a spec: no scratch, f32, no epilogue. */
#define REST 0, 0, {0}, 0, false

static size_t bytes_in_use_after(ParcRt *rt, ParcMatmul *mm, int calls)
{
    for (int i = 0; i < calls; i++)
        parc_matmul(rt, mm, buffer[0], buffer[1], buffer[2]);
    return mallinfo2().uordblks;
}

/* Memory use must not grow with the number of steps. Buffers that the library
 * keeps (in malloc's cache of a thread) are no leak, so only the second hundred
 * calls must allocate nothing. */
static void no_growth(ParcRt *rt, Check *c)
{
    ParcMatmulSpec spec = {"grow", 1, 64, 64, 64, {0, 64, 1},
                           {0, 1, 64}, {0, 64, 1}, REST};
    spec.scratch_bytes = parc_matmul_scratch(&spec, rt->threads, PARC_CPU_NATIVE);
    ParcMatmul *mm = parc_matmul_new(rt, &spec);
    size_t before = bytes_in_use_after(rt, mm, 100);
    CHECK(c, bytes_in_use_after(rt, mm, 100) <= before);
}

static void matmuls(ParcRt *rt, Check *c)
{
    const ParcMatmulSpec specs[] = {
        {"plain", 1, 5, 7, 9, {0, 9, 1}, {0, 7, 1}, {0, 7, 1}, REST},
        {"a'", 1, 5, 7, 9, {0, 1, 5}, {0, 7, 1}, {0, 7, 1}, REST},
        {"b'", 1, 5, 7, 9, {0, 9, 1}, {0, 1, 9}, {0, 7, 1}, REST},
        {"a' b'", 1, 5, 7, 9, {0, 1, 5}, {0, 1, 9}, {0, 7, 1}, REST},
        {"c'", 1, 5, 7, 9, {0, 9, 1}, {0, 7, 1}, {0, 1, 5}, REST},
        {"a' c'", 1, 5, 7, 9, {0, 1, 5}, {0, 7, 1}, {0, 1, 5}, REST},
        {"padded", 1, 5, 7, 9, {0, 32, 1}, {0, 16, 1}, {0, 24, 1}, REST},
        {"batch", 4, 5, 7, 9, {45, 9, 1}, {63, 7, 1}, {35, 7, 1}, REST},
        {"heads", 4, 6, 6, 8, {8, 32, 1}, {8, 1, 32}, {36, 6, 1}, REST},
        {"to heads", 4, 6, 8, 6, {36, 6, 1}, {8, 32, 1}, {8, 32, 1}, REST},
        {"batch c'", 3, 5, 7, 9, {45, 9, 1}, {63, 7, 1}, {35, 1, 5}, REST},
        {"shared b", 3, 5, 7, 9, {45, 9, 1}, {0, 7, 1}, {35, 7, 1}, REST},
        {"row", 1, 1, 7, 9, {0, 9, 1}, {0, 7, 1}, {0, 7, 1}, REST},
        {"column", 1, 5, 1, 9, {0, 9, 1}, {0, 1, 1}, {0, 1, 1}, REST},
        {"column of many", 1, 5, 1, 9, {0, 9, 1}, {0, 4, 1}, {0, 3, 1}, REST},
        {"outer", 1, 5, 7, 1, {0, 1, 1}, {0, 7, 1}, {0, 7, 1}, REST},
        {"dot", 1, 1, 1, 9, {0, 9, 1}, {0, 1, 1}, {0, 1, 1}, REST},
        {"large", 1, 97, 130, 65, {0, 65, 1}, {0, 1, 65}, {0, 130, 1}, REST},
    };
    static const ParcTypes types[] = {
        {PARC_F32, PARC_F32, PARC_F32},    {PARC_BF16, PARC_BF16, PARC_BF16},
        {PARC_BF16, PARC_BF16, PARC_F32},  {PARC_F16, PARC_F16, PARC_F16},
        {PARC_F16, PARC_F16, PARC_F32},    {PARC_BF16, PARC_F32, PARC_BF16},
        {PARC_F32, PARC_F32, PARC_F16},
    };
    for (size_t i = 0; i < sizeof specs / sizeof specs[0]; i++) {
        for (size_t t = 0; t < sizeof types / sizeof types[0]; t++) {
            for (int level = 0; level <= PARC_CPU_AARCH64; level++)
                matmul(rt, c, &specs[i], types[t], (ParcCpuLevel)level);
        }
    }
}

static void embedding(ParcRt *rt, Check *c, ParcType type, int64_t n,
                      int64_t rows, int64_t width, int64_t base)
{
    static float in[ELEMENTS], out[ELEMENTS];
    int32_t *ids = rt_allocate((size_t)n * sizeof *ids);
    float *expected = buffer[3];
    int good = 1;
    fill();
    narrow(in, buffer[0], type);
    for (int64_t i = 0; i < n; i++)
        ids[i] = (int32_t)((i * i + 3 * i) % (2 * rows));
    parc_embedding(rt, type, out, in, ids, n, rows, width, &base);
    rt_widen(buffer[1], type, out, n * width);
    for (int64_t i = 0; i < n * width; i++) {
        int64_t row = ids[i / width] - base;
        good &= buffer[1][i] == (row >= 0 && row < rows
                                     ? buffer[0][row * width + i % width]
                                     : 0);
    }
    CHECK(c, good);
    memset(expected, 0, (size_t)(rows * width) * sizeof *expected);
    for (int64_t i = 0; i < n * width; i++) {
        int64_t row = ids[i / width] - base;
        if (row >= 0 && row < rows)
            expected[row * width + i % width] += buffer[0][i];
    }
    parc_embedding_grad(rt, type, buffer[2], in, ids, n, rows, width, &base);
    CHECK(c, memcmp(buffer[2], expected,
                    (size_t)(rows * width) * sizeof(float)) == 0);
    /* Adds to the existing contents: each id once more. */
    for (int64_t i = 0; i < n * width; i++) {
        int64_t row = ids[i / width] - base;
        if (row >= 0 && row < rows)
            expected[row * width + i % width] += buffer[0][i];
    }
    parc_embedding_add(rt, type, buffer[2], in, ids, n, rows, width, &base);
    CHECK(c, memcmp(buffer[2], expected,
                    (size_t)(rows * width) * sizeof(float)) == 0);
    free(ids);
}

/* Rows with equal elements, NaN and -0: each index occurs once, and each element is before the
 * next one in the order, or equal to it and to its left. */
static void topk(ParcRt *rt, Check *c, ParcType type, int64_t rows, int64_t width, int64_t n,
                 bool largest)
{
    static float in[ELEMENTS], out[ELEMENTS], grad[ELEMENTS];
    enum { GUARD = 64, MARK = 0x5a };
    int32_t *ids = rt_allocate((size_t)(rows * n) * sizeof *ids);
    int64_t scratch = parc_topk_scratch(width, n, rt->threads), chosen = 0;
    char *end = rt->arena + scratch;
    int good = 1;
    fill();
    for (int64_t i = 0; i < rows * width; i++)
        buffer[0][i] = i % 11 == 3 ? NAN : i % 7 == 2 ? -0.0f : floorf(buffer[0][i] * 40) / 8;
    narrow(in, buffer[0], type);
    memset(end, MARK, GUARD);
    parc_topk(rt, type, out, ids, in, rows, width, n, largest, rt->arena);
    for (int i = 0; i < GUARD; i++)
        good &= end[i] == MARK;
    rt_widen(buffer[1], type, out, rows * n);
    for (int64_t row = 0; row < rows; row++)
        for (int64_t i = 0; i < width; i++) {
            float x = buffer[0][row * width + i];
            int64_t before = 0, found = -1;
            for (int64_t j = 0; j < width; j++) {
                float y = buffer[0][row * width + j];
                bool more = isnan(y) ? !isnan(x) : y > x, less = isnan(x) ? !isnan(y) : y < x;
                before += (largest ? more : less) || (!more && !less && j < i);
            }
            for (int64_t j = 0; j < n; j++)
                if (ids[row * n + j] == i)
                    found = j;
            good &= found == (before < n ? before : -1);
            chosen += found >= 0;
            good &= found < 0 || !memcmp(&x, &buffer[1][row * n + found], sizeof x) || isnan(x);
        }
    CHECK(c, good && chosen == rows * n);
    parc_topk_grad(rt, type, grad, out, ids, rows, width, n);
    rt_widen(buffer[2], type, grad, rows * width);
    for (int64_t i = 0; i < rows * n; i++) {
        float *at = &buffer[2][i / n * width + ids[i]];
        good &= !memcmp(at, &buffer[1][i], sizeof *at) || isnan(*at);
        *at = 0;
    }
    for (int64_t i = 0; i < rows * width; i++)
        good &= buffer[2][i] == 0;
    CHECK(c, good);
    free(ids);
}

/* Copies elements of 2, 4 and 8 bytes. */
static void copy(ParcRt *rt, Check *c, ParcType type, int n,
                 const int64_t *dim, const int64_t *stride)
{
    const char *src = (const char *)buffer[0], *dst = (const char *)buffer[1];
    size_t size = (size_t)rt_type_size(type);
    int64_t elements = 1;
    int good = 1;
    fill();
    for (int d = 0; d < n; d++)
        elements *= dim[d];
    char following[8];
    memcpy(following, dst + (size_t)elements * size, size);
    parc_copy(rt, type, buffer[1], buffer[0], n, dim, stride);
    for (int64_t i = 0; i < elements; i++) {
        int64_t rest = i, from = 0;
        for (int d = n - 1; d >= 0; d--) {
            from += rest % dim[d] * stride[d];
            rest /= dim[d];
        }
        good &= !memcmp(dst + (size_t)i * size, src + (size_t)from * size,
                        size);
    }
    CHECK(c, good);
    CHECK(c, !memcmp(following, dst + (size_t)elements * size, size));
}

static void copies(ParcRt *rt, Check *c)
{
    static const struct {
        int n;
        int64_t dim[4], stride[4];
    } cases[] = {
        {0, {0}, {0}},
        {1, {17}, {1}},
        {1, {17}, {3}},
        {2, {33, 70}, {1, 33}},          /* transposed */
        {2, {5, 7}, {20, 1}},            /* a slice */
        {2, {1, 1}, {9, 9}},
        {3, {4, 5, 6}, {30, 6, 1}},      /* all of it */
        {3, {5, 4, 6}, {6, 30, 1}},      /* outer dims swapped */
        {3, {4, 6, 50}, {300, 1, 6}},    /* inner dims swapped */
        {3, {6, 4, 50}, {1, 300, 6}},
        {4, {2, 3, 5, 8}, {120, 8, 24, 1}}, /* heads */
        {4, {3, 1, 40, 40}, {1, 7, 3, 120}},
        {2, {6, 5}, {0, 1}},             /* repeated rows */
        {2, {200, 200}, {1, 200}},
        {1, {50000}, {1}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        copy(rt, c, PARC_F32, cases[i].n, cases[i].dim, cases[i].stride);
        copy(rt, c, PARC_BF16, cases[i].n, cases[i].dim, cases[i].stride);
        if (cases[i].dim[0] < 200)
            copy(rt, c, PARC_I64, cases[i].n, cases[i].dim, cases[i].stride);
    }
    fill();
    parc_copy_rows(rt, PARC_F32, buffer[1], 7, buffer[0], 11, 3, 5);
    int good = 1;
    for (int i = 0; i < 15; i++)
        good &= buffer[1][i / 5 * 7 + i % 5] ==
                buffer[0][i / 5 * 11 + i % 5];
    CHECK(c, good);
    CHECK(c, buffer[1][5] == value_of(1, 5) * 0.25f);
    enum { SINGLE = ELEMENTS / 3 }; /* rows of one element, from a distance and to one */
    fill();
    good = 1;
    parc_copy_rows(rt, PARC_F32, buffer[1], 1, buffer[0], 3, SINGLE, 1);
    parc_copy_rows(rt, PARC_F32, buffer[2], 2, buffer[0], 1, SINGLE, 1);
    for (int i = 0; i < SINGLE; i++)
        good &= buffer[1][i] == buffer[0][3 * i] && buffer[2][2 * i] == buffer[0][i];
    CHECK(c, good);
    CHECK(c, buffer[2][2 * SINGLE - 1] != buffer[0][SINGLE]);
}

static int kernels(ParcRt *rt, void *context)
{
    Check c = {0};
    matmuls(rt, &c);
    no_growth(rt, &c);
    embedding(rt, &c, PARC_F32, 50, 20, 33, 0);
    embedding(rt, &c, PARC_F32, 50, 20, 33, 20);
    embedding(rt, &c, PARC_BF16, 50, 20, 33, 20);
    embedding(rt, &c, PARC_F16, 20, 20, 600, 3);
    embedding(rt, &c, PARC_F32, 400, 13, 128, 13);
    for (ParcType type = PARC_F32; type <= PARC_F16; type++) {
        topk(rt, &c, type, 1, 1, 1, true);
        topk(rt, &c, type, 9, 63, 5, false);
        topk(rt, &c, type, 5, 600, 30, true);
        topk(rt, &c, type, 3, 700, 700, true);
        topk(rt, &c, type, 40, 100, 50, false);
    }
    copies(rt, &c);
    shared_check_add(context, &c);
    return 0;
}

int main(void)
{
    static const int64_t one[] = {1};
    SharedCheck *shared = shared_check_new();
    ParcModel m = bare_model(1, one, 1 << 20);
    Check c = {0};
    CHECK(&c, run_ranks(&m, 1, kernels, shared) == 0);
    CHECK(&c, run_ranks(&m, 2, kernels, shared) == 0);
    c.passed += shared->passed;
    c.failed += shared->failed;
    return check_end(&c);
}
