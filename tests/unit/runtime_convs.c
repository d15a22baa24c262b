/* runtime_convs.c: compares convolutions and their gradients with simple loops, for all types of
 * elements, kinds of kernels and amounts of scratch memory; they write nothing else, and repeat
 * the same bits.
 *
 * cpu: the machine's instructions decide which kernels oneDNN has */
#include <math.h>
#include <stdlib.h>

#include "runtime/common/type.h"
#include "runtime/parc_conv.h"
#include "tests/unit/runtime_tools.h"

enum { MOST = 1 << 18, GUARD = 64, MARK = 0x5a };
static const double TOLERANCE = 0x1p-20;
static float x[MOST], w[MOST], y[MOST];
static double sum[MOST], magnitude[MOST]; /* of the result; of its terms */

/* Calls `visit` for each triple of elements whose product a sum has, by their indices. */
typedef void Visit(ParcConvResult computes, int64_t of_x, int64_t of_w, int64_t of_y);

static void walk_kernel(const ParcConvSpec *s, int64_t b, int64_t out, int64_t in, int64_t of_y,
                        const int64_t at[2], Visit *visit)
{
    for (int64_t i = 0; i < s->kernel[0]; i++)
        for (int64_t j = 0; j < s->kernel[1]; j++) {
            int64_t r = at[0] * s->stride[0] + i * s->dilation[0] - s->padding[0];
            int64_t c = at[1] * s->stride[1] + j * s->dilation[1] - s->padding[1];
            int64_t channel = (b * s->g + out / s->k) * s->c + in;
            if (r >= 0 && r < s->image[0] && c >= 0 && c < s->image[1])
                visit(s->computes, (channel * s->image[0] + r) * s->image[1] + c,
                      ((out * s->c + in) * s->kernel[0] + i) * s->kernel[1] + j, of_y);
        }
}

static void walk(const ParcConvSpec *s, Visit *visit)
{
    int64_t of_y = 0, at[2];
    for (int64_t b = 0; b < s->n; b++)
        for (int64_t out = 0; out < s->g * s->k; out++)
            for (at[0] = 0; at[0] < s->result[0]; at[0]++)
                for (at[1] = 0; at[1] < s->result[1]; at[1]++, of_y++)
                    for (int64_t in = 0; in < s->c; in++)
                        walk_kernel(s, b, out, in, of_y, at, visit);
}

static void add(ParcConvResult computes, int64_t of_x, int64_t of_w, int64_t of_y)
{
    int64_t to = computes == PARC_CONV_Y ? of_y : computes == PARC_CONV_X ? of_x : of_w;
    double product = computes == PARC_CONV_Y   ? (double)x[of_x] * (double)w[of_w]
                     : computes == PARC_CONV_X ? (double)y[of_y] * (double)w[of_w]
                                               : (double)y[of_y] * (double)x[of_x];
    sum[to] += product;
    magnitude[to] += fabs(product);
}

/* Fills n elements with numbers that the type has. */
static void *fill(float *to, int64_t n, ParcType type, int seed)
{
    void *narrow = rt_allocate((size_t)(n * rt_type_size(type)));
    for (int64_t i = 0; i < n; i++)
        to[i] = value_of(seed, i);
    rt_narrow(type, narrow, to, n);
    rt_widen(to, type, narrow, n);
    return narrow;
}

/* The largest error, in units of the sum of magnitudes, beyond that of rounding to the type. */
static double error_of(ParcType type, const void *is, int64_t n)
{
    static const double ulp[] = {[PARC_F32] = 0x1p-24, [PARC_BF16] = 0x1p-8, [PARC_F16] = 0x1p-11};
    double worst = 0;
    for (int64_t i = 0; i < n; i++) {
        float got;
        rt_widen(&got, type, rt_element(type, is, i), 1);
        double e = fabs((double)got - sum[i]) - ulp[type] * fabs(sum[i]) - 1e-7;
        e /= magnitude[i] + 1e-9;
        worst = e > worst || e != e ? e : worst;
    }
    return worst;
}

/* `scratch`: the bytes of parc_conv_scratch, or none more than the bytes of conversions. */
static void compare(ParcRt *rt, Check *c, ParcConvSpec s, int64_t scratch)
{
    int64_t nx = s.n * s.g * s.c * s.image[0] * s.image[1];
    int64_t nw = s.g * s.k * s.c * s.kernel[0] * s.kernel[1];
    int64_t ny = s.n * s.g * s.k * s.result[0] * s.result[1], n[] = {ny, nx, nw};
    char *end = rt->arena + scratch;
    void *of[] = {fill(y, ny, s.type, 3), fill(x, nx, s.type, 1), fill(w, nw, s.type, 2)};
    const void *a = s.computes == PARC_CONV_Y ? of[1] : of[0];
    const void *b = s.computes == PARC_CONV_WEIGHT ? of[1] : of[2];
    size_t bytes = (size_t)(n[s.computes] * rt_type_size(s.out));
    char *out = rt_allocate(bytes + GUARD), *again = rt_allocate(bytes + GUARD);
    int beyond = 0;
    memset(out + bytes, MARK, GUARD);
    memset(end, MARK, GUARD);
    memset(sum, 0, sizeof sum);
    memset(magnitude, 0, sizeof magnitude);
    walk(&s, add);
    s.scratch_bytes = scratch;
    ParcConv *conv = parc_conv_new(rt, &s);
    parc_conv(rt, conv, a, b, out);
    parc_conv(rt, conv, a, b, again);
    for (int i = 0; i < GUARD; i++)
        beyond += end[i] != MARK || out[bytes + (size_t)i] != MARK;
    double worst = error_of(s.out, out, n[s.computes]);
    if (worst > TOLERANCE)
        printf("'%s' of type %d, result %d of type %d, with %lld bytes: off by %g\n", s.name,
               s.type, s.computes, s.out, (long long)scratch, worst);
    CHECK(c, worst <= TOLERANCE);
    CHECK(c, beyond == 0);
    CHECK(c, memcmp(out, again, bytes) == 0);
    for (int i = 0; i < 3; i++)
        free(of[i]);
    free(out);
    free(again);
}

