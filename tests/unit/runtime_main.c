/* runtime_main.c: a hand-written training program: a table of letter pairs,
 * sharded flat over the ranks, that learns to predict the next letter. The test
 * runs it as a user would, option by option, and reads its output. */
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "data/data.h"
#include "tests/unit/runtime_tools.h"

enum { VOCAB = 128, BATCH = 4, SEQ = 16, CELLS = VOCAB * VOCAB };

/* Offsets into the arena, in bytes. The shard comes last: its size varies. */
enum {
    LOSS = 0, NORM = 4, RATE = 8, BIAS1 = 12, BIAS2 = 16,
    TOKENS = 64, LABELS = TOKENS + BATCH * SEQ * 4,
    TABLE = LABELS + BATCH * SEQ * 4, GRAD = TABLE + CELLS * 4,
    PIECE = GRAD + CELLS * 4, SHARD = PIECE + CELLS * 4,
    ARENA = SHARD + CELLS * 4
};

static float *at(ParcRt *rt, int offset)
{
    return (float *)(void *)(parc_arena(rt) + offset);
}

/* Trains on one letter: adds to the loss and to the gradient of its row. */
static double learn(const float *row, float *grad, int label, float weight)
{
    double top = -1e30, sum = 0;
    for (int j = 0; j < VOCAB; j++)
        top = (double)row[j] > top ? (double)row[j] : top;
    for (int j = 0; j < VOCAB; j++)
        sum += exp((double)row[j] - top);
    for (int j = 0; j < VOCAB; j++)
        grad[j] += weight * (float)(exp((double)row[j] - top) / sum);
    grad[label] -= weight;
    return log(sum) + top - (double)row[label];
}

static void no_init(ParcRt *rt)
{
    (void)rt;
}

static void step(ParcRt *rt)
{
    int64_t ranks = rt->nranks, run = (CELLS + ranks - 1) / ranks;
    const int32_t *tokens = (const int32_t *)(void *)at(rt, TOKENS);
    const int32_t *labels = (const int32_t *)(void *)at(rt, LABELS);
    double loss = 0;
    parc_all_gather(rt, 0, 1, 1,
                    &(ParcPart){SHARD, TABLE, 1, run, 0, CELLS, PARC_F32, false, false, false});
    memset(at(rt, GRAD), 0, CELLS * sizeof(float));
    for (int i = 0; i < BATCH * SEQ / ranks; i++) {
        int64_t row = (int64_t)tokens[i] * VOCAB;
        loss += learn(at(rt, TABLE) + row, at(rt, GRAD) + row, labels[i],
                      1.0f / (BATCH * SEQ));
    }
    parc_reduce_scatter(rt, 1, 1, 1,
                        &(ParcPart){GRAD, PIECE, 1, run, 0, CELLS, PARC_F32, false, false, false});
    *at(rt, NORM) = 0;
    for (int64_t i = 0; i < run; i++) {
        at(rt, SHARD)[i] -= *at(rt, RATE) * at(rt, PIECE)[i];
        *at(rt, NORM) += at(rt, PIECE)[i] * at(rt, PIECE)[i];
    }
    *at(rt, LOSS) = (float)(loss / (BATCH * SEQ));
    parc_all_reduce(rt, 0, 1, PARC_SUM, 1,
                    &(ParcPart){LOSS, LOSS, 1, 2, 0, 0, PARC_F32, false, false, false});
    *at(rt, NORM) = sqrtf(*at(rt, NORM));
}

static void bad_step(ParcRt *rt)
{
    step(rt);
    if (atomic_load(&rt->world->status[rt->rank].step) == 3)
        *at(rt, LOSS) = NAN;
}

static void fatal_step(ParcRt *rt)
{
    if (rt->rank == 1)
        raise(SIGSEGV);
    step(rt);
}

/* Rank 1 never reaches the first collective of step 2. */
static void late_step(ParcRt *rt)
{
    parc_mark(rt, 0, 5);
    while (rt->rank == 1 &&
           atomic_load(&rt->world->status[rt->rank].step) == 2)
        sleep(1);
    step(rt);
}

static void failing_step(ParcRt *rt)
{
    rt_fail(rt, "rank %d fails", rt->rank);
}

