/* save_files.c: writes the pieces of one rank to safetensors files.
 *
 * A rank writes what it stores, without communication. Ranks that store the
 * same elements share the work. The pieces of a file are in the order of the
 * model, one after the other, so that the rank writes sequentially; the
 * checksum of a piece is computed while it is written. Large files are written
 * past the page cache where the file system can: copies to its pages would take
 * time and memory bandwidth from the steps, and displace the data of the run.
 *
 * requires  the memory has the state of a whole step
 * ensures   the files are on disk, and rank-….pieces lists their pieces
 *
 * example   a line of rank-00001.pieces, for the second rank of dp=2:
 *           7 {"file": "rank-00001.safetensors", "bytes": [4096, 6144],
 *              "offset": [8, 0], "extent": [8, 64], "crc32c": 305419896}
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "checkpoint/save.h"
#include "common/files.h"
#include "common/message.h"
#include "params/params.h"

/* STAGE: bytes that are collected for one write. NEAR: bytes that stay in the
 * cache from the copy to the checksum. FLUSH: the kernel is asked to begin
 * writing after this many bytes, so that the final sync is short. */
enum { STAGE = 4 << 20, NEAR = 256 << 10, FLUSH = 32 << 20, ALIGN = 4096 };

bool rt_param_is_saved(const ParcParam *p)
{
    return p->offset >= 0 && p->init != PARC_COPY;
}

void rt_piece_file(int rank, int file, char name[RT_SAVE_NAME])
{
    if (file == 0)
        snprintf(name, RT_SAVE_NAME, "rank-%05d.safetensors", rank);
    else
        snprintf(name, RT_SAVE_NAME, "rank-%05d-%d.safetensors", rank,
                 file + 1);
}

void rt_pieces_name(int rank, char name[RT_SAVE_NAME])
{
    snprintf(name, RT_SAVE_NAME, "rank-%05d.pieces", rank);
}

/* ---- the list of pieces -------------------------------------------------- */

/* Appends the pieces of elements begin … end-1 of a layer. *used: bytes of the
 * current file. */
static void add_range(RtPieces *p, const RtShard *s, const RtWritten *like,
                      RtRange range, int64_t limit, int64_t *used)
{
    RtBlock block;
    while (rt_block_next(s, &range.begin, range.end, &block)) {
        int64_t bytes = rt_block_elements(s, &block) * (int64_t)sizeof(float);
        if (*used > 0 && *used + bytes > limit) {
            p->files++;
            *used = 0;
        }
        p->at = rt_grow(p->at, p->n, &p->capacity, sizeof *p->at);
        RtWritten *piece = &p->at[p->n++];
        *piece = *like;
        piece->block = block;
        piece->file = p->files - 1;
        piece->begin = *used;
        piece->end = *used += bytes;
    }
}

void rt_pieces_list(RtPieces *p, const ParcModel *model, int rank,
                    int64_t limit)
{
    int64_t most = limit / (int64_t)sizeof(float), used = 0, tensor = 0;
    *p = (RtPieces){.rank = rank, .files = 1};
    for (int i = 0; i < model->nparams; i++) {
        const ParcParam *param = &model->param[i];
        RtShard s;
        if (!rt_param_is_saved(param))
            continue;
        rt_shard(&s, model, rank, param);
        for (int64_t l = 0; l < rt_param_layers(param); l++, tensor++) {
            if (rt_shard_index(&s, l) < 0)
                continue;
            RtWritten like = {.tensor = tensor, .param = i, .layer = l};
            RtRange all = rt_write_range(model, rank, &s, tensor);
            while (all.begin < all.end) {
                RtRange part = all;
                part.end = all.end - all.begin > most ? all.begin + most
                                                      : all.end;
                add_range(p, &s, &like, part, limit, &used);
                all.begin = part.end;
            }
        }
    }
}

void rt_pieces_free(RtPieces *p)
{
    free(p->at);
    *p = (RtPieces){0};
}

/* ---- files --------------------------------------------------------------- */

/* A file that is written from begin to end. Bytes that wait to be written are
 * in the stage, or still where they come from, if that is aligned memory. */
typedef struct Writer {
    RtOutput output;
    char *stage;
    const char *at;          /* the bytes that wait */
    size_t n;                /* their number */
    int64_t written, synced; /* bytes of the file */
    uint32_t crc;            /* of the current piece */
    bool direct; /* past the page cache: addresses and sizes are multiples of
                    ALIGN */
    const RtPace *pace; /* NULL: at full speed */
} Writer;

