/* runtime_pieces.c: cuts random shards of random tensors into the pieces of a
 * checkpoint. The pieces of all ranks contain each element once; those of one
 * range are at most 2r-1, have the elements that rt_shard_run finds, and are
 * copied to any other layout without loss. A checkpoint of files of 100 bytes
 * is read by all ranks of its mesh, also if stages of a pipeline have different
 * layers. */
#include <unistd.h>

#include "runtime/checkpoint/resume.h"
#include "runtime/checkpoint/save.h"
#include "runtime/common/files.h"
#include "runtime/launch/world.h"
#include "runtime/params/params.h"
#include "runtime/rt.h"
#include "tests/unit/runtime_tools.h"

enum { MOST = 4096, CASES = 4000, AXES = 3 };

static uint32_t state = 7;

static int64_t below(int64_t n)
{
    state = state * 1664525 + 1013904223;
    return (int64_t)(state >> 8) % n;
}

/* A layout of a tensor: each mesh axis splits a dim, or the run, or nothing; one
 * may be that of a pipeline, of which one coordinate has the tensor. */
static void layout(ParcParam *p, const ParcModel *m)
{
    p->flat_axes = p->pipeline = 0;
    memset(p->split, -1, sizeof p->split);
    memset(p->pad, 0, sizeof p->pad);
    for (int a = 0; a < m->naxes; a++) {
        int64_t how = below(4);
        if (how == 3 && !p->pipeline) {
            p->pipeline = 1u << a;
            p->at = (int)below(m->axis[a].size);
        } else if (how == 0) {
            p->flat_axes |= 1u << a;
        } else if (how == 1 && p->ndim > 0) {
            int64_t d = below(p->ndim);
            int i = 0;
            while (p->split[d][i] >= 0)
                i++;
            p->split[d][i] = (int8_t)a;
        }
    }
    for (int d = 0; d < p->ndim; d++) {
        int64_t parts = 1;
        for (int i = 0; i < PARC_MAX_AXES && p->split[d][i] >= 0; i++)
            parts *= m->axis[p->split[d][i]].size;
        p->pad[d] = (parts - p->dim[d] % parts) % parts;
    }
}

static void random_tensor(ParcModel *m, ParcParam *p)
{
    int64_t sizes[AXES], elements = 1;
    for (int a = 0; a < AXES; a++)
        sizes[a] = 1 + below(3);
    *m = bare_model(AXES, sizes, 0);
    *p = (ParcParam){.name = "p", .ndim = (int)below(5)};
    for (int d = 0; d < p->ndim; d++) {
        p->dim[d] = 1 + below(7);
        elements *= p->dim[d];
    }
    if (elements > MOST)
        p->ndim = 3;
    layout(p, m);
}

static int64_t index_of(const ParcParam *p, const RtBlock *b, int64_t i)
{
    int64_t global = 0, stride = 1;
    for (int d = p->ndim - 1; d >= 0; d--) {
        global += (b->begin[d] + i % b->extent[d]) * stride;
        i /= b->extent[d];
        stride *= p->dim[d];
    }
    return global;
}

/* The memory of a rank: each stored element holds its global index + 1. */
static void fill(const RtShard *s, float *layer)
{
    int64_t global, n;
    memset(layer, 0, (size_t)s->run * sizeof *layer);
    for (int64_t at = 0; (n = rt_shard_run(s, &at, &global)) > 0; at += n) {
        for (int64_t i = 0; i < n; i++)
            layer[at + i] = (float)(global + i + 1);
    }
}

typedef struct File {
    float data[MOST];
    int64_t n;
} File;

static void append(void *context, const float *from, int64_t n)
{
    File *f = context;
    memcpy(f->data + f->n, from, (size_t)n * sizeof *from);
    f->n += n;
}