/* Rank 0 is killed when it is about to print why the run ends. */
static void dies_before_message(ParcRt *rt)
{
    _Atomic int32_t *failure = &rt->world->control->failure;
    if (rt->rank == 0) {
        atomic_store(failure, (int32_t)getpid());
        raise(SIGKILL);
    }
    while (atomic_load(failure) == RT_NO_FAILURE)
        usleep(1000);
    rt_fail(rt, "rank %d fails", rt->rank);
}

static const ParcWork works[] = {
    {.id = "k07_norm", .kind = "kernel", .source = "test.pdl:28:5",
     .nloops = 2, .loop = {{"half", 2}, {"layer", 4}}},
};

static const ParcInput inputs[] = {
    {.name = "tokens", .type = PARC_I32, .below = VOCAB, .ndim = 2,
     .dim = {BATCH, SEQ}, .batch_axes = 1, .offset = TOKENS},
    {.name = "labels", .type = PARC_I32, .is_labels = true, .below = VOCAB,
     .ndim = 2, .dim = {BATCH, SEQ}, .batch_axes = 1, .offset = LABELS},
};

enum { TWO_TO_32 = -1 }; /* ranks, on two axes */

static int train(int ranks, void (*how)(ParcRt *), char **argv)
{
    bool many = ranks == TWO_TO_32;
    const int64_t mesh[] = {many ? 65536 : ranks, 65536};
    int argc = 0;
    ParcModel m = bare_model(many ? 2 : 1, mesh, ARENA);
    ParcParam p = {.name = "table.weight", .ndim = 2, .dim = {VOCAB, VOCAB},
                   .flat_axes = ranks > 1, .offset = SHARD,
                   .local_elements = (CELLS + ranks - 1) / ranks,
                   .init = PARC_NORMAL, .a = 0.1, .placement = "a=flat"};
    memset(p.split, -1, sizeof p.split);
    m.param = &p;
    m.nparams = 1;
    m.input = inputs;
    m.ninputs = 2;
    m.batch = BATCH;
    m.seq = SEQ;
    m.info = "the plan\n";
    m.optimizer = "SGD";
    m.flops = 1e6;
    m.lr = 20;
    m.beta1 = m.beta2 = 0.5;
    m.at.loss = LOSS;
    m.at.grad_norm = NORM;
    m.at.lr = RATE;
    m.at.bias1 = BIAS1;
    m.at.bias2 = BIAS2;
    m.at.clip = -1;
    m.work = works;
    m.nwork = 1;
    m.init = no_init;
    m.step = how;
    while (argv[argc])
        argc++;
    return parc_main(argc, argv, &m);
}

/* ---- running it as a user would ---- */

typedef struct Said {
    int status;
    char out[16384], err[16384];
} Said;

static size_t slurp(const char *path, char *to, size_t capacity)
{
    FILE *f = fopen(path, "rb");
    size_t n = f ? fread(to, 1, capacity - 1, f) : 0;
    to[n] = 0;
    if (f)
        fclose(f);
    return n;
}

static void write_file(const char *name, const void *data, size_t n)
{
    FILE *f = fopen(name, "wb");
    if (!f || fwrite(data, 1, n, f) != n || fclose(f) != 0) {
        perror(name);
        exit(1);
    }
}

/* Trains in the test's own directory with the arguments of `command`, which is
 * split at blanks. */
static const Said *run(int ranks, void (*how)(ParcRt *), const char *command)
{
    static Said said;
    char text[512], *argv[32] = {"./train"};
    int argc = 1, how_it_went = 0;
    snprintf(text, sizeof text, "%s", command);
    for (char *w = strtok(text, " "); w; w = strtok(NULL, " "))
        argv[argc++] = w;
    fflush(NULL);
    pid_t p = fork();
    if (p == 0) {
        if (!freopen("out", "w", stdout) || !freopen("err", "w", stderr))
            _exit(99);
        exit(train(ranks, how, argv));
    }
    waitpid(p, &how_it_went, 0);
    said.status = WIFEXITED(how_it_went) ? WEXITSTATUS(how_it_went) : -1;
    slurp("out", said.out, sizeof said.out);
    slurp("err", said.err, sizeof said.err);
    return &said;
}