/* Not every file system has direct writes. */
static void set_direct(Writer *w, bool direct)
{
    int flags = fcntl(w->output.file, F_GETFL);
    w->direct = flags >= 0 &&
                fcntl(w->output.file, F_SETFL,
                      direct ? flags | O_DIRECT : flags & ~O_DIRECT) == 0 &&
                direct;
}

static void write_bytes(Writer *w, const char *p, size_t n)
{
    RtOutput *o = &w->output;
    rt_output_put(o, p, n);
    if (o->error == EINVAL && w->direct) {
        int64_t did = lseek(o->file, 0, SEEK_CUR) - w->written;
        set_direct(w, false);
        if (did >= 0 && did <= (int64_t)n) {
            o->error = 0;
            rt_output_put(o, p + did, n - (size_t)did);
        }
    }
    w->written += (int64_t)n;
    if (!w->direct && w->written - w->synced >= FLUSH && !o->error) {
        sync_file_range(o->file, w->synced, w->written - w->synced,
                        SYNC_FILE_RANGE_WRITE);
        w->synced = w->written;
    }
}

/* Beside steps, writes leave them most of the memory's bandwidth: waits if the
 * bytes took less than their time since `begin`. */
static void keep_pace(const RtPace *pace, double begin, int64_t bytes)
{
    enum { PER_SECOND = 512 << 20, NAP_MS = 2 };
    double due = begin + (double)bytes / PER_SECOND;
    while (pace && !atomic_load(&pace->hurry) && rt_now() < due)
        nanosleep(&(struct timespec){.tv_nsec = NAP_MS * 1000000}, NULL);
}

/* Writes what waits; the rest of a page only at the end of the file. */
static void write_waiting(Writer *w, bool end)
{
    size_t whole = w->direct ? w->n / ALIGN * ALIGN : w->n;
    double begin = rt_now();
    write_bytes(w, w->at, whole);
    keep_pace(w->pace, begin, (int64_t)whole);
    w->at += whole;
    w->n -= whole;
    if (end && w->n > 0) {
        set_direct(w, false);
        write_bytes(w, w->at, w->n);
        w->n = 0;
    }
}

/* Adds bytes to those that wait: in place if they follow them in memory. */
static void append_bytes(Writer *w, const char *p, size_t n)
{
    if (w->n == 0)
        w->at = (uintptr_t)p % ALIGN == 0 ? p : w->stage;
    if (w->at != w->stage && w->at + w->n != p) {
        memcpy(w->stage, w->at, w->n);
        w->at = w->stage;
    }
    if (w->at == w->stage)
        memcpy(w->stage + w->n, p, n);
    w->n += n;
}

static void put_bytes(Writer *w, const char *p, size_t left)
{
    while (left > 0 && !w->output.error) {
        size_t most = STAGE - w->n < NEAR ? STAGE - w->n : NEAR;
        size_t part = left < most ? left : most;
        w->crc = rt_crc32c(w->crc, p, part);
        append_bytes(w, p, part);
        p += part;
        left -= part;
        if (w->n == STAGE)
            write_waiting(w, false);
    }
}

static void put_run(void *context, const float *from, int64_t n)
{
    put_bytes(context, (const char *)from, (size_t)n * sizeof *from);
}

/* Adds a piece to the header of its file. One that is a part of its tensor is
 * named "wq.weight[8:16, 0:64]". */
static void add_piece(RtHeader *h, const RtWritten *p, const ParcParam *param)
{
    char name[RT_NAME + RT_SHAPE_TEXT];
    const RtBlock *b = &p->block;
    rt_param_name(param->name, param, p->layer, name);
    RtText t = {.at = name, .n = strlen(name), .capacity = sizeof name};
    if (!rt_same_shape(param->ndim, b->extent, param->ndim, param->dim)) {
        for (int d = 0; d < param->ndim; d++)
            rt_add(&t, "%s%lld:%lld", d ? ", " : "[", (long long)b->begin[d],
                   (long long)(b->begin[d] + b->extent[d]));
        rt_add(&t, "]");
    }
    rt_header_add(h, name, "F32", param->ndim, b->extent, p->begin, p->end);
}

/* The header of file `number`. Returns 0 or an errno. */
static int make_header(const RtPieces *p, const ParcModel *m, int number,
                       RtHeader *h)
{
    if (rt_header_begin(h)) {
        fprintf(h->f, "\"__metadata__\": {\"format\": \"parc-pieces\"}");
        for (int64_t i = 0; i < p->n; i++)
            if (p->at[i].file == number)
                add_piece(h, &p->at[i], &m->param[p->at[i].param]);
    }
    return rt_header_end(h, ALIGN);
}

