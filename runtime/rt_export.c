/* rt_export.c: --export: the weights in one safetensors file, in f32.
 *
 * One rank writes, straight out of the arenas of all: layer by layer it puts
 * the shards of those ranks that own them together in a buffer of one layer
 * and appends it. The file appears under its name when it is complete and on
 * the disk, or not at all; a device or pipe is written where it is.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "rt.h"

/* Where the file really is: a link stays a link. */
static char *resolve(const char *path)
{
    char *real = realpath(path, NULL);
    if (!real) {
        size_t n = strlen(path) + 1;
        real = rt_allocate(n);
        memcpy(real, path, n);
    }
    return real;
}

char *rt_export_probe(const char *path, const char *program)
{
    char *real = resolve(path);
    size_t room = strlen(real) + 32;
    char *temporary = rt_allocate(room);
    struct stat st;
    int error = 0;
    snprintf(temporary, room, "%s.%ld.tmp", real, (long)getpid());
    free(real);
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode)) {
        temporary[0] = 0;
        error = S_ISDIR(st.st_mode)        ? EISDIR
                : access(path, W_OK) != 0 ? errno
                                          : 0;
    } else {
        int file = open(temporary, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
        error = file < 0 ? errno : 0;
        if (file >= 0) {
            close(file);
            unlink(temporary);
        }
    }
    if (error) {
        rt_error(program, "cannot write '%s': %s", path, strerror(error));
        free(temporary);
        return NULL;
    }
    return temporary;
}

/* The first error stays in `error`; what follows is not tried. */
typedef struct Writer {
    int file;
    int error;
} Writer;

static void put(Writer *w, const void *data, size_t n)
{
    const char *p = data;
    while (n > 0 && !w->error) {
        ssize_t did = write(w->file, p, n);
        if (did < 0 && errno == EINTR) {
            continue;
        }
        if (did <= 0) {
            w->error = did < 0 ? errno : ENOSPC;
            return;
        }
        p += did;
        n -= (size_t)did;
    }
}

static void put_header(Writer *w, const char *text, size_t n)
{
    unsigned char length[8];
    size_t padded = (n + 7) / 8 * 8; /* so that the data is aligned */
    for (int i = 0; i < 8; i++) {
        length[i] = (unsigned char)((uint64_t)padded >> (8 * i));
    }
    put(w, length, sizeof length);
    put(w, text, n);
    put(w, "       ", padded - n);
}

/* Names have no character that JSON would escape. */
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

static void write_header(Writer *w, const ParcModel *m)
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

/* One layer out of all ranks' arenas. */
static void assemble(const ParcRt *rt, const ParcParam *p, int64_t layer,
                     float *to)
{
    for (int r = 0; r < rt->nranks; r++) {
        RtShard s;
        rt_shard(&s, rt->model, r, p);
        if (!s.owner) {
            continue;
        }
        const void *arena = rt_peer(rt, r) + p->offset;
        const float *from = (const float *)arena + layer * s.run;
        int64_t global, n;
        for (int64_t at = 0; (n = rt_shard_run(&s, at, &global)) > 0; at += n) {
            memcpy(to + global, from + at, (size_t)n * sizeof *to);
        }
    }
}

static void write_data(Writer *w, const ParcRt *rt)
{
    for (int i = 0; i < rt->model->nparams; i++) {
        const ParcParam *p = &rt->model->param[i];
        size_t bytes = (size_t)rt_param_layer_elements(p) * sizeof(float);
        if (!rt_param_is_weight(p)) {
            continue;
        }
        float *layer = rt_allocate(bytes);
        for (int64_t l = 0; l < rt_param_layers(p) && !w->error; l++) {
            assemble(rt, p, l, layer);
            put(w, layer, bytes);
        }
        free(layer);
    }
}

const char *rt_export(ParcRt *rt, const char *path, const char *temporary)
{
    bool direct = !temporary[0];
    int flags = O_WRONLY | O_CLOEXEC | (direct ? 0 : O_CREAT | O_TRUNC);
    Writer w = {.file = open(direct ? path : temporary, flags, 0666)};
    if (w.file < 0) {
        return strerror(errno);
    }
    write_header(&w, rt->model);
    write_data(&w, rt);
    if (!w.error && fsync(w.file) != 0 && errno != EINVAL) {
        w.error = errno;
    }
    if (close(w.file) != 0 && !w.error) {
        w.error = errno;
    }
    if (!w.error && !direct) {
        char *real = resolve(path);
        w.error = rename(temporary, real) != 0 ? errno : 0;
        free(real);
    }
    return w.error ? strerror(w.error) : NULL;
}