static int file_exists(const char *path)
{
    return access(path, F_OK) == 0;
}

static double loss_of(const char *log, int step_number)
{
    static char text[65536];
    char key[32];
    slurp(log, text, sizeof text);
    snprintf(key, sizeof key, "{\"step\": %d, ", step_number);
    const char *line = strstr(text, key);
    const char *loss = line ? strstr(line, "\"loss\": ") : NULL;
    return loss ? atof(loss + 8) : NAN;
}

static void make_text(void)
{
    char text[3000], one[16];
    size_t n = 0;
    for (int i = 0; n < sizeof text - 40; i++) {
        int k = snprintf(one, sizeof one, "word%d, ", i % 7);
        memcpy(text + n, one, (size_t)k);
        n += (size_t)k;
    }
    write_file("text", text, n);
    text[2500] = (char)0xC3;
    write_file("text.bad", text, n);
}

static void trains(Check *c)
{
    const Said *s = run(1, step, "--data bytes:text --steps 40 --log log1 "
                                 "--export w1");
    CHECK(c, s->status == 0);
    CHECK_TEXT(c, s->out, "");
    CHECK(c, strstr(s->err, "step 40/40  loss "));
    CHECK(c, strstr(s->err, "\n40 steps in "));
    CHECK(c, loss_of("log1", 1) > 4.5 && loss_of("log1", 40) < 2.5);
    static char text[65536];
    slurp("log1", text, sizeof text);
    static const char *const keys[] = {"grad_norm", "lr", "tokens",
                                       "tokens_per_s", "step_ms", "mfu",
                                       "peak_bytes"};
    for (int i = 0; i < 7; i++)
        CHECK(c, strstr(text, keys[i]));
    char peak[64];
    snprintf(peak, sizeof peak, "\"peak_bytes\": %d}\n", ARENA);
    CHECK(c, strstr(text, peak));
    CHECK(c, strstr(text, "\"tokens\": 2560,"));
    for (int ranks = 2; ranks <= 4; ranks += 2) {
        s = run(ranks, step, "--data bytes:text --steps 40 --log log2");
        CHECK(c, s->status == 0);
        for (int i = 1; i <= 40; i++) {
            double a = loss_of("log1", i), b = loss_of("log2", i);
            CHECK(c, fabs(a - b) < 1e-5 * a);
        }
    }
    run(1, step, "--data bytes:text --steps 60 --log log1 --shuffle");
    s = run(4, step, "--data bytes:text --steps 60 --log log2 --shuffle");
    CHECK(c, fabs(loss_of("log1", 60) - loss_of("log2", 60)) < 1e-4);
}

/* A run repeats bit by bit; other seeds and orders give other results. */
static void repeats(Check *c)
{
    run(2, step, "--data bytes:text --steps 5 --shuffle --export a");
    run(2, step, "--data bytes:text --steps 5 --shuffle --export b");
    static char a[1 << 17], b[1 << 17];
    size_t n = slurp("a", a, sizeof a), m = slurp("b", b, sizeof b);
    CHECK(c, n > CELLS * 4 && n == m && memcmp(a, b, n) == 0);
    run(2, step, "--data bytes:text --steps 5 --shuffle --seed 3 --export b");
    slurp("b", b, sizeof b);
    CHECK(c, memcmp(a, b, n) != 0);
    /* Exports initial weights and loads them, on other meshes. */
    run(4, step, "--steps 0 --seed 9 --export a");
    run(1, step, "--steps 0 --seed 9 --export b");
    slurp("a", a, sizeof a);
    slurp("b", b, sizeof b);
    CHECK(c, memcmp(a, b, n) == 0);
    const Said *s = run(2, step, "--init a --steps 0 --export b");
    slurp("b", b, sizeof b);
    CHECK(c, s->status == 0 && memcmp(a, b, n) == 0);
    s = run(2, step, "--steps 3 --log log2");
    s = run(1, step, "--steps 3 --log log1");
    CHECK(c, s->status == 0 &&
                 fabs(loss_of("log1", 3) - loss_of("log2", 3)) < 1e-4);
}

