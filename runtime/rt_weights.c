/* rt_weights.c: loads weights from a safetensors file (--init).
 *
 * The file is compared with the model before the ranks start: it must contain
 * each layer's parameter under its name or a name of a tied parameter, with
 * the same shape, in f32, bf16 or f16. Each rank then reads only what it
 * stores.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rt.h"

enum { ERROR_LIMIT = 5 };

static RtTensor *find(const RtWeights *w, const char *name)
{
    for (int i = 0; i < w->n; i++) {
        if (strcmp(w->tensor[i].name, name) == 0) {
            return &w->tensor[i];
        }
    }
    return NULL;
}

/* The tensor with the i-th name of the parameter: its own, then those of
 * ties. */
static RtTensor *tensor_called(const RtWeights *w, const ParcParam *p,
                               int64_t layer, int i)
{
    char name[RT_NAME];
    rt_param_name(i == 0 ? p->name : p->alias[i - 1], p, layer, name);
    return find(w, name);
}

/* The tensor with the first of the parameter's names that the file contains. */
static RtTensor *tensor_of(const RtWeights *w, const ParcParam *p,
                           int64_t layer)
{
    RtTensor *t = NULL;
    for (int i = 0; i <= p->nalias && !t; i++) {
        t = tensor_called(w, p, layer, i);
    }
    return t;
}

static const char *shape_text(int ndim, const int64_t *dim, char text[128])
{
    size_t n = (size_t)snprintf(text, 128, "[");
    for (int d = 0; d < ndim && n < 100; d++) {
        n += (size_t)snprintf(text + n, 128 - n, "%s%lld", d ? ", " : "",
                              (long long)dim[d]);
    }
    snprintf(text + n, 128 - n, "]");
    return text;
}

static void report_missing(const RtWeights *w, const char *name)
{
    const char **names = rt_allocate(((size_t)w->n + 1) * sizeof *names);
    for (int i = 0; i < w->n; i++) {
        names[i] = w->tensor[i].name;
    }
    const char *near = rt_near_miss(name, names, w->n);
    rt_say("%s: byte 8: error: the file has no tensor '%s'%s%s%s", w->path,
           name, near ? "; the nearest is '" : "", near ? near : "",
           near ? "'" : "");
    free(names);
}

static bool is_equal(const RtWeights *w, const RtTensor *a, const RtTensor *b)
{
    return a->ndim == b->ndim && a->dtype == b->dtype &&
           a->end - a->begin == b->end - b->begin &&
           memcmp(a->dim, b->dim, (size_t)a->ndim * sizeof a->dim[0]) == 0 &&
           memcmp(w->map + a->begin, w->map + b->begin,
                  (size_t)(a->end - a->begin)) == 0;
}

/* A file may contain a tied parameter under each of its names, as state_dict()
 * returns it; the copies must be equal. */
static bool check_ties(const RtWeights *w, const ParcParam *p, int64_t layer,
                       const RtTensor *t)
{
    for (int i = 0; i <= p->nalias; i++) {
        RtTensor *other = tensor_called(w, p, layer, i);
        if (!other || other == t) {
            continue;
        }
        other->used = true;
        if (!is_equal(w, t, other)) {
            rt_say("%s: byte %lld: error: '%s' is not equal to '%s', and the "
                   "model ties them: leave one out",
                   w->path, (long long)other->at, other->name, t->name);
            return false;
        }
    }
    return true;
}

static bool check_layer(const RtWeights *w, const ParcParam *p, int64_t layer)
{
    char name[RT_NAME], has[128], wants[128];
    RtTensor *t = tensor_of(w, p, layer);
    rt_param_name(p->name, p, layer, name);
    if (!t) {
        report_missing(w, name);
        return false;
    }
    t->used = true;
    bool same = t->ndim == p->ndim;
    for (int d = 0; same && d < p->ndim; d++) {
        same = t->dim[d] == p->dim[d];
    }
    if (!same) {
        rt_say("%s: byte %lld: error: '%s' is %s; the model's is %s", w->path,
               (long long)t->at, t->name, shape_text(t->ndim, t->dim, has),
               shape_text(p->ndim, p->dim, wants));
    } else if (t->dtype == RT_OTHER) {
        rt_say("%s: byte %lld: error: '%s' has dtype %s; F32, BF16 and F16 "
               "can be read",
               w->path, (long long)t->at, t->name, t->dtype_name);
        same = false;
    }
    return same && check_ties(w, p, layer, t);
}

