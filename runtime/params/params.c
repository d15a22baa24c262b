/* params.c: names parameters, sets their initial values and copies them to
 * and from the device.
 *
 * An initial value depends only on the seed, the name of the layer's own
 * parameter and the index in the global tensor. Neither the mesh nor the
 * stacking of layers changes a model.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/message.h"
#include "common/type.h"
#include "device.h"
#include "params/params.h"
#include "params/random.h"
#include "rt.h"

/* The layer number of index `index` of a stack. A segment of the name says
 * which layers are stacked: '*' for 0, 1, …, "2-6:2" for 2, 4, 6. *size: the
 * length of the segment; 0 if it does not name layers. */
static int64_t layer_number(const char *segment, int64_t index, size_t *size)
{
    char *end;
    long long first, step = 1;
    *size = *segment == '*';
    if (*segment < '0' || *segment > '9')
        return index;
    first = strtoll(segment, &end, 10);
    if (*end == '-')
        (void)strtoll(end + 1, &end, 10);
    if (*end == ':')
        step = strtoll(end + 1, &end, 10);
    *size = (size_t)(end - segment);
    return first + index * step;
}

/* The index of a layer in each stack dim. */
static void stack_indices(const ParcParam *p, int64_t layer,
                          int64_t index[PARC_MAX_STACK])
{
    for (int i = p->nstack - 1; i >= 0; i--) {
        index[i] = layer % p->stack[i];
        layer /= p->stack[i];
    }
}

/* The numbers in the name of a layer, one for each stack dim. */
static void layer_numbers(const ParcParam *param, int64_t layer,
                          int64_t number[PARC_MAX_STACK])
{
    int stack = 0;
    stack_indices(param, layer, number);
    for (const char *s = param->name; s && stack < param->nstack;) {
        size_t size;
        int64_t n = layer_number(s, number[stack], &size);
        if (size > 0)
            number[stack++] = n;
        s = strchr(s, '.');
        s = s ? s + 1 : NULL;
    }
}

void rt_param_name(const char *name, const ParcParam *param, int64_t layer,
                   char text[RT_NAME])
{
    int64_t index[PARC_MAX_STACK];
    int stack = 0;
    RtText t = {.at = text, .capacity = RT_NAME};
    text[0] = 0;
    stack_indices(param, layer, index);
    while (*name) {
        size_t n = strcspn(name, "."), size = 0;
        n += name[n] == '.';
        if (stack < param->nstack) {
            int64_t number = layer_number(name, index[stack], &size);
            if (size > 0)
                rt_add(&t, "%lld", (long long)number);
            stack += size > 0;
        }
        rt_add(&t, "%.*s", (int)(n - size), name + size);
        name += n;
    }
}

/* How the initial values of a layer are drawn. */
typedef struct Draw {
    ParcInitKind init;
    double a, b, c; /* of the layer */
    int64_t seed;
    uint32_t key;
} Draw;

/* A parameter with `depth` has one stack dim. */
static Draw draw_of(const ParcParam *p, int64_t seed, int64_t layer)
{
    char name[RT_NAME];
    int64_t number[PARC_MAX_STACK];
    double scale = 1;
    rt_param_name(p->name, p, layer, name);
    if (p->depth != 0) {
        layer_numbers(p, layer, number);
        scale = pow((double)number[0] + 1, p->depth);
    }
    return (Draw){p->init, p->a * scale, p->b * scale, p->c * scale, seed,
                  rt_hash(name)};
}

/* Initial values of elements [first, first+n) of the global layer. */
static void draw_initial(float *to, const Draw *d, int64_t first, int64_t n)
{
    switch (d->init) {
    case PARC_ZEROS:
    case PARC_COPY:
        break; /* rt_params_init handles them */
    case PARC_ONES:
        for (int64_t i = 0; i < n; i++)
            to[i] = 1;
        break;
    case PARC_NORMAL:
        rt_random_normal(to, d->seed, RT_STREAM_INIT, d->key, first, n, d->a);
        break;
    case PARC_TRUNCATED_NORMAL:
        rt_random_truncated(to, d->seed, RT_STREAM_INIT, d->key, first, n, d->a,
                            d->b, d->c);
        break;
    case PARC_UNIFORM:
        rt_random_uniform(to, d->seed, RT_STREAM_INIT, d->key, first, n, d->a,
                          d->b);
        break;
    case PARC_ARANGE:
        for (int64_t i = 0; i < n; i++)
            to[i] = (float)(d->a + (double)(first + i));
        break;
    }
}

/* Initial values of stored elements [from, to) of one layer; padding is 0. */
static void draw_stored(float *layer, const RtShard *s, const Draw *d,
                        int64_t from, int64_t to)
{
    while (from < to) {
        int64_t at = from, global, n = rt_shard_run(s, &at, &global);
        int64_t zeros = n == 0 || at > to ? to - from : at - from;
        memset(layer + from, 0, (size_t)zeros * sizeof *layer);
        from += zeros;
        n = n < to - from ? n : to - from;
        draw_initial(layer + from, d, global, n);
        from += n;
    }
}

/* Calls `hook` for the bytes of a rank's part of a parameter. If a layer's
 * buffer also has the runs of other ranks, only the rank's own run is
 * copied. */