static void about(Check *c)
{
    const Said *s = run(2, step, "--info");
    CHECK(c, s->status == 0);
    CHECK_TEXT(c, s->out, "the plan\n");
    s = run(1, step, "--help");
    CHECK(c, s->status == 0 && strstr(s->out, "--print-shards NAME"));
    CHECK(c, strstr(s->out, "\n  PARC_NANCHECK=1 ") && !strstr(s->out, "PARC_SYNC"));
    s = run(1, step, "--version");
    CHECK_TEXT(c, s->out, "Test, built from test.pdl by parc 0\n");
    s = run(2, step, "--dry-run --data bytes:text --log no --export no.st");
    CHECK(c, s->status == 0 && strstr(s->out, "data      bytes:text: "));
    CHECK(c, !file_exists("no") && !file_exists("no.st"));
    s = run(3, step, "--print-shards table");
    CHECK(c, s->status == 0);
    CHECK(c, strstr(s->out, "table.weight: f32[128, 128], a=flat, on a mesh "
                            "of a=3\nrank 0: a=0 {0, 1, 2}: 5462 elements: "
                            "[0, 0] .. [42, 85]\n    values "));
    CHECK(c, strstr(s->out, "rank 2: a=2 {0, 1, 2}: 5460 elements and 2 of "
                            "padding: "));
    s = run(4, step, "--print-shards table.weight");
    CHECK(c, strstr(s->out, "rank 1: a=1 {0, 1, 2, 3}: 4096 elements: rows "
                            "32 .. 63\n"));
}

/* Values are drawn or read one at a time, without an arena. They equal those
 * that ranks draw and export. */
static void prints_values(Check *c)
{
    static char drawn[16384];
    run(4, step, "--steps 0 --seed 5 --export w");
    const Said *s = run(3, step, "--seed 5 --print-shards table.weight");
    CHECK(c, s->status == 0 && strstr(s->out, "\n    values "));
    memcpy(drawn, s->out, sizeof drawn);
    s = run(3, step, "--init w --print-shards table.weight");
    CHECK(c, s->status == 0);
    CHECK_TEXT(c, s->out, drawn);
    s = run(3, step, "--print-shards table.weight");
    CHECK(c, strcmp(s->out, drawn) != 0);
    s = run(3, step, "--seed 5 --print-shards model");
    CHECK_TEXT(c, s->out, drawn);
    s = run(3, step, "--seed 5 --print-shards *");
    CHECK_TEXT(c, s->out, drawn);
}

/* A command that must be refused, with its message and exit status. */
static void refuses(Check *c, int ranks, const char *command, int status,
                    const char *message)
{
    const Said *s = run(ranks, step, command);
    if (s->status != status || !strstr(s->err, message))
        printf("'%s': status %d\n%s", command, s->status, s->err);
    CHECK(c, s->status == status);
    CHECK(c, strstr(s->err, message));
    CHECK(c, s->out[0] == 0);
}

static void bad_usage(Check *c)
{
    refuses(c, 1, "--step 3", 2, "did you mean '--steps'?");
    refuses(c, 1, "--steps", 2, "--steps needs a value: --steps N");
    refuses(c, 1, "--steps -1", 2, "takes a whole number from 0, not '-1'");
    refuses(c, 1, "--steps=1x", 2, "not '1x'");
    refuses(c, 1, "--info=1", 2, "--info takes no value");
    refuses(c, 1, "file", 2, "unexpected argument 'file'");
    refuses(c, 1, "--save-every 3", 2, "--save-every needs --save DIR");
    refuses(c, 1, "--keep 3", 2, "--keep needs --save DIR");
    refuses(c, 1, "--resume auto", 2, "--resume auto needs --save DIR");
    refuses(c, 1, "--resume x --init y", 2, "exclude each other");
    refuses(c, 1, "--resume x", 1, "cannot read 'x': No such file");
    refuses(c, 1, "--resum x", 2, "did you mean '--resume'?");
    refuses(c, 1, "--vall x", 2, "unknown option '--vall'; did you mean '--val'?");
    refuses(c, 1, "--val-every 3", 2, "--val-every needs --val SPEC");
    refuses(c, 1, "--threads 2", 2, "was planned for 1 thread");
    refuses(c, 2, "--print-shards tabel.weight", 1,
            "--print-shards: no parameter 'tabel.weight'; did you mean "
            "'table.weight'?");
    refuses(c, 2, "--print-shards other", 1,
            "no parameter or module 'other'; the first parameter is "
            "'table.weight', and 'model' is all of them");
    refuses(c, 2, "--export w --export-only tabel", 1,
            "--export-only: no parameter or module 'tabel'");
    refuses(c, 2, "--export-only table", 2,
            "--export-only needs --export PATH");
    refuses(c, 2, "--all", 2, "--all needs --print-shards NAME");
}

