/* runtime_products.c: checks the runtime's own implementations of f32 products,
 * on vectors and on bf16 tiles, for all sizes and strides of the matrices: they
 * are as accurate as sums in f32, their bits do not depend on the number of
 * threads, and they write nothing else. Also checks 16-bit types and batches,
 * the limits of the range of tiles, and that a matmul of the runtime uses them.
 *
 * cpu: without AMX only vectors are checked */
#include <math.h>
#include <omp.h>
#include <stdlib.h>

#include "runtime/common/type.h"
#include "runtime/cpu/rt_matmul.h"
#include "tests/unit/runtime_tools.h"

enum { MARGIN = 24, FEW = 100 };

/* An implementation. `worst`: the bound of an error, in units of the sum of
 * magnitudes. `mean`: the bound of the root of their mean square, in units of
 * that of a simple sum in f32. */
typedef struct Way {
    const char *name;
    int64_t (*scratch)(const Plan *p, int threads);
    void (*product)(const Plan *p, const void *src, const void *weights,
                    void *dst, void *scratch, int threads);
    double worst, mean;
} Way;

static const Way vectors = {"vectors", rt_vector_scratch, rt_vector_product,
                            0x1p-20, 1.05};
static const Way tiles = {"tiles", rt_split_scratch, rt_split_product,
                          0x1p-21, 1};

typedef struct Sizes {
    int64_t m, n, k;
} Sizes;

/* A matrix, with unused floats between its lines and after it. */
typedef struct Matrix {
    View view;
    float *at;
    int64_t floats;
} Matrix;

static void *allocate(size_t bytes)
{
    void *p = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (!p) {
        perror("aligned_alloc");
        exit(1);
    }
    return p;
}

/* Numbers over 24 powers of two, so a row's sum has large and small terms. */
static float number(int seed, int64_t i)
{
    return ldexpf(value_of(seed, i), (int)(i * 7 % 24) - 12);
}

static Matrix matrix(int seed, int64_t rows, int64_t columns, bool turned,
                     int64_t gap)
{
    int64_t line = (turned ? rows : columns) + gap;
    int64_t n = line * (turned ? columns : rows) + MARGIN;
    Matrix x = {{rows, columns, {0, turned ? 1 : line, turned ? line : 1},
                 PARC_F32}, allocate((size_t)n * sizeof(float)), n};
    for (int64_t i = 0; i < n; i++)
        x.at[i] = number(seed, i);
    return x;
}

static double element(const Matrix *x, int64_t i, int64_t j)
{
    return (double)x->at[i * x->view.stride[1] + j * x->view.stride[2]];
}

typedef struct Errors {
    double worst, squares;
} Errors;

static void add_error(Errors *e, double error)
{
    e->worst = error > e->worst || error != error ? error : e->worst;
    e->squares += error * error;
}

/* Compares errors with those of a simple sum in f32: both against sums in
 * double, in units of the sum of magnitudes. An omitted partial product would
 * be an error of about 2^-17 divided by the root of k. */
static void exactness(Check *c, const Matrix *a, const Matrix *b,
                      const Matrix *result, const Way *way, const char *what)
{
    int64_t m = a->view.rows, n = b->view.columns, k = a->view.columns;
    int64_t count = m * n, step = count > 4000 ? count / 4000 : 1;
    Errors is = {0}, plain = {0};
    for (int64_t x = 0; x < count; x += step) {
        double sum = 0, size = 0;
        float in_f32 = 0;
        for (int64_t p = 0; p < k; p++) {
            double product = element(a, x / n, p) * element(b, p, x % n);
            sum += product;
            size += fabs(product);
            in_f32 += (float)product;
        }
        add_error(&is, fabs(element(result, x / n, x % n) - sum) / size);
        add_error(&plain, fabs((double)in_f32 - sum) / size);
    }
    /* The mean of a few numbers is not reliable. */
    double ratio = count < FEW ? 0 : sqrt(is.squares / plain.squares);
    if (!(is.worst <= way->worst && ratio < way->mean))
        printf("%s: off by %g, in the mean by %g of what f32 is\n", what,
               is.worst, ratio);
    CHECK(c, is.worst <= way->worst);
    CHECK(c, ratio < way->mean);
}

