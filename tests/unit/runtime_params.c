/* runtime_params.c: compares random numbers with the published vectors; draws,
 * exports and loads parameters that are sharded over several meshes and expects
 * the same file, byte by byte; tests broken files of weights. */
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/checkpoint/export.h"
#include "runtime/checkpoint/weights.h"
#include "runtime/launch/world.h"
#include "runtime/options/options.h"
#include "runtime/params/params.h"
#include "runtime/params/random.h"
#include "runtime/parc_random.h"
#include "runtime/rt.h"
#include "tests/unit/runtime_tools.h"

/* ---- random numbers ---- */

static void known_answers(Check *c)
{
    /* Random123, kat_vectors: philox4x32 10 */
    static const uint32_t kat[3][10] = {
        {0, 0, 0, 0, 0, 0, 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8},
        {~0u, ~0u, ~0u, ~0u, ~0u, ~0u, 0x408f276d, 0x41c83b0e, 0xa20bc7c6,
         0x6d5451fd},
        {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0xa4093822,
         0x299f31d0, 0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}};
    for (int i = 0; i < 3; i++) {
        uint32_t out[4];
        memcpy(out, kat[i], sizeof out);
        parc_philox(out, kat[i][4], kat[i][5]);
        CHECK(c, memcmp(out, kat[i] + 6, sizeof out) == 0);
    }
}

static void distributions(Check *c)
{
    enum { N = 40000 };
    static float whole[N], part[N];
    double sum = 0, squares = 0;
    rt_random_normal(whole, 7, 0, 3, 0, N, 2.0);
    for (int i = 0; i < N; i++) {
        sum += (double)whole[i];
        squares += (double)whole[i] * (double)whole[i];
    }
    CHECK(c, fabs(sum / N) < 0.05);
    CHECK(c, fabs(sqrt(squares / N) - 2) < 0.05);
    for (int at = 0, n = 1; at < N; at += n, n = n % 13 + 1) {
        n = n < N - at ? n : N - at;
        rt_random_normal(part + at, 7, 0, 3, at, n, 2.0);
    }
    CHECK(c, memcmp(whole, part, sizeof whole) == 0);
    rt_random_uniform(whole, -1, 0, 3, 5, N, -2.0, 3.0);
    double least = 9, most = -9;
    for (int i = 0; i < N; i++) {
        least = (double)whole[i] < least ? (double)whole[i] : least;
        most = (double)whole[i] > most ? (double)whole[i] : most;
    }
    CHECK(c, least >= -2 && least < -1.99 && most < 3 && most > 2.99);
}

static void permutations(Check *c)
{
    static const int64_t sizes[] = {1, 2, 3, 7, 64, 1000};
    static char seen[1000];
    for (int i = 0; i < 6; i++) {
        int64_t n = sizes[i], moved = 0, found = 0;
        memset(seen, 0, sizeof seen);
        for (int64_t x = 0; x < n; x++) {
            int64_t to = rt_permute(5, 1, n, x);
            found += to >= 0 && to < n && !seen[to];
            seen[to >= 0 && to < n ? to : 0] = 1;
            moved += to != rt_permute(5, 2, n, x);
        }
        CHECK(c, found == n);
        CHECK(c, n < 64 || moved > n / 2);
    }
}

/* ---- parameters over meshes ---- */

enum { NPARAMS = 7, ARENA = 1 << 17 };

typedef struct Meshed {
    ParcModel model;
    ParcParam param[NPARAMS];
    char path[64], again[64];
} Meshed;

static const char *const ties[] = {"tied.*.weight"};

/* Sets offset and local size from the layout. */
static int64_t place(const ParcModel *m, ParcParam *p, int64_t offset)
{
    RtShard s;
    for (int d = 0; d < PARC_MAX_DIMS; d++) {
        for (int i = 0; i < PARC_MAX_AXES; i++) {
            int a = p->split[d][i];
            p->split[d][i] = (int8_t)(i == 0 && a > 0 ? a - 1 : -1);
        }
    }
    p->placement = "";
    p->offset = offset;
    p->local_elements = 0;
    for (int r = 0; r < rt_nranks(m); r++) {
        rt_shard(&s, m, r, p);
        if (s.stored * s.run > p->local_elements)
            p->local_elements = s.stored * s.run;
    }
    return offset + (p->local_elements * 4 + 63) / 64 * 64;
}