static void bad_data(Check *c)
{
    static const unsigned char odd[] = {1, 0, 2};
    static uint32_t header[256 + 40] = {20240520, 1, 60};
    static uint32_t wide[40];
    write_file("odd", odd, 3);
    write_file("empty", odd, 0);
    write_file("short", "abc", 3);
    refuses(c, 2, "--data bytes:none", 1, "cannot read 'none': No such file");
    refuses(c, 2, "--data bytes:.", 1, "it is not a regular file");
    CHECK(c, mkfifo("pipe", 0600) == 0);
    refuses(c, 2, "--data bytes:pipe", 1, "it is not a regular file");
    refuses(c, 2, "--init pipe", 1, "cannot read 'pipe': it is not a regular");
    refuses(c, 2, "--data empty", 1, "empty: byte 0: error: the file is empty");
    refuses(c, 2, "--data bytes:short", 1,
            "short: byte 3: error: the file ends after 3 tokens; a sequence "
            "of 16 needs 17");
    refuses(c, 2, "--data odd", 1,
            "odd: byte 2: error: the file is truncated: a token has 2 bytes; "
            "--data bytes:odd takes each byte as a token\n");
    refuses(c, 2, "--data bytes:text.bad --steps 100", 1,
            "text.bad: byte 2500: error: token 195 is beyond the vocabulary "
            "of 128\n");
    for (int i = 0; i < 40; i++) {
        header[256 + i] = (uint32_t)i << 16 | 7;
        wide[i] = (uint32_t)i;
    }
    write_file("llmc", header, 1024 + 120);
    CHECK(c, run(2, step, "--data llmc --steps 2")->status == 0);
    write_file("llmc", header, 1024 + 119);
    refuses(c, 2, "--data llmc", 1,
            "llmc: byte 1143: error: the file is truncated: its header "
            "states 60 tokens, the file has 59");
    header[2] = 0;
    write_file("llmc", header, 1024 + 120);
    refuses(c, 2, "--data llmc", 1, "the file ends after 0 tokens; a sequence");
    header[1] = 9;
    write_file("llmc", header, 1024 + 120);
    refuses(c, 2, "--data llmc", 1, "llmc: byte 4: error: version 9");
    wide[20] = 300;
    write_file("wide", wide, sizeof wide);
    refuses(c, 2, "--data u32:wide", 1,
            "wide: byte 80: error: token 300 is beyond the vocabulary of 128");
}

/* A text file read as 16-bit tokens; random bytes read as data. */
static void kinds_of_data(Check *c)
{
    refuses(c, 2, "--data text", 1,
            "text: byte 0: error: the file is text, not 16-bit tokens; --data "
            "bytes:text takes each byte as a token, u16:text takes it as "
            "16-bit tokens anyway\n");
    refuses(c, 1, "--data u16:text", 1,
            "text: byte 2960: error: the file is truncated: a token has 2 bytes");
    write_file("utf8", "na\xC3\xAFve caf\xC3\xA9s \xE2\x82\xAC\n", 18);
    refuses(c, 1, "--data utf8", 1, "the file is text");
    write_file("latin", "na\xEFve caf\xE9s and more, and more, and more!\n", 42);
    refuses(c, 1, "--data latin", 1, "is beyond the vocabulary of 128");
    refuses(c, 1, "--data -", 1, "cannot read '-': standard input cannot be mapped");
    static const char note[] = "train: note: no --data: training on synthetic "
                               "noise; --data FILE trains on a file of tokens\n";
    const Said *s = run(4, step, "--steps 2");
    const char *first = strstr(s->err, note);
    CHECK(c, s->status == 0 && first && !strstr(first + 1, note));
    CHECK(c, !strstr(run(4, step, "--steps 2 --data synthetic")->err, "note:"));
    CHECK(c, !strstr(run(1, step, "--dry-run")->err, "note:"));
    CHECK(c, !strstr(run(1, step, "--steps 0")->err, "note:"));
}

