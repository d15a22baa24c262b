/* rt_params.c: names of parameters and their initial values.
 *
 * A value is drawn by (seed, name of the layer's own parameter, index in the
 * global tensor), so that neither the mesh nor the way layers are stacked
 * changes a model.
 */
#include <stdio.h>
#include <string.h>

#include "rt.h"

void rt_param_name(const char *name, const ParcParam *param, int64_t layer,
                   char text[RT_NAME])
{
    int64_t index[PARC_MAX_STACK];
    int star = 0;
    size_t n = 0;
    for (int i = param->nstack - 1; i >= 0; i--) {
        index[i] = layer % param->stack[i];
        layer /= param->stack[i];
    }
    for (; *name && n < RT_NAME - 24; name++) {
        if (*name == '*' && star < param->nstack) {
            n += (size_t)snprintf(text + n, RT_NAME - n, "%lld",
                                  (long long)index[star++]);
        } else {
            text[n++] = *name;
        }
    }
    text[n] = 0;
}

/* Elements [first, first+n) of the global layer. */
static void draw(float *to, const ParcParam *p, int64_t seed, uint32_t key,
                 int64_t first, int64_t n)
{
    switch (p->init) {
    case PARC_ZEROS:
        memset(to, 0, (size_t)n * sizeof *to);
        break;
    case PARC_ONES:
        for (int64_t i = 0; i < n; i++) {
            to[i] = 1;
        }
        break;
    case PARC_NORMAL:
        rt_random_normal(to, seed, RT_STREAM_INIT, key, first, n, p->a);
        break;
    case PARC_UNIFORM:
        rt_random_uniform(to, seed, RT_STREAM_INIT, key, first, n, p->a, p->b);
        break;
    case PARC_ARANGE:
        for (int64_t i = 0; i < n; i++) {
            to[i] = (float)(p->a + (double)(first + i));
        }
        break;
    }
}

/* Stored elements [from, to) of one layer; padding becomes zeros. */
static void draw_stored(float *layer, const RtShard *s, int64_t seed,
                        uint32_t key, int64_t from, int64_t to)
{
    while (from < to) {
        int64_t global, n = rt_shard_run(s, from, &global);
        if (n == 0) {
            memset(layer + from, 0, (size_t)(to - from) * sizeof *layer);
            return;
        }
        n = n < to - from ? n : to - from;
        draw(layer + from, s->param, seed, key, global, n);
        from += n;
    }
}

void rt_params_init(ParcRt *rt, int64_t seed)
{
    enum { CHUNK = 1 << 14 };
    for (int i = 0; i < rt->model->nparams; i++) {
        const ParcParam *p = &rt->model->param[i];
        if (p->offset < 0) {
            continue;
        }
        RtShard s;
        rt_shard(&s, rt->model, rt->rank, p);
        for (int64_t l = 0; l < s.layers; l++) {
            char name[RT_NAME];
            rt_param_name(p->name, p, l, name);
            uint32_t key = rt_hash(name);
            float *layer = rt_floats(rt, p->offset) + l * s.run;
#pragma omp parallel for schedule(static) if (s.run > CHUNK)
            for (int64_t at = 0; at < s.run; at += CHUNK) {
                int64_t end = at + CHUNK < s.run ? at + CHUNK : s.run;
                draw_stored(layer, &s, seed, key, at, end);
            }
        }
    }
}
