/* fuzz.c: checks that no input crashes or hangs parc or a training program.
 *
 *   build/unit/fuzz [--seconds N] [--seed N] [--only pdl|ir|weights|index|tokens|
 *                   megatron|spec|resume] [--case N]
 *
 * Models, dumps of the IR, files of weights, files of tokens, values of --data
 * and indexes of checkpoints are damaged.
 * parc reads them, from the parser to the emitted program, or the readers of a
 * training program do, each case in its own process. A case fails on a signal
 * (an internal error raises one), a report of the sanitizers, an error without
 * a message, or too much CPU time or memory. Its input stays in build/fuzz, and
 * the test prints a command that repeats it. Each kind of input gets an equal
 * share of the time. Case N of a seed is always the same.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "driver/passes/pipeline.h"
#include "tests/unit/check.h"
#include "tests/unit/fuzz_mutate.h"
#include "tests/unit/fuzz_run.h"

typedef struct Fuzz {
    const char *build; /* directory of parc and of failing inputs */
    char directory[64]; /* directory of the current case */
    const char *nvrtc; /* a stand-in for NVRTC, or NULL */
    uint64_t seed;
    int passed, failed;
    int accepted; /* cases that passed without a message */
} Fuzz;

typedef struct Kind {
    const char *name, *suffix, *option;
    void (*load)(Fuzz *f, Arena *a, Corpus *c);
} Kind;

enum { KINDS = 9, MOST_FAILURES = 10, MOST_WORDS = 40, LARGEST = 1 << 15 };

typedef struct Words {
    const char *at[MOST_WORDS];
    int n;
} Words;

static void add(Words *w, const char *word)
{
    if (w->n < MOST_WORDS - 1)
        w->at[w->n++] = word;
    w->at[w->n] = NULL;
}

/* ---- valid inputs, before the damage ------------------------------------- */

static void load_pdl(Fuzz *f, Arena *a, Corpus *c)
{
    static const char *const patterns[] = {
        "examples/*.pdl",           "examples/*.pdl",
        "tests/data/*.pdl",         "tests/golden/emit/*.pdl",
        "tests/golden/lower/*.pdl", "tests/golden/styles/*.pdl",
        "tests/golden/check/*.pdl"};
    (void)f;
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++)
        fuzz_load(a, c, patterns[i], LARGEST);
}

/* A model that is dumped after each pass; mesh NULL: it has no plan. */
typedef struct Dumped {
    const char *model, *mesh;
} Dumped;

/* Adds parc's own dump of a model after a number of passes. Its first line names
 * the last of these passes, as in the golden tests. */
static void add_dump(Fuzz *f, Arena *a, Corpus *c, const Dumped *of, int pass)
{
    char *errors;
    const char *file = arena_printf(a, "%s/dump.ir", f->directory);
    const char *argv[] = {
        arena_printf(a, "%s/parc", f->build), of->model, "--target", "cpu",
        arena_printf(a, "--stop-after=%s", pass_name(pass)),
        arena_printf(a, "--emit=ir=%s", file),
        of->mesh ? arena_printf(a, "--mesh=%s", of->mesh) : NULL, NULL};
    size_t size;
    if (fuzz_run_program(a, argv, &errors))
        return;
    char *text = file_read(a, file, &size);
    if (!text || size > LARGEST)
        return;
    text = arena_printf(a, "# args: --start-after=%s\n%s", pass_name(pass),
                        text);
    fuzz_add(c, of->model, text, strlen(text));
}

static void load_ir(Fuzz *f, Arena *a, Corpus *c)
{
    static const Dumped dumped[] = {
        {"examples/toy.pdl", "2x2"},
        {"examples/feedforward.pdl", "2x2"},
        {"tests/data/ragged.pdl", NULL},
        {"tests/golden/emit/checkpoint.pdl", "2"},
        {"tests/golden/emit/recipe.pdl", NULL},
        {"tests/golden/emit/forward.pdl", "2x2"}};
    fuzz_load(a, c, "tests/golden/passes/*.ir", LARGEST);
    fuzz_load(a, c, "tests/golden/verify/*.ir", LARGEST);
    for (size_t i = 0; i < sizeof dumped / sizeof *dumped; i++)
        for (int pass = 0; pass < pass_count; pass++)
            add_dump(f, a, c, &dumped[i], pass);
}

static void load_weights(Fuzz *f, Arena *a, Corpus *c)
{
    size_t size;
    (void)f;
    char *file = fuzz_reader_file(a, "--init", &size);
    fuzz_add(c, "weights", file, size);
}

static bool write_file(const char *path, const char *text, size_t size)
{
    FILE *file = fopen(path, "wb");
    bool good = file && fwrite(text, 1, size, file) == size;
    return file && fclose(file) == 0 && good;
}