/* The first elements of the stages of 2, 2 and 3 layers, by the number of ranks
 * of the pipeline; on 3 ranks each has two stages. */
static const struct Stages {
    int n;
    int64_t two[7], three[7];
} stages[] = {[2] = {2, {0, 0, 2}, {0, 1, 3}},
              [3] = {6, {0, 1, 1, 1, 2, 2, 2}, {0, 0, 1, 1, 2, 3, 3}}};

/* split {{2}}: dim 0 over axis 1 (counted from 1; 0: not split). `ranks` of a
 * pipeline, 1: none. */
static void make(Meshed *x, int64_t a, int64_t b, int64_t ranks)
{
    const int64_t size[] = {a, b, ranks};
    const ParcParam param[NPARAMS] = {
        {.name = "rows", .ndim = 2, .dim = {12, 12}, .split = {{2}},
         .flat_axes = 1, .init = PARC_ARANGE, .a = 101},
        {.name = "layers.*.columns", .nstack = 1, .stack = {3}, .ndim = 2,
         .dim = {5, 12}, .split = {{0}, {2}}, .flat_axes = 1,
         .init = PARC_NORMAL, .a = 0.5, .alias = ties, .nalias = 1},
        {.name = "layers.*.inner.*.cube", .nstack = 2, .stack = {2, 2},
         .ndim = 3, .dim = {3, 8 * b, 5}, .split = {{0}, {2}},
         .flat_axes = 1, .init = PARC_UNIFORM, .a = -1, .b = 1},
        {.name = "both", .ndim = 2, .dim = {2 * a, b}, .split = {{1}, {2}},
         .init = PARC_ARANGE},
        {.name = "rows", .state = "m", .ndim = 2, .dim = {12, 12},
         .split = {{2}}, .flat_axes = 1, .init = PARC_ONES},
        {.name = "padded", .ndim = 3, .dim = {5, 3, 7},
         .pad = {(b - 5 % b) % b, 0, (a - 7 % a) % a},
         .split = {{2}, {0}, {1}}, .init = PARC_NORMAL, .a = 1},
        {.name = "layers.*.flat", .nstack = 1, .stack = {2}, .ndim = 2,
         .dim = {3, 5}, .pad = {(b - 3 % b) % b, 1}, .split = {{2}},
         .flat_axes = 1, .init = PARC_TRUNCATED_NORMAL, .a = 1, .b = -2, .c = 2,
         .depth = -0.5},
    };
    memset(x, 0, sizeof *x);
    memcpy(x->param, param, sizeof param);
    x->model = bare_model(3, size, ARENA);
    x->model.param = x->param;
    x->model.nparams = NPARAMS;
    int64_t offset = 0;
    for (int i = 0; i < NPARAMS; i++) {
        ParcParam *p = &x->param[i];
        p->pipeline = ranks > 1 ? 4 : 0;
        p->at = i % (int)ranks;
        if (ranks > 1 && p->nstack) {
            p->nstages = stages[ranks].n;
            p->cut = p->stack[0] == 2 ? stages[ranks].two : stages[ranks].three;
        }
        offset = place(&x->model, p, offset);
    }
}

static void count_owner(const Meshed *x, int rank, const ParcParam *p,
                        int64_t layer, int *owners)
{
    RtShard s;
    int64_t global, n;
    rt_shard(&s, &x->model, rank, p);
    if (!s.owner || rt_shard_index(&s, layer) < 0)
        return;
    for (int64_t at = 0; (n = rt_shard_run(&s, &at, &global)) > 0; at += n)
        for (int64_t j = 0; j < n; j++)
            owners[global + j]++;
}

/* Exactly one rank owns each element of each layer. */
static void one_owner(Check *c, const Meshed *x)
{
    static int owners[4096];
    CHECK(c, rt_params_check(&x->model));
    for (int i = 0; i < NPARAMS; i++)
        for (int64_t l = 0; l < rt_param_layers(&x->param[i]); l++) {
            int64_t elements = rt_param_layer_elements(&x->param[i]), good = 0;
            memset(owners, 0, sizeof owners);
            for (int r = 0; r < rt_nranks(&x->model); r++)
                count_owner(x, r, &x->param[i], l, owners);
            for (int64_t j = 0; j < elements; j++)
                good += owners[j] == 1;
            CHECK(c, good == elements);
        }
}