/* The floats between the lines and after the last one are unchanged. */
static bool is_whole(const Matrix *x, int seed)
{
    const int64_t *s = x->view.stride;
    for (int64_t i = 0; i < x->floats; i++) {
        bool inside = i / s[1] < x->view.rows && i % s[1] < x->view.columns;
        if (!inside && x->at[i] != number(seed, i))
            return false;
    }
    return true;
}

static void product(Check *c, const Way *way, Sizes s, bool a_turned,
                    bool b_turned, int64_t gap)
{
    char what[96];
    Matrix a = matrix(1, s.m, s.k, a_turned, gap);
    Matrix b = matrix(2, s.k, s.n, b_turned, gap * 2);
    Matrix first = {0};
    snprintf(what, sizeof what, "%s: %lld x %lld x %lld%s%s, gap %lld",
             way->name, (long long)s.m, (long long)s.n, (long long)s.k,
             a_turned ? ", a'" : "", b_turned ? ", b'" : "", (long long)gap);
    for (int threads = 1; threads <= 6; threads++) {
        Matrix to = matrix(3, s.m, s.n, false, gap);
        Plan p = {.view = {a.view, b.view, to.view}, .batch = 1, .loops = 1};
        size_t bytes = (size_t)way->scratch(&p, threads);
        char *scratch = allocate(bytes + 64);
        memset(scratch, 0xff, bytes + 64); /* NaN */
        way->product(&p, a.at, b.at,
                         to.at, scratch, threads);
        CHECK(c, is_whole(&to, 3));
        int untouched = 1;
        for (size_t i = bytes; i < bytes + 64; i++)
            untouched &= scratch[i] == (char)0xff;
        CHECK(c, untouched);
        if (threads == 1) {
            exactness(c, &a, &b, &to, way, what);
            first = to;
        } else {
            CHECK(c, memcmp(first.at, to.at,
                            (size_t)to.floats * sizeof(float)) == 0);
            free(to.at);
        }
        free(scratch);
    }
    free(first.at);
    free(b.at);
    free(a.at);
}

/* A NaN or infinity in a row or column gives NaN or infinity in the results of
 * that row or column, and in no others. */
static void no_numbers(Check *c, const Way *way)
{
    enum { M = 70, N = 50, K = 90, ROW = 40, COLUMN = 33 };
    Matrix a = matrix(1, M, K, false, 0), b = matrix(2, K, N, false, 0);
    Matrix to = matrix(3, M, N, false, 0);
    Plan p = {.view = {a.view, b.view, to.view}, .batch = 1, .loops = 1};
    void *scratch = allocate((size_t)way->scratch(&p, 1));
    a.at[ROW * K + 3] = NAN;
    b.at[80 * N + COLUMN] = INFINITY;
    way->product(&p, a.at, b.at, to.at,
                     scratch, 1);
    int good = 1;
    for (int i = 0; i < M * N; i++) {
        bool none = i / N == ROW || i % N == COLUMN;
        good &= none == !isfinite(to.at[i]);
    }
    CHECK(c, good);
    free(scratch);
    free(to.at);
    free(b.at);
    free(a.at);
}

/* Batches of products in 16 bits, of which some share an operand (stride 0): the
 * bits do not depend on the number of threads, and the numbers are those of sums
 * in double. */