static void write_pieces(Writer *w, RtPieces *p, const ParcModel *m, int number,
                         const char *memory, int64_t data)
{
    for (int64_t i = 0; i < p->n && !w->output.error; i++) {
        RtWritten *piece = &p->at[i];
        RtShard s;
        if (piece->file != number)
            continue;
        rt_shard(&s, m, p->rank, &m->param[piece->param]);
        const float *layer =
            (const float *)(const void *)(memory + s.param->offset) +
            rt_shard_index(&s, piece->layer) * s.row + s.inside;
        w->crc = 0;
        rt_block_runs(&s, &piece->block, layer, put_run, w);
        piece->crc = w->crc;
        piece->begin += data;
        piece->end += data;
    }
    write_waiting(w, true);
}

static int64_t data_bytes(const RtPieces *p, int number)
{
    int64_t n = 0;
    for (int64_t i = 0; i < p->n; i++)
        n = p->at[i].file == number ? p->at[i].end : n;
    return n;
}

/* Reserves the file's space: a disk that is full is noticed before the data is
 * written, and the file is contiguous. */
static void reserve(Writer *w, int64_t bytes)
{
    if (fallocate(w->output.file, 0, 0, bytes) != 0 && errno != EOPNOTSUPP &&
        errno != ENOSYS && errno != EINTR)
        w->output.error = errno;
}

static int write_piece_file(RtPieces *p, const ParcModel *m, int number,
                            const char *path, const char *memory, char *stage,
                            const RtPace *pace)
{
    Writer w = {.stage = stage, .pace = pace};
    RtHeader h;
    int error = make_header(p, m, number, &h);
    RT_OWNED char *header = h.text;
    if (error)
        return error;
    rt_output_create(&w.output, path);
    if (!w.output.error) {
        int64_t bytes = (int64_t)h.n + data_bytes(p, number);
        reserve(&w, bytes);
        set_direct(&w, bytes >= STAGE);
        put_bytes(&w, header, h.n);
        write_pieces(&w, p, m, number, memory, (int64_t)h.n);
    }
    return rt_output_end(&w.output, true);
}

static void print_piece(FILE *f, const RtPieces *p, const RtWritten *piece,
                        int ndim)
{
    char name[RT_SAVE_NAME], begin[RT_SHAPE_TEXT], extent[RT_SHAPE_TEXT];
    rt_piece_file(p->rank, piece->file, name);
    fprintf(f,
            "%lld {\"file\": \"%s\", \"bytes\": [%lld, %lld], "
            "\"offset\": %s, \"extent\": %s, \"crc32c\": %lu}\n",
            (long long)piece->tensor, name, (long long)piece->begin,
            (long long)piece->end,
            rt_shape_text(ndim, piece->block.begin, begin),
            rt_shape_text(ndim, piece->block.extent, extent),
            (unsigned long)piece->crc);
}

/* The list for rank 0. It is not synced: rank 0 reads it before the
 * checkpoint is complete. */
static int write_list(const RtPieces *p, const ParcModel *m,
                      const char *directory)
{
    char name[RT_SAVE_NAME];
    rt_pieces_name(p->rank, name);
    RT_OWNED char *path = rt_path_join(directory, name);
    RtOutput o;
    rt_output_create(&o, path);
    FILE *f = rt_output_stream(&o);
    for (int64_t i = 0; f && i < p->n; i++)
        print_piece(f, p, &p->at[i], m->param[p->at[i].param].ndim);
    if (f)
        fclose(f);
    return rt_output_end(&o, false);
}

int rt_pieces_write(RtPieces *p, const ParcModel *model, const char *directory,
                    const char *memory, const RtPace *pace)
{
    int error = 0;
    RT_OWNED void *stage = NULL;
    if (posix_memalign(&stage, RT_LARGE_PAGE, STAGE) != 0)
        return ENOMEM;
    madvise(stage, STAGE, MADV_HUGEPAGE); /* one range of memory for a disk */
    for (int i = 0; i < p->files && p->n > 0 && !error; i++) {
        char name[RT_SAVE_NAME];
        rt_piece_file(p->rank, i, name);
        RT_OWNED char *path = rt_path_join(directory, name);
        error = write_piece_file(p, model, i, path, memory, stage, pace);
    }
    return error ? error : write_list(p, model, directory);
}
