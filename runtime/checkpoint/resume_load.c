/* resume_load.c: reads the tensors of a checkpoint.
 *
 * First the ranks verify the checksums: each rank those of an equal part of the
 * bytes of all files, in order. A rank of the mesh that saved the checkpoint
 * verifies its own file. Then each rank copies the elements that it stores from
 * any files, which are mapped; the blocks of both sides are intersected. The
 * state is f32 on all meshes and for all precisions, so that it is copied
 * exactly. Low-precision copies are made from it (rt_param_upload).
 *
 * requires  the checkpoint fits the model (resume.c)
 * ensures   no rank continues before all checksums are verified
 *
 * example   a rank stores rows 4-7 of w [8, 2]; the files have rows 0-5 and
 *           6-7: it copies 2 rows from the first and 2 from the second file
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "checkpoint/resume.h"
#include "checkpoint/save.h"
#include "common/files.h"
#include "common/message.h"
#include "launch/world.h"
#include "params/params.h"
#include "rt.h"

enum { BUFFER = 4 << 20 };

/* ---- checksums ----------------------------------------------------------- */

static const RtSavedPiece *piece_of(const void *at)
{
    return *(const RtSavedPiece *const *)at;
}

static int by_place(const void *a, const void *b)
{
    const RtSavedPiece *x = piece_of(a), *y = piece_of(b);
    return x->file != y->file ? (x->file > y->file) - (x->file < y->file)
                              : (x->begin > y->begin) - (x->begin < y->begin);
}

/* Computes the checksum of a piece; returns 0 or an errno. */
static int checksum(int file, const RtSavedPiece *p, char *buffer,
                    uint32_t *crc)
{
    *crc = 0;
    for (int64_t at = p->begin; at < p->end;) {
        int64_t n = p->end - at < BUFFER ? p->end - at : BUFFER;
        ssize_t did = pread(file, buffer, (size_t)n, (off_t)at);
        if (did < 0 && errno == EINTR)
            continue;
        if (did <= 0)
            return did < 0 ? errno : EIO;
        *crc = rt_crc32c(*crc, buffer, (size_t)did);
        at += did;
    }
    return 0;
}

/* Verifies n pieces of one file. Returns the first damaged one, or NULL. */
static const RtSavedPiece *verify_file(int file, const RtSavedPiece **piece,
                                       int64_t n, int *error)
{
    int64_t bad = n;
    *error = 0;
#pragma omp parallel
    {
        RT_OWNED char *buffer = rt_allocate(BUFFER);
#pragma omp for schedule(dynamic)
        for (int64_t i = 0; i < n; i++) {
            uint32_t crc;
            int failed = checksum(file, piece[i], buffer, &crc);
            if (failed || crc != piece[i]->crc) {
#pragma omp critical
                if (i < bad) {
                    bad = i;
                    *error = failed;
                }
            }
        }
    }
    return bad < n ? piece[bad] : NULL;
}

_Noreturn static void fail_piece(ParcRt *rt, const RtResume *c,
                                 const RtSavedPiece *p, int error)
{
    rt_fail_at(rt,
               "%s/%s: byte %lld: error: %s in bytes %lld to %lld, which are "
               "part of '%s'%s",
               c->path, c->file[p->file].name, (long long)p->begin,
               error ? strerror(error) : "wrong checksum", (long long)p->begin,
               (long long)p->end, c->tensor[p->tensor].name,
               error ? "" : ": the file is damaged; --resume DIR/step-<number> "
                            "takes an older checkpoint");
}

static void verify_pieces(ParcRt *rt, const RtResume *c,
                          const RtSavedPiece **piece, int64_t n)
{
    for (int64_t i = 0, k; i < n; i = k) {
        int error;
        k = i;
        while (k < n && piece[k]->file == piece[i]->file)
            k++;
        RT_OWNED char *path =
            rt_path_join(c->path, c->file[piece[i]->file].name);
        int file = open(path, O_RDONLY | O_CLOEXEC);
        if (file < 0)
            fail_piece(rt, c, piece[i], errno);
        posix_fadvise(file, 0, 0, POSIX_FADV_SEQUENTIAL);
        const RtSavedPiece *bad = verify_file(file, piece + i, k - i, &error);
        close(file);
        if (bad)
            fail_piece(rt, c, bad, error);
    }
}

/* Verifies the pieces that begin in this rank's part of all bytes. */
static void verify(ParcRt *rt, const RtResume *c)
{
    RT_OWNED const RtSavedPiece **piece =
        rt_allocate((size_t)(c->npieces + 1) * sizeof *piece);
    int64_t total = 0, at = 0, first = 0, last = 0;
    for (int64_t i = 0; i < c->npieces; i++) {
        piece[i] = &c->piece[i];
        total += piece[i]->end - piece[i]->begin;
    }
    qsort(piece, (size_t)c->npieces, sizeof *piece, by_place);
    double part = (double)total / rt->nranks;
    for (int64_t i = 0; i < c->npieces; i++) {
        first += (double)at < part * rt->rank;
        last += rt->rank == rt->nranks - 1 || (double)at < part * (rt->rank + 1);
        at += piece[i]->end - piece[i]->begin;
    }
    verify_pieces(rt, c, piece + first, last - first);
}