static bool compare(const RtWeights *w, const ParcModel *model)
{
    int errors = 0, unused = 0;
    const char *first = NULL;
    for (int i = 0; i < model->nparams; i++) {
        const ParcParam *p = &model->param[i];
        for (int64_t l = 0; rt_param_is_weight(p) && l < rt_param_layers(p);
             l++) {
            errors += !check_layer(w, p, l);
            if (errors == ERROR_LIMIT) {
                return false;
            }
        }
    }
    for (int i = 0; i < w->n; i++) {
        if (!w->tensor[i].used) {
            first = unused++ ? first : w->tensor[i].name;
        }
    }
    if (unused && !errors) {
        rt_say("%s: note: %d tensor%s not in the model; the first is '%s'",
               w->path, unused, unused == 1 ? " is" : "s are", first);
    }
    return errors == 0;
}

bool rt_weights_open(RtWeights *w, const char *path, const ParcModel *model,
                     const char *program)
{
    int64_t at;
    memset(w, 0, sizeof *w);
    w->path = path;
    w->map = rt_input_map(path, &w->size, program);
    if (!w->map) {
        return false;
    }
    const char *error = rt_safetensors_header(w, &at);
    if (error) {
        rt_say("%s: byte %lld: error: %s", path, (long long)at, error);
        return false;
    }
    return compare(w, model);
}

void rt_weights_close(RtWeights *w)
{
    rt_safetensors_free(w);
    rt_input_unmap(w->map, w->size);
    w->map = NULL;
}

static float from_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* IEEE half: 1 sign bit, 5 exponent bits, 10 fraction bits. */
static float from_half(uint32_t half)
{
    uint32_t sign = (half & 0x8000u) << 16, rest = half & 0x7FFFu;
    if (rest >= 0x7C00u) { /* infinities, NaN */
        return from_bits(sign | 0x7F800000u | (rest & 0x3FFu) << 13);
    }
    if (rest < 0x400u) { /* subnormal */
        float value = (float)rest * 0x1p-24f;
        return sign ? -value : value;
    }
    return from_bits(sign | ((rest << 13) + ((127u - 15u) << 23)));
}

static void convert(float *to, const unsigned char *from, RtDtype dtype,
                    int64_t n)
{
    if (dtype == RT_F32) {
        memcpy(to, from, (size_t)n * sizeof *to);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        uint32_t x = (uint32_t)from[2 * i] | (uint32_t)from[2 * i + 1] << 8;
        to[i] = dtype == RT_BF16 ? from_bits(x << 16) : from_half(x);
    }
}

static int64_t width_of(const RtTensor *t)
{
    return t->dtype == RT_F32 ? 4 : 2;
}

float rt_weights_value(const RtWeights *w, const ParcParam *param,
                       int64_t layer, int64_t element)
{
    const RtTensor *t = tensor_of(w, param, layer);
    float value;
    convert(&value, w->map + t->begin + element * width_of(t), t->dtype, 1);
    return value;
}

void rt_weights_load(ParcRt *rt, const RtWeights *w)
{
    for (int i = 0; i < rt->model->nparams; i++) {
        const ParcParam *p = &rt->model->param[i];
        RtShard s;
        rt_shard(&s, rt->model, rt->rank, p);
        for (int64_t l = 0; rt_param_is_weight(p) && l < s.layers; l++) {
            const RtTensor *t = tensor_of(w, p, l);
            int64_t width = width_of(t), global, n;
            float *to = rt_shard_layer(rt, rt->rank, &s, l);
            for (int64_t at = 0; (n = rt_shard_run(&s, &at, &global)) > 0;
                 at += n) {
                convert(to + at, w->map + t->begin + global * width, t->dtype,
                        n);
            }
        }
        if (rt_param_is_weight(p)) {
            rt_param_upload(rt, &s);
        }
    }
}