/* The index of a sharded model; its shard is in the same directory. */
static void load_index(Fuzz *f, Arena *a, Corpus *c)
{
    static const char index[] =
        "{\"metadata\": {\"total_size\": 156}, \"weight_map\": {"
        "\"layers.0.weight\": \"shard.safetensors\", "
        "\"layers.1.weight\": \"shard.safetensors\", "
        "\"bias\": \"shard.safetensors\"}}";
    size_t size;
    char *file = fuzz_reader_file(a, "--init", &size);
    const char *path = arena_printf(a, "%s/shard.safetensors", f->directory);
    if (!write_file(path, file, size)) {
        perror(path);
        exit(1);
    }
    fuzz_add(c, "index", index, sizeof index - 1);
}

static void load_tokens(Fuzz *f, Arena *a, Corpus *c)
{
    size_t size;
    (void)f;
    char *file = fuzz_reader_file(a, "--data", &size);
    fuzz_add(c, "tokens", file, size);
    fuzz_add(c, "raw", file + 1024, size - 1024);
}

/* An index of Megatron for two documents of 16-bit tokens. */
static void load_megatron(Fuzz *f, Arena *a, Corpus *c)
{
    enum { SIZES = 34, OFFSETS = SIZES + 8, DOCUMENTS = OFFSETS + 16,
           SIZE = DOCUMENTS + 24, FIRST = 60 };
    (void)f;
    char *text = memset(arena_alloc(a, SIZE), 0, SIZE);
    memcpy(text, "MMIDIDX", 7);
    text[9] = 1;  /* version */
    text[17] = 8; /* u16 */
    text[18] = 2; /* sequences */
    text[26] = 3; /* entries of the table of documents */
    text[SIZES] = FIRST;
    text[SIZES + 4] = FUZZ_TOKENS - FIRST;
    text[OFFSETS + 8] = 2 * FIRST;
    text[DOCUMENTS + 8] = 1;
    text[DOCUMENTS + 16] = 2;
    fuzz_add(c, "idx", text, SIZE);
}

static void load_npy(Fuzz *f, Arena *a, Corpus *c)
{
    (void)f;
    size_t size;
    char *file = fuzz_reader_array(a, &size);
    fuzz_add(c, "npy", file, size);
}

static void load_specs(Fuzz *f, Arena *a, Corpus *c)
{
    static const char *const specs[] = {
        "0.7*bytes:tests/data/text.txt+0.3*u16:tests/data/text.txt",
        "bytes:tests/data/t*xt.txt;tests/data/text.txt",
        "1*bytes:tests/data/text.txt+2*bytes:tests/data/text.txt;"
        "tests/data/[s-u]ext.txt+1e-3*u32:tests/data/text.txt",
        "labels=bytes:tests/data/text.txt,tokens=bytes:tests/data/text.txt",
        "tokens=1*bytes:tests/data/text.txt+2*bytes:tests/data/text.txt",
    };
    (void)f;
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++)
        fuzz_add(c, "spec", arena_strndup(a, specs[i], strlen(specs[i])),
                 strlen(specs[i]));
}

/* The index of a checkpoint that a training program has saved. Its directory
 * stays in f->directory for the cases. */
static void load_checkpoint(Fuzz *f, Arena *a, Corpus *c)
{
    char *errors;
    size_t size;
    FuzzProgram program = {"--save", f->directory};
    const char *wrong = fuzz_run_call(a, fuzz_reader, &program, &errors);
    char *text = wrong ? NULL
                       : file_read(a,
                                   arena_printf(a, "%s/%s/index.json",
                                                f->directory, FUZZ_STEP),
                                   &size);
    if (text)
        fuzz_add(c, "index.json", text, size);
}

static const Kind kinds[KINDS] = {
    {"pdl", "pdl", NULL, load_pdl},
    {"ir", "ir", NULL, load_ir},
    {"weights", "safetensors", "--init", load_weights},
    {"index", "safetensors.index.json", "--init", load_index},
    {"tokens", "bin", "--data", load_tokens},
    {"megatron", "idx", "--data", load_megatron},
    {"spec", "spec", "--data", load_specs},
    {"npy", "npy", "--data", load_npy},
    {"resume", "json", "--resume", load_checkpoint},
};

/* ---- one case ------------------------------------------------------------ */