/* ---- copies -------------------------------------------------------------- */

/* Maps the file of a piece; map[] has the files that this rank has mapped. */
static void map_file(ParcRt *rt, const RtResume *c, const unsigned char **map,
                     const RtSavedPiece *p)
{
    const RtSavedFile *f = &c->file[p->file];
    if (map[p->file])
        return;
    RT_OWNED char *path = rt_path_join(c->path, f->name);
    int64_t size;
    int error = rt_file_map(path, &map[p->file], &size);
    if (error || size < f->size)
        fail_piece(rt, c, p, error ? error : EIO);
}

static const RtSavedTensor *saved_tensor_of(const RtResume *c,
                                            const ParcParam *p, int64_t layer)
{
    char name[RT_NAME];
    rt_param_name(p->name, p, layer, name);
    return rt_saved_find(c, name);
}

/* Maps the files that have elements of the rank's layer. */
static void map_layer(ParcRt *rt, const RtResume *c, const unsigned char **map,
                      const RtShard *s, const RtSavedTensor *t)
{
    RtBlock block;
    RtStridedCopy copy;
    int64_t to, from;
    for (int64_t at = 0; rt_block_next(s, &at, s->run, &block);)
        for (int64_t i = t->first; i < t->first + t->n; i++) {
            const RtSavedPiece *p = &c->piece[i];
            if (rt_block_common(s, &block, p->offset, p->extent, &copy, &to,
                                &from))
                map_file(rt, c, map, p);
        }
}

/* Copies a layer; false if the pieces lack some of its elements. */
static bool copy_layer(const RtResume *c, const unsigned char *const *map,
                       const RtShard *s, const RtSavedTensor *t, float *layer)
{
    RtBlock block;
    int64_t wanted = 0, copied = 0, to, from;
    RtStridedCopy copy;
    for (int64_t at = 0; rt_block_next(s, &at, s->run, &block);)
        wanted += rt_block_elements(s, &block);
    if (wanted < s->run) /* padding is 0 */
        memset(layer, 0, (size_t)s->run * sizeof *layer);
    for (int64_t at = 0; rt_block_next(s, &at, s->run, &block);)
        for (int64_t i = t->first; i < t->first + t->n; i++) {
            const RtSavedPiece *p = &c->piece[i];
            if (rt_block_common(s, &block, p->offset, p->extent, &copy, &to,
                                &from)) {
                const void *data = map[p->file] + p->begin;
                rt_block_copy(&copy, layer + to, (const float *)data + from);
                copied += rt_strided_copy_elements(&copy);
            }
        }
    return copied == wanted;
}

static void load_param(ParcRt *rt, const RtResume *c, const unsigned char **map,
                       const ParcParam *p)
{
    RtShard s;
    int64_t incomplete = -1;
    rt_shard(&s, rt->model, rt->rank, p);
    for (int64_t l = -1; (l = rt_shard_next(&s, l)) >= 0;)
        map_layer(rt, c, map, &s, saved_tensor_of(c, p, l));
#pragma omp parallel for schedule(dynamic) if (s.stored > 1)
    for (int64_t l = 0; l < rt_param_layers(p); l++)
        if (rt_shard_index(&s, l) >= 0 &&
            !copy_layer(c, map, &s, saved_tensor_of(c, p, l),
                        rt_shard_layer(rt, rt->rank, &s, l))) {
#pragma omp atomic write
            incomplete = l;
        }
    if (incomplete >= 0) {
        char name[RT_NAME];
        rt_param_name(p->name, p, incomplete, name);
        rt_fail_at(rt,
                   "%s/" RT_INDEX_NAME ": byte %lld: error: the pieces of "
                   "'%s' overlap and do not have all of its elements",
                   c->path, (long long)saved_tensor_of(c, p, incomplete)->at,
                   name);
    }
    rt_param_upload(rt, &s);
}

void rt_resume_load(ParcRt *rt, const RtResume *c)
{
    RT_OWNED const unsigned char **map =
        rt_allocate((size_t)(c->nfiles + 1) * sizeof *map);
    verify(rt, c);
    rt_synchronize(rt, RT_AT_RESUME);
    for (int i = 0; i < rt->model->nparams; i++)
        if (rt_param_is_saved(&rt->model->param[i]))
            load_param(rt, c, map, &rt->model->param[i]);
    for (int64_t i = 0; i < c->nfiles; i++)
        rt_input_unmap(map[i], c->file[i].size);
}