/* What the reference kernel needs: the conversions of 16-bit types. */
static int64_t least(const ParcConvSpec *s)
{
    int64_t elements = s->n * s->g * (s->c * s->image[0] * s->image[1] +
                                      s->k * s->result[0] * s->result[1]) +
                       s->g * s->k * s->c * s->kernel[0] * s->kernel[1];
    return s->type == PARC_F32 && s->out == PARC_F32 ? 0 : 4 * elements + 3 * 64;
}

static void compare_all(ParcRt *rt, Check *c, ParcConvSpec s)
{
    static const struct {
        ParcType type, out;
    } types[] = {{PARC_F32, PARC_F32}, {PARC_BF16, PARC_BF16}, {PARC_BF16, PARC_F32},
                 {PARC_F16, PARC_F16}};
    for (int d = 0; d < 2; d++)
        s.result[d] = (s.image[d] + 2 * s.padding[d] - s.dilation[d] * (s.kernel[d] - 1) - 1) /
                          s.stride[d] + 1;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        for (int k = PARC_CONV_Y; k <= PARC_CONV_WEIGHT; k++) {
            s.computes = (ParcConvResult)k;
            s.type = types[i].type;
            s.out = types[i].out;
            compare(rt, c, s, parc_conv_scratch(&s, rt->threads, PARC_CPU_NATIVE));
            compare(rt, c, s, parc_conv_scratch(&s, rt->threads, PARC_CPU_X86_64_V3));
            compare(rt, c, s, least(&s));
        }
}

static int convs(ParcRt *rt, void *shared)
{
    Check c = {0};
    /* name, what is computed; n, g, c, k; image, kernel, result; stride, padding, dilation */
    static const ParcConvSpec specs[] = {
        {.name = "one element", .n = 1, .g = 1, .c = 1, .k = 1, .image = {1, 1}, .kernel = {1, 1},
         .stride = {1, 1}, .padding = {0, 0}, .dilation = {1, 1}},
        {.name = "first", .n = 2, .g = 1, .c = 3, .k = 20, .image = {17, 16}, .kernel = {7, 7},
         .stride = {2, 2}, .padding = {3, 3}, .dilation = {1, 1}},
        {.name = "blocks", .n = 3, .g = 1, .c = 32, .k = 16, .image = {8, 8}, .kernel = {3, 3},
         .stride = {1, 1}, .padding = {1, 1}, .dilation = {1, 1}},
        {.name = "odd", .n = 2, .g = 1, .c = 5, .k = 7, .image = {9, 6}, .kernel = {2, 3},
         .stride = {3, 1}, .padding = {0, 2}, .dilation = {2, 1}},
        {.name = "depthwise", .n = 2, .g = 24, .c = 1, .k = 1, .image = {9, 9}, .kernel = {7, 7},
         .stride = {1, 1}, .padding = {3, 3}, .dilation = {1, 1}},
        {.name = "depthwise row", .n = 2, .g = 32, .c = 1, .k = 1, .image = {1, 40},
         .kernel = {1, 4}, .stride = {1, 1}, .padding = {0, 3}, .dilation = {1, 1}},
        {.name = "groups", .n = 2, .g = 4, .c = 16, .k = 8, .image = {6, 5}, .kernel = {3, 3},
         .stride = {2, 1}, .padding = {1, 1}, .dilation = {1, 1}},
        {.name = "two results", .n = 2, .g = 3, .c = 1, .k = 2, .image = {5, 5}, .kernel = {2, 2},
         .stride = {2, 2}, .padding = {1, 1}, .dilation = {1, 2}},
        {.name = "wide padding", .n = 1, .g = 1, .c = 2, .k = 3, .image = {3, 2}, .kernel = {2, 2},
         .stride = {1, 1}, .padding = {4, 5}, .dilation = {1, 1}},
        {.name = "wider than the image", .n = 3, .g = 1, .c = 2, .k = 8, .image = {5, 2},
         .kernel = {2, 3}, .stride = {1, 3}, .padding = {1, 1}, .dilation = {1, 1}},
        {.name = "as wide as the image", .n = 1, .g = 1, .c = 33, .k = 8, .image = {8, 2},
         .kernel = {5, 2}, .stride = {1, 3}, .padding = {1, 1}, .dilation = {1, 1}},
        {.name = "two columns", .n = 1, .g = 1, .c = 5, .k = 17, .image = {4, 1},
         .kernel = {3, 5}, .stride = {4, 2}, .padding = {1, 3}, .dilation = {1, 1}},
        {.name = "rest", .n = 2, .g = 1, .c = 16, .k = 16, .image = {8, 9}, .kernel = {1, 1},
         .stride = {3, 2}, .padding = {0, 0}, .dilation = {1, 1}},
    };
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++)
        compare_all(rt, &c, specs[i]);
    shared_check_add(shared, &c);
    return 0;
}

int main(void)
{
    Check c = {0};
    static const int64_t one[] = {1};
    SharedCheck *shared = shared_check_new();
    ParcModel m = bare_model(1, one, 1 << 25);
    for (int threads = 1; threads <= 2; threads++)
        CHECK(&c, run_ranks(&m, threads, convs, shared) == 0);
    c.passed += shared->passed;
    c.failed += shared->failed;
    return check_end(&c);
}