/* Rank 0 writes all weights to a file. */
static void export_to(ParcRt *rt, const char *path)
{
    char temporary[80];
    RtExportTo to = {.path = path, .temporary = temporary};
    RtOptions o = {0};
    snprintf(temporary, sizeof temporary, "%s.tmp", path);
    if (rt->rank == 0 && rt_export(rt, &to, &o))
        rt_fail(rt, "export");
    rt_synchronize(rt, 0);
}

static bool open_weights(RtWeights *w, const char *path, const ParcModel *m)
{
    const RtOptions o = {.init = {{path}, 1}};
    return rt_weights_open(w, &o, false, m);
}

static int draw_and_export(ParcRt *rt, void *context)
{
    Meshed *x = context;
    rt_params_init(rt, 42);
    rt_synchronize(rt, 0);
    export_to(rt, x->path);
    return 0;
}

static int load_and_export(ParcRt *rt, void *context)
{
    Meshed *x = context;
    RtWeights w;
    if (!open_weights(&w, x->path, rt->model))
        rt_fail(rt, "open");
    memset(rt->arena, 0x11, ARENA);
    rt_weights_load(rt, &w);
    rt_weights_close(&w);
    rt_synchronize(rt, 0);
    export_to(rt, x->again);
    return 0;
}

static char *contents(const char *path, size_t *n)
{
    static char text[2][1 << 20];
    static int which;
    FILE *f = fopen(path, "rb");
    char *to = text[which ^= 1];
    *n = f ? fread(to, 1, sizeof text[0], f) : 0;
    if (f)
        fclose(f);
    return to;
}

static void same_file(Check *c, const char *a, const char *b)
{
    size_t n, m;
    const char *x = contents(a, &n), *y = contents(b, &m);
    CHECK(c, n > 0 && n == m && memcmp(x, y, n) == 0);
}

/* The sizes of `both` depend on the mesh, so files are equal only per mesh. The
 * other parameters must equal those of one rank; the test loads them. */
static void over_meshes(Check *c, const char *directory)
{
    static const int64_t mesh[][3] = {
        {1, 1, 1}, {4, 1, 1}, {1, 4, 1}, {2, 4, 1}, {3, 2, 1}, {2, 2, 1},
        {1, 1, 2}, {2, 2, 2}, {2, 1, 3}, {6, 1, 1}};
    static Meshed x;
    for (size_t i = 0; i < sizeof mesh / sizeof mesh[0]; i++) {
        make(&x, mesh[i][0], mesh[i][1], mesh[i][2]);
        one_owner(c, &x);
        snprintf(x.path, sizeof x.path, "%s/a", directory);
        snprintf(x.again, sizeof x.again, "%s/b", directory);
        CHECK(c, run_ranks(&x.model, 1, draw_and_export, &x) == 0);
        CHECK(c, run_ranks(&x.model, 1, load_and_export, &x) == 0);
        same_file(c, x.path, x.again);
        /* The same model on one rank: equal sizes, no sharding. */
        for (int a = 0; a < 3; a++)
            x.model.axis[a].size = 1;
        for (int p = 0; p < NPARAMS; p++) {
            ParcParam *q = &x.param[p];
            memset(q->pad, 0, sizeof q->pad);
            q->pipeline = 0;
            q->nstages = 0;
            q->offset = p == 0 ? 0 : x.param[p - 1].offset +
                                         x.param[p - 1].local_elements * 4;
            q->local_elements = rt_param_layers(q) *
                                rt_param_layer_elements(q);
        }
        CHECK(c, run_ranks(&x.model, 1, load_and_export, &x) == 0);
        same_file(c, x.path, x.again);
        CHECK(c, run_ranks(&x.model, 1, draw_and_export, &x) == 0);
        same_file(c, x.path, x.again);
    }
    size_t n;
    const char *file = contents(x.path, &n);
    uint64_t header;
    float first[2];
    memcpy(&header, file, 8);
    memcpy(first, file + 8 + header, 8);
    CHECK(c, first[0] == 101 && first[1] == 102);
    unlink(x.path);
    unlink(x.again);
}

