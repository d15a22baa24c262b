/* runtime_views.c: checks reads and writes of tensors whose layout in a file is
 * not that of the parameter (checkpoint/file_layout.c), for random permutations
 * of random factors, against the definition of ParcFileTensor. */
#include <stdlib.h>
#include <string.h>

#include "runtime/checkpoint/safetensors.h"
#include "runtime/common/type.h"
#include "tests/unit/check.h"
#include "tests/unit/random.h"

enum { CASES = 400, READS = 20, MOST = 1 << 13 };

/* A random layout: factors in a random order, in a tensor with elements before
 * and after them. Returns the number of elements of the parameter. */
static int64_t draw_view(Rng *r, ParcFileTensor *v, int64_t *tensor)
{
    int order[5];
    int64_t elements = 1, stride;
    *v = (ParcFileTensor){.n = 1 + (int)rng_below(r, 5)};
    for (int i = 0; i < v->n; i++) {
        v->size[i] = 1 + rng_below(r, i == 0 ? 40 : 6);
        elements *= v->size[i];
        order[i] = i;
    }
    for (int i = v->n - 1; i > 0; i--) {
        int k = (int)rng_below(r, i + 1), was = order[i];
        order[i] = order[k];
        order[k] = was;
    }
    stride = 1;
    for (int i = v->n - 1; i >= 0; i--) {
        v->stride[order[i]] = stride;
        stride *= v->size[order[i]];
        /* The outermost dim may be a part of a longer one. */
        stride *= 1 + rng_below(r, 2);
    }
    v->first = rng_below(r, 9);
    *tensor = v->first + stride;
    return elements;
}

static int64_t place_of(const ParcFileTensor *v, int64_t element)
{
    int64_t at = v->first;
    for (int i = v->n - 1; i >= 0; i--) {
        at += element % v->size[i] * v->stride[i];
        element /= v->size[i];
    }
    return at;
}

static void one_type(Check *c, Rng *r, const ParcFileTensor *v, int64_t n,
                     int64_t tensor, ParcType type)
{
    static unsigned char data[8 * MOST * 4 + 1];
    static float value[8 * MOST], to[MOST];
    int64_t width = rt_type_size(type);
    RtTensorFile file = {.map = data};
    RtTensor t = {
        .file = &file, .type = (int)type, .begin = 1}; /* not aligned */
    for (int64_t i = 0; i < tensor; i++) {
        unsigned char bits[4];
        value[i] = (float)(i % 2048); /* exact in f16 */
        value[i] = type == PARC_BF16 ? (float)(i % 256) : value[i];
        rt_narrow(type, bits, &value[i], 1);
        memcpy(data + 1 + i * width, bits, (size_t)width);
    }
    int wrong = 0;
    for (int k = 0; k < READS; k++) {
        int64_t from = rng_below(r, n);
        int64_t some = 1 + rng_below(r, (n - from));
        rt_view_read(to, &t, v, k ? from : 0, k ? some : n);
        for (int64_t i = 0; i < (k ? some : n); i++)
            wrong += to[i] != value[place_of(v, (k ? from : 0) + i)];
    }
    CHECK(c, wrong == 0);
}

static void one_write(Check *c, const ParcFileTensor *v, int64_t n,
                      int64_t tensor)
{
    static float layer[MOST], out[8 * MOST], wanted[8 * MOST];
    memset(out, 0, sizeof out);
    memset(wanted, 0, sizeof wanted);
    for (int64_t i = 0; i < n; i++) {
        layer[i] = (float)(i + 1);
        wanted[place_of(v, i)] = layer[i];
    }
    rt_view_write(out, v, layer, n);
    CHECK(c, memcmp(out, wanted, (size_t)tensor * sizeof out[0]) == 0);
}

int main(void)
{
    static const ParcType types[] = {PARC_F32, PARC_BF16, PARC_F16};
    Check c = {0};
    Rng r = {7};
    for (int i = 0; i < CASES;) {
        ParcFileTensor v;
        int64_t tensor, n = draw_view(&r, &v, &tensor);
        if (n > MOST || tensor > 8 * MOST)
            continue;
        i++;
        for (int type = 0; type < 3; type++)
            one_type(&c, &r, &v, n, tensor, types[type]);
        one_write(&c, &v, n, tensor);
    }
    return check_end(&c);
}