static void move_part(ParcRt *rt, const RtShard *s,
                      void (*hook)(ParcRt *, int64_t, int64_t))
{
    int64_t width = rt_type_size(s->param->type), row = s->row * width;
    int64_t first = s->param->offset + s->inside * width;
    if (s->row == s->run) {
        if (s->stored > 0)
            hook(rt, first, s->stored * row);
        return;
    }
    for (int64_t i = 0; i < s->stored; i++)
        hook(rt, first + i * row, s->run * width);
}

static void make_copy(ParcRt *rt, const RtShard *s, const ParcParam *copy)
{
    enum { CHUNK = 1 << 16 };
    char *base = rt->arena + copy->offset;
    RtShard of;
    rt_shard(&of, rt->model, rt->rank, copy);
    for (int64_t l = -1; (l = rt_shard_next(s, l)) >= 0;) {
        const float *layer = rt_shard_layer(rt, rt->rank, s, l);
        int64_t row = rt_shard_index(&of, l) * of.row + of.inside;
#pragma omp parallel for schedule(static) if (s->run > CHUNK)
        for (int64_t at = 0; at < s->run; at += CHUNK) {
            int64_t n = at + CHUNK < s->run ? CHUNK : s->run - at;
            rt_narrow(copy->type,
                      rt_element_out(copy->type, base, row + at),
                      layer + at, n);
        }
    }
    move_part(rt, &of, rt_device_upload);
}

void rt_param_upload(ParcRt *rt, const RtShard *s)
{
    const ParcModel *m = rt->model;
    for (int i = 0; i < m->nparams; i++) {
        const ParcParam *copy = &m->param[i];
        if (copy->init == PARC_COPY && copy->offset >= 0 &&
            &m->param[copy->copy_of] == s->param)
            make_copy(rt, s, copy);
    }
    move_part(rt, s, rt_device_upload);
}

void rt_params_download(ParcRt *rt, bool states)
{
    for (int i = 0; i < rt->model->nparams; i++) {
        const ParcParam *p = &rt->model->param[i];
        if (p->offset >= 0 && (states || !p->state)) {
            RtShard s;
            rt_shard(&s, rt->model, rt->rank, p);
            move_part(rt, &s, rt_device_download);
        }
    }
}

float rt_param_value(const ParcParam *param, int64_t seed, int64_t layer,
                     int64_t element)
{
    const Draw draw = draw_of(param, seed, layer);
    float value = 0;
    draw_initial(&value, &draw, element, 1);
    return value;
}

void rt_params_init(ParcRt *rt, int64_t seed)
{
    enum { CHUNK = 1 << 14 };
    for (int i = 0; i < rt->model->nparams; i++) {
        const ParcParam *p = &rt->model->param[i];
        /* A new arena is filled with zeros. On the CPU the memory of optimizer
         * states is then allocated in the first step, near the threads that
         * access it. */
        if (p->offset < 0 || p->init == PARC_ZEROS || p->init == PARC_COPY)
            continue;
        RtShard s;
        rt_shard(&s, rt->model, rt->rank, p);
        for (int64_t l = -1; (l = rt_shard_next(&s, l)) >= 0;) {
            const Draw draw = draw_of(p, seed, l);
            float *layer = rt_shard_layer(rt, rt->rank, &s, l);
#pragma omp parallel for schedule(static) if (s.run > CHUNK)
            for (int64_t at = 0; at < s.run; at += CHUNK) {
                int64_t end = at + CHUNK < s.run ? at + CHUNK : s.run;
                draw_stored(layer, &s, &draw, at, end);
            }
        }
        rt_param_upload(rt, &s);
    }
}

bool rt_has_file_names(const ParcModel *m)
{
    for (int i = 0; i < m->nparams; i++)
        if (m->param[i].nfile > 0)
            return true;
    return false;
}

int64_t rt_file_parts(const ParcParam *p)
{
    return p->nfile > 0 && p->file[0].parts > 0 ? p->file[0].parts : 1;
}

void rt_file_name(const ParcFileTensor *f, const ParcParam *p, int64_t layer, int64_t part,
                  char text[RT_NAME])
{
    int64_t number[PARC_MAX_STACK];
    RtText t = {.at = text, .capacity = RT_NAME};
    text[0] = 0;
    layer_numbers(p, layer, number);
    const char *name = f->name;
    for (int i = 0; *name; i++) {
        size_t n = strcspn(name, "*");
        rt_add(&t, "%.*s", (int)n, name);
        name += n;
        if (*name) {
            int64_t element = f->stack[i] < 0 ? part : number[f->stack[i]];
            rt_add(&t, "%lld",
                   (long long)(element * f->scale[i] + f->offset[i]));
            name++;
        }
    }
}

void rt_layer_name(const ParcParam *p, int64_t layer, int64_t part, bool in_files,
                   char text[RT_NAME])
{
    if (in_files && p->nfile > 0)
        rt_file_name(&p->file[0], p, layer, part, text);
    else
        rt_param_name(p->name, p, layer, text);
}

const char *rt_without_prefix(const ParcModel *m, const char *name)
{
    size_t n = m->file_prefix ? strlen(m->file_prefix) : 0;
    return n > 0 && strncmp(name, m->file_prefix, n) == 0 ? name + n : NULL;
}