/* '-' writes the log to standard output; progress goes elsewhere. */
static void standard_output(Check *c)
{
    const Said *s = run(2, step, "--data bytes:text --steps 3 --log -");
    CHECK(c, s->status == 0 && !file_exists("-"));
    CHECK(c, strncmp(s->out, "{\"step\": 1, ", 12) == 0);
    CHECK(c, strstr(s->out, "}\n{\"step\": 3, ") && !strstr(s->out, "left"));
    CHECK(c, strstr(s->err, "step 3/3  loss ") && !strstr(s->err, "{"));
    s = run(2, step, "--steps 1 --trace -");
    CHECK(c, s->status == 0 && strstr(s->out, "\"traceEvents\""));
    static char a[1 << 17], b[1 << 17];
    s = run(2, step, "--steps 0 --export -");
    size_t n = slurp("out", a, sizeof a);
    run(2, step, "--steps 0 --export w");
    CHECK(c, s->status == 0 && !file_exists("-") && n > CELLS * 4 &&
                 slurp("w", b, sizeof b) == n && memcmp(a, b, n) == 0);
    refuses(c, 2, "--log - --export -", 1,
            "--log and --export would both write 'standard output'");
}

/* A second run must not truncate the log of the first. */
static void one_log_for_two_runs(Check *c)
{
    static char text[64];
    write_file("taken", "a line of the other run\n", 24);
    int file = open("taken", O_WRONLY);
    CHECK(c, file >= 0 && flock(file, LOCK_EX) == 0);
    refuses(c, 2, "--steps 1 --log taken", 1,
            "cannot write 'taken': another run is writing it; give each run a "
            "--log of its own");
    slurp("taken", text, sizeof text);
    CHECK_TEXT(c, text, "a line of the other run\n");
    close(file);
    CHECK(c, run(2, step, "--steps 1 --log taken")->status == 0);
    CHECK(c, loss_of("taken", 1) > 0);
}

/* All ranks fail together, and standard error blocks the one that prints. The
 * others wait for its message: the first rank that exits ends the run. */
static void one_message(Check *c)
{
    char *argv[] = {"./train", "--data", "synthetic", NULL};
    char text[8192] = "";
    int fd[2], status = 0;
    CHECK(c, pipe(fd) == 0 && fcntl(fd[1], F_SETPIPE_SZ, 4096) > 0 &&
                 fcntl(fd[1], F_SETFL, O_NONBLOCK) == 0);
    while (write(fd[1], "\n", 1) == 1)
        ;
    fcntl(fd[1], F_SETFL, 0);
    fflush(NULL);
    pid_t p = fork();
    if (p == 0) {
        dup2(fd[1], STDERR_FILENO);
        exit(train(4, failing_step, argv));
    }
    close(fd[1]);
    usleep(500 * 1000);
    size_t n = 0;
    for (ssize_t got = 1; got > 0 && n < sizeof text - 1; n += (size_t)got)
        got = read(fd[0], text + n, sizeof text - 1 - n);
    waitpid(p, &status, 0);
    close(fd[0]);
    CHECK(c, WIFEXITED(status) && WEXITSTATUS(status) == 1);
    const char *message = strstr(text, "train: error: rank ");
    CHECK(c, message && !strstr(message + strlen("train: error:"), "error:"));

    const Said *s = run(4, dies_before_message, "--data synthetic");
    message = strstr(s->err, "train: error: rank ");
    CHECK(c, s->status == 1);
    CHECK(c, message && !strstr(message + strlen("train: error:"), "error:"));
}