/* The options in the text's first line that are valid for any file. */
static void add_given(Arena *a, Words *w, const char *text)
{
    static const char head[] = "# args: ";
    const char *const known[] = {"--mesh", "-D", "--plan", "--start-after"};
    if (strncmp(text, head, sizeof head - 1) != 0)
        return;
    const char *end = strchr(text, '\n');
    size_t n = end ? (size_t)(end - text) : strlen(text);
    char *line = arena_strndup(a, text + sizeof head - 1, n - sizeof head + 1);
    for (char *rest, *word = strtok_r(line, " '", &rest); word;
         word = strtok_r(NULL, " '", &rest)) {
        for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
            if (strncmp(word, known[i], strlen(known[i])) != 0)
                continue;
            add(w, word);
            char *value = strchr(word, '=') ? NULL : strtok_r(NULL, " '", &rest);
            if (value)
                add(w, value);
            break;
        }
    }
}

/* The number of axes of the first plan, less one; 0 without a plan. */
static uint64_t axes_of_plan(const char *text)
{
    const char *plan = strstr(text, "\nplan "), *end = plan;
    uint64_t axes = 0;
    while (end && *end && *end != ')')
        axes += *end++ == ',';
    return axes < 4 ? axes : 3;
}

/* Random options: reports or a whole program, a mesh and a target. */
static void add_options(Fuzz *f, Arena *a, Corpus *c, const char *text, bool ir,
                        Words *w)
{
    static const char *const meshes[][4] = {
        {"2", "3", "8", "1024"},
        {"2x2", "4x2", "1x3", "64x8"},
        {"2x2x2", "1x4x2", "2x1x3", "8x8x8"},
        {"2x2x2x2", "1x2x1x3", "2x3x2x1", "4x4x4x4"}};
    static const char *const defines[] = {
        "batch=48",      "batch=65536",       "precision=bf16",
        "precision=f16", "accumulate=2",      "head_chunk=16",
        "seq=1",         "optimizer.lr=1e30", "batch=1099511627776",
        "recompute=fused", "async_tp=2"};
    bool cpu = fuzz_next(c, 2);
    add(w, cpu ? "--target=cpu" : "--target=cuda");
    add(w, "--threads=1");
    add(w, arena_printf(a, "--emit=plan=%s/plan", f->directory));
    add(w, arena_printf(a, "--emit=json=%s/json", f->directory));
    if (fuzz_next(c, 3) == 0 && (cpu || f->nvrtc))
        add(w, arena_printf(a, "-S%s/tree", f->directory));
    if (ir)
        return;
    if (fuzz_next(c, 2)) {
        add(w, "--mesh");
        add(w, meshes[axes_of_plan(text)][fuzz_next(c, 4)]);
    }
    while (fuzz_next(c, 3) == 0) {
        add(w, "-D");
        add(w, defines[fuzz_next(c, sizeof defines / sizeof *defines)]);
    }
}

static void print_command(const Fuzz *f, const Words *w, const char *kept)
{
    printf("    ");
    if (f->nvrtc)
        printf("PARC_NVRTC=%s ", f->nvrtc);
    bool tree = false;
    for (int i = 0; i < w->n - 1; i++) {
        bool output = strstr(w->at[i], f->directory) != NULL;
        tree |= output && strncmp(w->at[i], "-S", 2) == 0;
        if (!output)
            printf("%s ", w->at[i]);
    }
    printf("--emit plan %s%s\n", tree ? "-S /tmp/tree " : "", kept);
}

static void report(Fuzz *f, Arena *a, const Kind *k, uint64_t number,
                   const Words *w, const char *wrong, const char *errors,
                   const char *text, size_t size)
{
    const char *directory = arena_printf(a, "%s/fuzz", f->build);
    const char *kept =
        arena_printf(a, "%s/%s-%" PRIu64 "-%" PRIu64 ".%s", directory, k->name,
                     f->seed, number, k->suffix);
    mkdir(directory, 0777);
    if (!write_file(kept, text, size))
        perror(kept);
    f->failed++;
    printf("fuzz: seed %" PRIu64 ", %s case %" PRIu64 ": %s\n", f->seed,
           k->name, number, wrong);
    if (!k->option)
        print_command(f, w, kept);
    printf("    input: %s\n%.2000s\n", kept, errors);
    fflush(stdout);
}