/* ---- files of weights ---- */

typedef struct Broken {
    const char *header;
    int data;          /* bytes after the header */
    const char *error; /* NULL: the file is valid */
    int at;
} Broken;

static const char *read_header(const char *header, int data, int64_t *at,
                               int64_t claim)
{
    static unsigned char file[4096];
    size_t n = strlen(header);
    RtTensorFile w = {.map = file, .size = 8 + (int64_t)n + data};
    for (int i = 0; i < 8; i++)
        file[i] = (unsigned char)((uint64_t)(claim < 0 ? (int64_t)n : claim) >>
                                  (8 * i));
    memcpy(file + 8, header, n);
    const char *error = rt_safetensors_header(&w, at);
    rt_safetensors_free(&w);
    return error;
}

#define TENSOR(offsets) \
    "{\"x\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":" offsets "}}"

static void headers(Check *c)
{
    static const Broken cases[] = {
        {"{}", 0, NULL, 10},
        {" { } ", 0, NULL, 13},
        {TENSOR("[0,24]"), 24, NULL, 65},
        {"{\"__metadata__\":{\"a\\u0041\\n\":\"b\"}}", 0, NULL, 42},
        {"", 0, "expected '{': this is not a safetensors file", 8},
        {"[]", 0, "expected '{': this is not a safetensors file", 8},
        {"{", 0, "expected a string", 9},
        {"{\"x\"", 0, "expected ':'", 12},
        {"{\"x", 0, "the text ends within a string", 11},
        {"{\"x\\q\":1}", 0, "an unknown escape in a string", 12},
        {"{\"x\n\":1}", 0, "a control character in a string", 11},
        {"{\"x\":1}", 0, "expected '{'", 13},
        {"{\"x\":{}}", 0, "expected a string", 14},
        {"{\"x\":{\"dtype\":\"F32\"}}", 0,
         "a tensor needs dtype, shape and data_offsets", 28},
        {"{\"x\":{\"kind\":\"F32\"}}", 0,
         "expected dtype, shape and data_offsets, each once", 14},
        {TENSOR("[0,-4]"), 0, "expected a whole number", 60},
        {TENSOR("[0,99999999999999999999]"), 0, "a number is too large", 78},
        {TENSOR("[24,0]"), 24, "data_offsets end before they begin", 64},
        {TENSOR("[0,20]"), 24, "data_offsets do not fit the shape and dtype",
         64},
        {TENSOR("[0,24]"), 23,
         "the file is truncated: it ends before its last tensor", 88},
        {TENSOR("[0,24]") "x", 24, "something follows the header's last '}'",
         65},
    };
    int64_t at;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        CHECK_TEXT(c, read_header(cases[i].header, cases[i].data, &at, -1),
                   cases[i].error);
        if (at != cases[i].at)
            printf("header %zu: byte %lld\n", i, (long long)at);
        CHECK(c, at == cases[i].at);
    }
    CHECK(c, read_header("{}", 0, &at, 3) && at == 10);
    CHECK(c, read_header("{}", 0, &at, INT64_MAX) && at == 0);
    /* Every truncation of a valid header is refused. */
    const char *whole = TENSOR("[0,24]");
    char cut[128];
    for (size_t n = 0; n < strlen(whole); n++) {
        memcpy(cut, whole, n);
        cut[n] = 0;
        CHECK(c, read_header(cut, 24, &at, -1) != NULL);
    }
}

/* After any change of one byte reading ends, without leaving the file. */
static void changed_headers(Check *c)
{
    static const char bytes[] = "\"\\{}[]:,0179eu \n\t\xff-";
    char text[256], good[256];
    int64_t at = 0;
    int inside = 1;
    snprintf(good, sizeof good, "{\"__metadata__\":{\"k\":\"v\"},%s",
             &TENSOR("[0,24]")[1]);
    CHECK(c, read_header(good, 24, &at, -1) == NULL);
    for (size_t i = 0; i < strlen(good); i++) {
        for (size_t j = 0; j < sizeof bytes - 1; j++) {
            memcpy(text, good, sizeof text);
            text[i] = bytes[j];
            read_header(text, 24, &at, -1);
            inside &= at >= 8 && at <= 8 + (int64_t)strlen(good) + 24;
        }
    }
    CHECK(c, inside);
}