static void typed(Check *c, ParcType type, Sizes s, int batch, bool shared)
{
    enum { THREADS = 5 };
    int64_t na = s.m * s.k, nb = s.k * s.n, nc = s.m * s.n;
    int64_t floats = batch * (na + nb + nc);
    float *from = allocate((size_t)floats * sizeof *from);
    for (int64_t i = 0; i < floats; i++)
        from[i] = value_of(5, i);
    char *a = allocate((size_t)(batch * na * 2)), *first = NULL;
    char *b = allocate((size_t)(batch * nb * 2));
    rt_narrow(type, a, from, batch * na);
    rt_narrow(type, b, from + batch * na, batch * nb);
    Plan p = {.view = {{s.m, s.k, {na, s.k, 1}, type},
                       {s.k, s.n, {shared ? 0 : nb, 1, s.k}, type},
                       {s.m, s.n, {nc, s.n, 1}, type}},
              .batch = batch, .loops = 1};
    for (int threads = 1; threads <= THREADS; threads++) {
        char *to = allocate((size_t)(batch * nc * 2));
        char *scratch = allocate((size_t)rt_vector_scratch(&p, threads));
        rt_vector_product(&p, a, b, to, scratch, threads);
        CHECK(c, !first || memcmp(first, to, (size_t)(batch * nc * 2)) == 0);
        free(scratch);
        free(first);
        first = to;
    }
    rt_widen(from + batch * (na + nb), type, first, batch * nc);
    rt_widen(from, type, a, batch * na);
    rt_widen(from + batch * na, type, b, batch * nb);
    double worst = 0;
    for (int64_t x = 0; x < batch * nc; x += 1 + batch * nc / 3000) {
        int64_t which = x / nc, i = x % nc / s.n, j = x % s.n;
        const float *of_a = from + which * na + i * s.k;
        const float *of_b = from + batch * na + (shared ? 0 : which * nb) +
                            j * s.k;
        double sum = 0, size = 0;
        for (int64_t k = 0; k < s.k; k++) {
            sum += (double)of_a[k] * (double)of_b[k];
            size += fabs((double)of_a[k] * (double)of_b[k]);
        }
        double error = fabs((double)from[batch * (na + nb) + x] - sum) / size;
        worst = error > worst || error != error ? error : worst;
    }
    CHECK(c, worst <= 0x1p-8);
    free(first);
    free(b);
    free(a);
    free(from);
}

/* x y by the tiles; all other elements of the matrices are zero. */
static float corner(float x, float y)
{
    enum { N = 32 };
    Matrix a = matrix(1, N, N, false, 0), b = matrix(2, N, N, false, 0);
    Matrix to = matrix(3, N, N, false, 0);
    Plan p = {.view = {a.view, b.view, to.view}, .batch = 1, .loops = 1};
    void *scratch = allocate((size_t)rt_split_scratch(&p, 1));
    memset(a.at, 0, (size_t)a.floats * sizeof(float));
    memset(b.at, 0, (size_t)b.floats * sizeof(float));
    a.at[0] = x;
    b.at[0] = y;
    rt_split_product(&p, a.at, b.at, to.at,
                     scratch, 1);
    float result = to.at[0];
    free(scratch);
    free(to.at);
    free(b.at);
    free(a.at);
    return result;
}

/* The ends of the range, as rt_split.h describes them. */
static void ends(Check *c)
{
    static const struct {
        int power;
        double error;
    } small[] = {{-100, 0x1p-23}, {-105, 0x1p-22}, {-118, 0x1p-8}};
    const float x = 1.2345679f, y = 1.1234567f;
    for (size_t i = 0; i < sizeof small / sizeof small[0]; i++) {
        double scale = ldexp(1, small[i].power);
        double exact = (double)x * y * scale, bound = small[i].error * exact;
        float tiny = ldexpf(x, small[i].power);
        float root = ldexpf(x, small[i].power / 2);
        float rest = ldexpf(y, small[i].power - small[i].power / 2);
        CHECK(c, fabs((double)corner(tiny, y) - exact) <= bound);
        CHECK(c, fabs((double)corner(y, tiny) - exact) <= bound);
        CHECK(c, fabs((double)corner(root, rest) - exact) <= bound);
    }
    CHECK(c, corner(0x1p-127f, 1) == 0);
    CHECK(c, fabs((double)corner(x * 0x1p126f, 0.5f) / 0x1p125 - (double)x) <
                 0x1p-22);
    CHECK(c, !isfinite(corner(INFINITY, 1)) && !isfinite(corner(1, -INFINITY)));
    CHECK(c, !isfinite(corner(0x1.ffp127f, 1)));
    CHECK(c, isfinite(corner(0x1.fdp127f, 1)));
    CHECK(c, !isfinite(corner(1.2345679e30f, 1.1234567e30f)));
}