static void one_case(Fuzz *f, const Kind *k, const Corpus *from,
                     uint64_t number)
{
    static char text[FUZZ_SIZE];
    static Corpus c;
    Arena *a = arena_new();
    c = *from;
    c.random = (f->seed * 0x9e3779b97f4a7c15 + number + 1) *
                   0xbf58476d1ce4e5b9 | 1;
    for (int i = 0; i < 8; i++)
        fuzz_next(&c, 0);
    const FuzzText *t = &c.text[fuzz_next(&c, (uint64_t)c.n)];
    size_t size = t->size;
    memcpy(text, t->at, size);
    bool structured = fuzz_next(&c, 4) != 0;
    for (uint64_t n = 1 + fuzz_next(&c, 4) / 2; n > 0; n--)
        size = (structured ? fuzz_tokens : fuzz_bytes)(&c, text, size);
    const char *path = arena_printf(a, "%s/input.%s", f->directory, k->suffix);
    if (!write_file(path, text, size)) {
        perror(path);
        exit(1);
    }
    char *errors;
    const char *wrong;
    Words w = {.n = 0};
    if (k->option) {
        FuzzProgram program = {k->option, path};
        wrong = fuzz_run_call(a, fuzz_reader, &program, &errors);
    } else {
        add(&w, arena_printf(a, "%s/parc", f->build));
        add_given(a, &w, t->at);
        add_options(f, a, &c, t->at, strcmp(k->name, "ir") == 0, &w);
        add(&w, path);
        wrong = fuzz_run_program(a, w.at, &errors);
    }
    if (wrong)
        report(f, a, k, number, &w, wrong, errors, text, size);
    else
        f->passed++;
    f->accepted += !wrong && !strstr(errors, "error");
    arena_free(a);
}

/* ---- all cases ----------------------------------------------------------- */

/* Builds a stand-in for NVRTC: kernels are printed, but not compiled. */
static void make_nvrtc(Fuzz *f, Arena *a)
{
    const char *cc = getenv("CC"), *file;
    file = arena_printf(a, "%s/fuzz-nvrtc.so", f->build);
    const char *argv[] = {cc && *cc ? cc : "cc", "-std=c11", "-shared", "-fPIC",
                          "-o", file, "tests/standin/nvrtc.c", NULL};
    char *errors;
    if (process_run(a, argv, NULL, &errors) == 0) {
        f->nvrtc = file;
        setenv("PARC_NVRTC", file, 1);
    }
}

static void fuzz_kind(Fuzz *f, const Kind *k, double seconds, int64_t only)
{
    Arena *a = arena_new();
    static Corpus c;
    c = (Corpus){.random = 1};
    k->load(f, a, &c);
    if (c.n == 0) {
        fputs("fuzz: no files; run it from the repository\n", stderr);
        exit(1);
    }
    int passed = f->passed, failed = f->failed, accepted = f->accepted;
    double end = seconds_now() + seconds;
    if (only >= 0)
        one_case(f, k, &c, (uint64_t)only);
    for (uint64_t i = 0; only < 0 && seconds_now() < end &&
                         f->failed - failed < MOST_FAILURES; i++)
        one_case(f, k, &c, i);
    printf("%s: %d cases of %d texts, %d accepted, %d failures\n", k->name,
           f->passed - passed + f->failed - failed, c.n, f->accepted - accepted,
           f->failed - failed);
    fflush(stdout);
    arena_free(a);
}

static int64_t number_of(const char *text)
{
    char *end;
    errno = 0;
    int64_t n = text ? strtoll(text, &end, 10) : -1;
    if (!text || *end || errno || n < 0) {
        fputs("usage: fuzz [--seconds N] [--seed N] "
              "[--only pdl|ir|weights|index|tokens|megatron|spec|resume] "
              "[--case N]\n", stderr);
        exit(2);
    }
    return n;
}

int main(int argc, char **argv)
{
    const char *build = getenv("BUILD"), *only = NULL;
    Fuzz f = {.build = build && *build ? build : "build", .seed = 1};
    int64_t seconds = few_or_all(4, 60), number = -1;
    for (int i = 1; i < argc; i += 2) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (strcmp(argv[i], "--only") == 0 && value)
            only = value;
        else if (strcmp(argv[i], "--seconds") == 0)
            seconds = number_of(value);
        else if (strcmp(argv[i], "--seed") == 0)
            f.seed = (uint64_t)number_of(value);
        else if (strcmp(argv[i], "--case") == 0)
            number = number_of(value);
        else
            number_of(NULL);
    }
    snprintf(f.directory, sizeof f.directory, "/tmp/parc-fuzz.XXXXXX");
    if (!mkdtemp(f.directory)) {
        perror(f.directory);
        return 1;
    }
    setenv("ASAN_OPTIONS", "detect_leaks=0:exitcode=99", 0);
    setenv("UBSAN_OPTIONS", "halt_on_error=1:exitcode=99", 0);
    Arena *a = arena_new();
    make_nvrtc(&f, a);
    for (int i = 0; i < KINDS; i++)
        if (!only || strcmp(only, kinds[i].name) == 0)
            fuzz_kind(&f, &kinds[i], (double)seconds / (only ? 1 : KINDS),
                      number);
    directory_remove(f.directory);
    arena_free(a);
    printf("%d passed, %d failed\n", f.passed, f.failed);
    return f.failed != 0;
}
