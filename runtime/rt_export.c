/* rt_export.c: writes the weights to one safetensors file, in f32 (--export).
 *
 * One rank writes the file. For each layer it assembles the shards of the
 * ranks that own them in a buffer of one layer, and appends that to the file.
 * It reads the arenas of other ranks in place, or requests their bytes over
 * the connections of a job.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rt.h"

static void put_header(RtOutput *w, const char *text, size_t n)
{
    unsigned char length[8];
    size_t padded = (n + 7) / 8 * 8; /* aligns the data */
    for (int i = 0; i < 8; i++) {
        length[i] = (unsigned char)((uint64_t)padded >> (8 * i));
    }
    rt_output_put(w, length, sizeof length);
    rt_output_put(w, text, n);
    rt_output_put(w, "       ", padded - n);
}

/* Names contain no characters that JSON escapes. */
static void describe(FILE *f, const ParcParam *p, int64_t layer,
                     int64_t *offset)
{
    char name[RT_NAME];
    int64_t bytes = rt_param_layer_elements(p) * (int64_t)sizeof(float);
    rt_param_name(p->name, p, layer, name);
    fprintf(f, ", \"%s\": {\"dtype\": \"F32\", \"shape\": [", name);
    for (int d = 0; d < p->ndim; d++) {
        fprintf(f, "%s%lld", d ? ", " : "", (long long)p->dim[d]);
    }
    fprintf(f, "], \"data_offsets\": [%lld, %lld]}", (long long)*offset,
            (long long)(*offset + bytes));
    *offset += bytes;
}

static void write_header(RtOutput *w, const ParcModel *m)
{
    char *text = NULL;
    size_t n = 0;
    int64_t offset = 0;
    FILE *f = open_memstream(&text, &n);
    if (!f) {
        w->error = errno;
        return;
    }
    fprintf(f,
            "{\"__metadata__\": {\"format\": \"pt\", \"parc\": \"%s\", "
            "\"model\": \"%s\"}",
            m->parc_version, m->name);
    for (int i = 0; i < m->nparams; i++) {
        const ParcParam *p = &m->param[i];
        for (int64_t l = 0; rt_param_is_weight(p) && l < rt_param_layers(p);
             l++) {
            describe(f, p, l, &offset);
        }
    }
    fprintf(f, "}");
    if (fclose(f) != 0) {
        w->error = errno;
    } else {
        put_header(w, text, n);
    }
    free(text);
}

/* Assembles one layer from the arenas of all ranks. */
static void assemble(ParcRt *rt, const ParcParam *p, int64_t layer, float *to,
                     RtRoom *room)
{
    for (int r = 0; r < rt->nranks; r++) {
        RtShard s;
        rt_shard(&s, rt->model, r, p);
        if (!s.owner) {
            continue;
        }
        const float *from = rt_shard_read(rt, r, &s, layer, room);
        int64_t global, n;
        for (int64_t at = 0; (n = rt_shard_run(&s, &at, &global)) > 0;
             at += n) {
            memcpy(to + global, from + at, (size_t)n * sizeof *to);
        }
    }
}

static void write_data(RtOutput *w, ParcRt *rt)
{
    RtRoom room = {0};
    for (int i = 0; i < rt->model->nparams; i++) {
        const ParcParam *p = &rt->model->param[i];
        size_t bytes = (size_t)rt_param_layer_elements(p) * sizeof(float);
        if (!rt_param_is_weight(p)) {
            continue;
        }
        float *layer = rt_allocate(bytes);
        for (int64_t l = 0; l < rt_param_layers(p) && !w->error; l++) {
            assemble(rt, p, l, layer, &room);
            rt_output_put(w, layer, bytes);
        }
        free(layer);
    }
    free(room.at);
}

const char *rt_export(ParcRt *rt, const char *path, const char *temporary)
{
    RtOutput w;
    rt_output_open(&w, path, temporary);
    if (!w.error) {
        write_header(&w, rt->model);
        write_data(&w, rt);
    }
    return rt_output_close(&w);
}