/* Cuts a random range of a rank's elements. */
static void cut(Check *c, const RtShard *s, const float *layer)
{
    static File f;
    RtBlock b;
    int64_t begin = below(s->run + 1), end = begin + below(s->run - begin + 1);
    int64_t wanted = 0, found = 0, blocks = 0, wrong = 0;
    for (int64_t i = begin; i < end; i++)
        wanted += layer[i] != 0;
    for (int64_t at = begin; rt_block_next(s, &at, end, &b); blocks++) {
        int64_t n = rt_block_elements(s, &b);
        f.n = 0;
        rt_block_runs(s, &b, layer, append, &f);
        wrong += f.n != n;
        for (int64_t i = 0; i < n; i++)
            wrong += f.data[i] != (float)(index_of(s->param, &b, i) + 1);
        found += n;
    }
    int most = s->param->ndim > 0 ? 2 * s->param->ndim - 1 : 1;
    CHECK(c, wrong == 0);
    CHECK(c, found == wanted);
    CHECK(c, blocks <= most);
}

/* Reads all elements of `s` from a piece; returns their number. */
static int64_t read_piece(const RtShard *s, float *to, const RtBlock *piece,
                          const float *data)
{
    RtBlock b;
    int64_t n = 0;
    for (int64_t at = 0; rt_block_next(s, &at, s->run, &b);) {
        RtStridedCopy copy;
        int64_t to_at, from_at;
        if (rt_block_common(s, &b, piece->begin, piece->extent, &copy, &to_at,
                            &from_at)) {
            rt_block_copy(&copy, to + to_at, data + from_at);
            n += rt_strided_copy_elements(&copy);
        }
    }
    return n;
}

/* Writes the pieces of all ranks of one layout, and reads those that a rank of
 * another layout needs. */
static void reshard(Check *c, const ParcModel *m, const ParcParam *p)
{
    static float layer[MOST], have[MOST], want[MOST];
    static int times[MOST];
    static File f;
    ParcParam other = *p;
    RtShard s, to;
    RtBlock b;
    int64_t number = below(9), read = 0, wrong = 0;
    layout(&other, m);
    rt_shard(&to, m, (int)below(rt_nranks(m)), &other);
    if (to.run > MOST || to.stored == 0)
        return;
    fill(&to, want);
    memset(have, 0, sizeof have);
    memset(times, 0, sizeof times);
    for (int r = 0; r < rt_nranks(m); r++) {
        rt_shard(&s, m, r, p);
        if (s.run > MOST)
            return;
        if (s.stored == 0)
            continue;
        fill(&s, layer);
        RtRange range = rt_write_range(m, r, &s, number);
        for (int64_t at = range.begin; rt_block_next(&s, &at, range.end, &b);) {
            f.n = 0;
            rt_block_runs(&s, &b, layer, append, &f);
            for (int64_t i = 0; i < f.n; i++)
                times[index_of(p, &b, i)]++;
            read += read_piece(&to, have, &b, f.data);
        }
    }
    for (int64_t i = 0; i < rt_param_layer_elements(p); i++)
        wrong += times[i] != 1;
    CHECK(c, wrong == 0);
    CHECK(c, read == rt_shard_elements(&to));
    CHECK(c, memcmp(have, want, (size_t)to.run * sizeof *have) == 0);
}

/* Replicas write parts of a large tensor, and only one writes a small one. */
static void shares_work(Check *c)
{
    static const int64_t size[] = {4};
    ParcModel m = bare_model(1, size, 0);
    ParcParam p = {.name = "p", .ndim = 1, .dim = {1 << 20}};
    RtShard s;
    memset(p.split, -1, sizeof p.split);
    for (int r = 0; r < 4; r++) {
        rt_shard(&s, &m, r, &p);
        RtRange range = rt_write_range(&m, r, &s, 0);
        CHECK(c, range.end - range.begin == 1 << 18);
    }
    p.dim[0] = 100;
    for (int number = 0; number < 4; number++) {
        int writers = 0;
        for (int r = 0; r < 4; r++) {
            rt_shard(&s, &m, r, &p);
            RtRange range = rt_write_range(&m, r, &s, number);
            writers += range.end == 100;
        }
        CHECK(c, writers == 1);
    }
}

/* ---- files ---- */

enum { LIMIT = 100, ROWS = 9, COLUMNS = 12 };