/* A product by the runtime, with scratch planned for `planned` threads; 0
 * without tiles. */
static void by_runtime(ParcRt *rt, Check *c, int layout, int planned)
{
    enum { M = 300, N = 400, K = 500, BATCH = 2 };
    bool a_turned = layout & 1, b_turned = layout & 2, c_turned = layout & 4;
    int64_t batch = layout & 8 ? BATCH : 1;
    Matrix a = matrix(1, M * batch, K, false, 0);
    Matrix b = matrix(2, K, N, b_turned, 3);
    Matrix to = matrix(3, M * batch, N, false, 0);
    if (batch == 1) {
        free(a.at);
        free(to.at);
        a = matrix(1, M, K, a_turned, 0);
        to = matrix(3, M, N, c_turned, 0);
    }
    const int64_t *sa = a.view.stride, *sb = b.view.stride;
    const int64_t *sc = to.view.stride;
    ParcMatmulSpec s = {"split", batch, M, N, K, {M * K, sa[1], sa[2]},
                        {0, sb[1], sb[2]}, {M * N, sc[1], sc[2]}, 0, 0,
                        {PARC_F32, PARC_F32, PARC_F32}, 0, false};
    if (planned > 0)
        s.scratch_bytes = parc_matmul_scratch(&s, planned, PARC_CPU_NATIVE);
    CHECK(c, planned == 0 || s.scratch_bytes > 1 << 20);
    ParcMatmul *mm = parc_matmul_new(rt, &s);
    parc_matmul(rt, mm, a.at, b.at, to.at);
    exactness(c, &a, &b, &to, &tiles, "by the runtime");
    free(to.at);
    free(b.at);
    free(a.at);
}

static int in_runtime(ParcRt *rt, void *shared)
{
    Check c = {0};
    for (int layout = 0; layout < 8; layout++) {
        by_runtime(rt, &c, layout, 2);
        by_runtime(rt, &c, layout, 5);
    }
    by_runtime(rt, &c, 8, 2);
    by_runtime(rt, &c, 0, 0);
    shared_check_add(shared, &c);
    return 0;
}

/* Whole blocks, remainders on every side, matrices smaller than a tile. */
static const Sizes sizes[] = {
    {1, 1, 1},      {3, 2, 5},      {16, 16, 32},    {17, 33, 31},
    {32, 32, 32},   {64, 48, 96},   {100, 300, 77},  {129, 130, 131},
    {40, 1100, 70}, {300, 40, 600}, {1100, 600, 40}, {70, 70, 1700},
    {600, 530, 300},
};

static void all(Check *c, const Way *way)
{
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        for (int turned = 0; turned < 4; turned++) {
            product(c, way, sizes[i], turned & 1, turned & 2, 0);
            product(c, way, sizes[i], turned & 1, turned & 2, 5);
        }
    }
    no_numbers(c, way);
}

int main(void)
{
    Check c = {0};
    View v = {512, 512, {0, 512, 1}, PARC_F32};
    Plan p = {.view = {v, v, v}, .batch = 1, .loops = 1};
    all(&c, &vectors);
    typed(&c, PARC_BF16, (Sizes){1195, 751, 402}, 1, false);
    typed(&c, PARC_F16, (Sizes){530, 90, 800}, 3, true);
    typed(&c, PARC_BF16, (Sizes){7, 5, 3}, 9, false);
    if (!rt_split_takes(&p)) {
        printf("no tiles here: only vectors were checked\n");
        return check_end(&c);
    }
    all(&c, &tiles);
    ends(&c);
    static const int64_t one[] = {1};
    SharedCheck *shared = shared_check_new();
    ParcModel m = bare_model(1, one, 1 << 25);
    CHECK(&c, run_ranks(&m, 2, in_runtime, shared) == 0);
    c.passed += shared->passed;
    c.failed += shared->failed;
    return check_end(&c);
}