static void write_tensors(const char *path, const char *header,
                          const void *data, size_t bytes)
{
    FILE *f = fopen(path, "wb");
    uint64_t n = strlen(header);
    fwrite(&n, 8, 1, f);
    fwrite(header, 1, n, f);
    fwrite(data, 1, bytes, f);
    fclose(f);
}

/* F16 and BF16 convert to f32 exactly. */
static void half_types(Check *c, const char *directory)
{
    static const int64_t one[] = {1};
    static const uint16_t bits[8] = {0x3C00, 0xC000, 0x0001, 0x7C00,
                                     0x3F80, 0xC000, 0x0000, 0x7F80};
    static const char header[] =
        "{\"h\":{\"dtype\":\"F16\",\"shape\":[4],\"data_offsets\":[0,8]},"
        "\"b\":{\"dtype\":\"BF16\",\"shape\":[4],\"data_offsets\":[8,16]}}";
    ParcParam param[2] = {{.name = "h", .ndim = 1, .dim = {4},
                           .local_elements = 4},
                          {.name = "b", .ndim = 1, .dim = {4}, .offset = 16,
                           .local_elements = 4}};
    char path[64];
    memset(param[0].split, -1, sizeof param[0].split);
    memset(param[1].split, -1, sizeof param[1].split);
    snprintf(path, sizeof path, "%s/half", directory);
    write_tensors(path, header, bits, sizeof bits);
    ParcModel m = bare_model(1, one, 64);
    m.param = param;
    m.nparams = 2;
    RtWeights w;
    CHECK(c, open_weights(&w, path, &m));
    float arena[16];
    RtWorld world = {.arenas = (char *)arena, .nranks = 1, .model = &m};
    ParcRt rt = {.model = &m, .world = &world, .nranks = 1,
                 .arena = (char *)arena};
    rt_weights_load(&rt, &w);
    rt_weights_close(&w);
    CHECK(c, arena[0] == 1 && arena[1] == -2 && arena[2] == 0x1p-24f &&
                 isinf(arena[3]));
    CHECK(c, arena[4] == 1 && arena[5] == -2 && arena[6] == 0 &&
                 isinf(arena[7]));
    unlink(path);
}

/* A file may have a tied tensor under each of its names, with equal values. */
static void tied_names(Check *c, const char *directory)
{
    static const int64_t one[] = {1};
    static const char *const alias[] = {"b", "c"};
    static const char header[] =
        "{\"b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
        "\"c\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,16]}}";
    static const struct {
        float data[4];
        bool good;
    } rows[] = {{{1, 2, 1, 2}, true}, {{1, 2, 1, 3}, false}};
    ParcParam param = {.name = "a", .ndim = 1, .dim = {2}, .local_elements = 2,
                       .alias = alias, .nalias = 2};
    ParcModel m = bare_model(1, one, 64);
    char path[64];
    memset(param.split, -1, sizeof param.split);
    m.param = &param;
    m.nparams = 1;
    snprintf(path, sizeof path, "%s/tied", directory);
    for (int i = 0; i < 2; i++) {
        RtWeights w;
        write_tensors(path, header, rows[i].data, sizeof rows[i].data);
        bool good = open_weights(&w, path, &m);
        CHECK(c, good == rows[i].good);
        CHECK(c, w.source[0].n == 2 && w.source[0].entry[0].tensor->used &&
                     w.source[0].entry[1].tensor->used);
        rt_weights_close(&w);
    }
    unlink(path);
}

int main(void)
{
    char directory[] = "/tmp/parc-params-XXXXXX";
    Check c = {0};
    known_answers(&c);
    distributions(&c);
    permutations(&c);
    if (!mkdtemp(directory)) {
        perror("mkdtemp");
        return 1;
    }
    over_meshes(&c, directory);
    headers(&c);
    changed_headers(&c);
    half_types(&c, directory);
    tied_names(&c, directory);
    rmdir(directory);
    return check_end(&c);
}