/* An index may hold any numbers: positions that would overflow are refused. */
static void far_positions(Check *c)
{
    ParcInput image = {.ndim = 4, .dim = {2, 3, 224, 224}};
    ParcModel m = {.batch = 2, .seq = 8, .input = &image, .ninputs = 1};
    CHECK(c, rt_data_can_resume(&m, 1000 * 1000 * 1000, (int64_t)1 << 40));
    CHECK(c, !rt_data_can_resume(&m, INT64_MAX, 0));
    CHECK(c, !rt_data_can_resume(&m, 0, INT64_MAX));
    CHECK(c, !rt_data_can_resume(&m, 0, (int64_t)1 << 50)); /* of elements */
    m.ninputs = 0;
    CHECK(c, rt_data_can_resume(&m, 0, (int64_t)1 << 50));
    CHECK(c, !rt_data_can_resume(&m, (int64_t)1 << 60, 0));
}

static void bad_files(Check *c)
{
    refuses(c, TWO_TO_32, "--steps 1", 1,
            "the mesh (a=65536 x b=65536) has 4294967296 ranks, and a program "
            "runs on 1 to 1048576: run parc again with a smaller --mesh");
    refuses(c, 2, "--steps 1 --export none/w", 1,
            "cannot write 'none/w': No such file");
    refuses(c, 2, "--steps 1 --log none/l", 1, "cannot write 'none/l'");
    refuses(c, 2, "--steps 1 --export none/w", 1, "No such file or directory");
    refuses(c, 2, "--steps 1 --log /dev/full", 1,
            "cannot write '/dev/full': No space left");
    refuses(c, 2, "--init text", 1, "text: byte 0: error: this is not");
    run(1, step, "--steps 0 --export w");
    static char w[1 << 17];
    size_t n = slurp("w", w, sizeof w);
    write_file("w", w, n - 5);
    char message[96];
    snprintf(message, sizeof message,
             "w: byte %zu: error: the file is truncated", n - 5);
    refuses(c, 2, "--init w", 1, message);
    refuses(c, 2, "--log same --export same", 1,
            "--log and --export would both write 'same'");
    refuses(c, 2, "--log unwritten --trace ./unwritten", 1,
            "--log and --trace would both write './unwritten'");
    refuses(c, 2, "--trace same --export ./same --data bytes:text --log text",
            1, "--log would overwrite what --data reads, 'text'");
    refuses(c, 2, "--export w --data bytes:w", 1,
            "--export would overwrite what --data reads, 'w'");
    *strstr(w + 8, "table") = 'c';
    write_file("w", w, n);
    refuses(c, 2, "--init w", 1,
            "has no tensor 'table.weight'; the nearest is 'cable.weight'");
    const Said *s = run(2, bad_step, "--steps 5 --export never");
    CHECK(c, s->status == 1 && strstr(s->err, "error: step 3: the loss is not a "
                                          "number"));
    CHECK(c, !file_exists("never"));
    setenv("PARC_TIMEOUT", "1", 1);
    s = run(2, late_step, "--steps 5");
    unsetenv("PARC_TIMEOUT");
    CHECK(c, s->status == 1);
    CHECK(c, strstr(s->err, "error: rank 1 did not reach 'test 0', half 1, "
                            "layer 1, within 1 s; it is still computing in "
                            "step 2, in 'k07_norm' (test.pdl:28:5, half 1, "
                            "layer 1); rank 0 waited for it; PARC_TIMEOUT sets "
                            "the limit\n"));
    s = run(2, fatal_step, "--steps 5");
    CHECK(c, s->status == 1);
#ifndef __SANITIZE_ADDRESS__ /* the sanitizer exits instead of the signal */
    CHECK(c, strstr(s->err, "rank 1 was killed by signal 11 (Segmentation "
                            "fault) in step 1, after 'start of the run'"));
#endif
}

int main(void)
{
    char directory[] = "/tmp/parc-main-XXXXXX";
    Check c = {0};
    if (!mkdtemp(directory) || chdir(directory) != 0) {
        perror("mkdtemp");
        return 1;
    }
    make_text();
    trains(&c);
    repeats(&c);
    about(&c);
    prints_values(&c);
    bad_usage(&c);
    bad_data(&c);
    kinds_of_data(&c);
    standard_output(&c);
    one_log_for_two_runs(&c);
    one_message(&c);
    far_positions(&c);
    bad_files(&c);
    CHECK(&c, directory_remove(directory));
    return check_end(&c);
}