static const char state_text[] =
    "{\"step\": 1, \"tokens\": 1, \"updates\": 1, \"seed\": 0}";

/* Writes the rank's part in small files, reads it, and compares. */
static int write_and_read(ParcRt *rt, void *context)
{
    const char *directory = context;
    RtPieces pieces;
    RtResume c;
    RtShard s;
    rt_shard(&s, rt->model, rt->rank, &rt->model->param[0]);
    size_t bytes = (size_t)(s.stored * s.run) * sizeof(float);
    float *before = malloc(bytes + 1);
    for (int64_t l = -1; (l = rt_shard_next(&s, l)) >= 0;) {
        float *layer = rt_shard_layer(rt, rt->rank, &s, l);
        fill(&s, layer);
        for (int64_t i = 0; i < s.run; i++)
            layer[i] += layer[i] > 0 ? (float)(1000 * l) : 0;
    }
    memcpy(before, rt->arena, bytes);
    rt_pieces_list(&pieces, rt->model, rt->rank, LIMIT);
    bool good = (pieces.files > 1) == (s.stored > 0) &&
                rt_pieces_write(&pieces, rt->model, directory, rt->arena,
                                NULL) == 0;
    rt_pieces_free(&pieces);
    rt_synchronize(rt, RT_AT_SAVE);
    if (rt->rank == 0)
        good &= rt_index_write(rt, state_text, directory) == 0;
    rt_synchronize(rt, RT_AT_SAVE);
    memset(rt->arena, 0x11, bytes);
    good &= rt_resume_read(&c, directory);
    for (int64_t i = 0; good && i < c.nfiles; i++)
        good = c.file[i].size <= 4096 + LIMIT;
    if (good)
        rt_resume_load(rt, &c);
    good &= memcmp(before, rt->arena, bytes) == 0;
    rt_resume_close(&c);
    free(before);
    return good ? 0 : 1;
}

/* On a mesh of 2 x 2 x `stages`: `cut` has the stages of a pipeline; NULL: one
 * coordinate of it, the last, has all layers. */
static void small_files(Check *c, int64_t stages, const int64_t *cut)
{
    const int64_t size[] = {2, 2, stages};
    char directory[] = "/tmp/parc-pieces-XXXXXX";
    ParcModel m = bare_model(3, size, 1 << 16);
    ParcParam p = {.name = "layers.*.w", .nstack = 1, .stack = {3}, .ndim = 2,
                   .dim = {ROWS, COLUMNS}, .flat_axes = 1, .placement = "",
                   .pipeline = stages > 1 ? 4 : 0, .at = (int)stages - 1,
                   .nstages = cut ? 2 * (int)stages : 0, .cut = cut};
    memset(p.split, -1, sizeof p.split);
    p.split[1][0] = 1;
    for (int r = 0; r < rt_nranks(&m); r++) {
        RtShard s;
        rt_shard(&s, &m, r, &p);
        if (s.stored * s.run > p.local_elements)
            p.local_elements = s.stored * s.run;
    }
    m.param = &p;
    m.nparams = 1;
    m.optimizer = "SGD";
    CHECK(c, mkdtemp(directory));
    CHECK(c, run_ranks(&m, 1, write_and_read, directory) == 0);
    rt_output_discard(directory);
    CHECK(c, access(directory, F_OK) != 0);
}

int main(void)
{
    static float layer[MOST];
    Check c = {0};
    for (int i = 0; i < CASES; i++) {
        ParcModel m;
        ParcParam p;
        RtShard s;
        random_tensor(&m, &p);
        rt_shard(&s, &m, (int)below(rt_nranks(&m)), &p);
        if (s.run <= MOST && s.stored > 0) {
            fill(&s, layer);
            cut(&c, &s, layer);
            reshard(&c, &m, &p);
        }
    }
    shares_work(&c);
    small_files(&c, 1, NULL);
    small_files(&c, 2, NULL);
    small_files(&c, 2, (const int64_t[]){0, 1, 1, 2, 3});
    return check_end(&c);
}
