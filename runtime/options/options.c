/* options.c: parses the command line of a training program.
 *
 * One table defines the names, types and help texts of all options, so --help
 * lists exactly the options that the parser accepts. */
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/message.h"
#include "device.h"
#include "options/options.h"

enum { DEFAULT_STEPS = 100, DEFAULT_TRACE_STEPS = 3, DEFAULT_TOKENS = 100 };

/* WORD: one of the words in `argument`, stored as its number from 1 on. BYTES,
 * TIME: a number with a suffix. EVERY: a number of steps, or "epoch". TEXTS: may
 * be given several times (RtTexts). */
typedef enum Kind {
    FLAG,
    NUMBER,
    REAL,
    TEXT,
    TEXTS,
    WORD,
    BYTES,
    TIME,
    EVERY,
} Kind;

typedef struct Option {
    const char *name, *argument;
    Kind kind;
    size_t field;
    int64_t least;
    const char *help;
} Option;

#define AT(field) offsetof(RtOptions, field)
static const Option options[] = {
    {"--steps", "N", NUMBER, AT(steps), 0,
     "how many steps to train (default 100); 0: none, for --export"},
    {"--epochs", "N", NUMBER, AT(epochs), 1,
     "train N epochs of the data, in place of --steps"},
    {"--data", "SPEC", TEXT, AT(data), 0,
     "tokens.bin (16-bit tokens, or llm.c's header), u16:FILE, u32:FILE,\n"
     "bytes:FILE (text, one token per byte), a data set of Megatron,\n"
     "A;B (several files, also by pattern), 0.7*A+0.3*B (a mixture),\n"
     "x=images.npy,labels=labels.npy (inputs by name, arrays of NumPy),\n"
     "synthetic (default: reproducible noise)"},
    {"--seed", "N", NUMBER, AT(seed), INT64_MIN,
     "seed of initial weights, synthetic data and --shuffle (default 0)"},
    {"--shuffle", NULL, FLAG, AT(shuffle), 0,
     "take the sequences of a file in a new order each epoch"},
    {"--init", "PATH", TEXTS, AT(init), 0,
     "start from the weights in PATH: a safetensors file, a directory, or\n"
     "model.safetensors.index.json; given several times: a later PATH takes\n"
     "precedence"},
    {"--init-partial", NULL, FLAG, AT(init_partial), 0,
     "tensors that --init's files lack keep their initial values"},
    {"--export", "PATH", TEXT, AT(export_to), 0,
     "write the weights after the last step to PATH (safetensors): a file,\n"
     "or a directory (an existing one, or PATH/) or an index;\n"
     "for --export, --log and --trace '-' is standard output"},
    {"--export-dtype", "f32|bf16|f16", WORD, AT(export_dtype), 0,
     "element type of the exported tensors (default f32)"},
    {"--export-names", "hf|parc", WORD, AT(export_names), 0,
     "names and layouts of the exported tensors: those of the model's block\n"
     "'names hf' (default, if it has one), or the model's own"},
    {"--export-only", "NAME", TEXTS, AT(export_only), 0,
     "export only the parameter or module NAME, or those that a pattern\n"
     "matches: 'layers.*.lora_*'; may be given several times"},
    {"--export-ema", NULL, FLAG, AT(export_ema), 0,
     "export the averages of the weights that the setting ema keeps"},
    {"--export-shard-size", "SIZE", BYTES, AT(export_shard_bytes), 1,
     "largest file of an exported directory (default 5GB); MB, GiB, …"},
    {"--save", "DIR", TEXT, AT(save), 0,
     "save a checkpoint to DIR/step-<number> after the last step"},
    {"--save-every", "N|epoch", EVERY, AT(save_every), 1,
     "save a checkpoint after each N steps, or after each epoch, too"},
    {"--keep", "N", NUMBER, AT(keep), 1,
     "keep the newest N checkpoints of --save's directory (default: all)"},
    {"--save-async", NULL, FLAG, AT(save_async), 0,
     "write checkpoints while the run continues, from a copy in host memory"},
    {"--resume", "DIR", TEXT, AT(resume), 0,
     "continue from the newest checkpoint in DIR, or from one checkpoint\n"
     "(DIR/step-<number>); auto: from --save's directory, if it has one"},
    {"--set", "NAME=VALUE", TEXTS, AT(settings), 0,
     "change optimizer.lr, clip, schedule.warmup, schedule.steps,\n"
     "schedule.decay or schedule.min_lr; may be given several times"},
    {"--log", "FILE", TEXT, AT(log), 0,
     "write one JSON object per step to FILE"},
    {"--tensorboard", "DIR", TEXT, AT(tensorboard), 0,
     "write the curves of the log to a new event file in DIR"},
    {"--trace", "FILE", TEXT, AT(trace), 0,
     "write a timeline of all ranks for a few steps to FILE (JSON, for\n"
     "ui.perfetto.dev or chrome://tracing)"},
    {"--trace-steps", "N", NUMBER, AT(trace_steps), 1,
     "how many steps --trace records (default 3), after two warm-up steps"},
    {"--threads", "N", NUMBER, AT(threads), 1,
     "threads per rank; at most as many as the program was planned for"},
    {"--info", NULL, FLAG, AT(info), 0,
     "print the plan that the program was built from, and stop"},
    {"--print-shards", "NAME", TEXT, AT(print_shards), 0,
     "print which rank stores which elements of the parameter or module\n"
     "NAME ('model': all parameters), and stop"},
    {"--all", NULL, FLAG, AT(all), 0, "with --print-shards: every value"},
    {"--dry-run", NULL, FLAG, AT(dry_run), 0,
     "prepare the run, print what would run, and stop before step 1"},
    {"--max-time", "TIME", TIME, AT(max_time), 1,
     "stop after the step during which this time has passed since the start:\n"
     "30s, 90m, 3h, 1d, or a number of seconds"},
    {"--val", "SPEC", TEXT, AT(val), 0,
     "validation data, a SPEC as for --data: report its loss after the last\n"
     "step"},
    {"--val-every", "N|epoch", EVERY, AT(val_every), 1,
     "and after every N steps, or after each epoch"},
    {"--val-steps", "N", NUMBER, AT(val_steps), 1,
     "use only the first N batches of the validation data"},
    {"--eval", NULL, FLAG, AT(eval), 0,
     "print the loss of --val as JSON, and stop; trains no step"},
    {"--predict", "FILE", TEXT, AT(predict), 0,
     "write the model's outputs for all samples of --data to FILE\n"
     "(safetensors), and stop; trains no step"},
    {"--sample", "TEXT", TEXT, AT(sample), 0,
     "print TEXT and what the model continues it with, and stop; for models\n"
     "of bytes. With --steps N it trains first"},
    {"--sample-ids", "LIST", TEXT, AT(sample_ids), 0,
     "the same with token ids: 1,2,3"},
    {"--tokens", "N", NUMBER, AT(tokens), 1,
     "how many tokens to sample (default 100)"},
    {"--temperature", "T", REAL, AT(temperature), 0,
     "sample with probabilities exp(logit / T); default 0: the token with\n"
     "the largest logit"},
    {"--top-k", "K", NUMBER, AT(top_k), 1,
     "sample from the K most probable tokens"},
    {"--help", NULL, FLAG, AT(help), 0, "print this; also -h"},
    {"--version", NULL, FLAG, AT(version), 0,
     "print the model's name and parc's version; also -V"},
};
enum { NOPTIONS = sizeof options / sizeof options[0] };

/* Variables that every target reads; rt_device_variables lists those of a
 * target. */
static const RtVariable variables[] = {
    {"PARC_TIMEOUT=N",
     "seconds that a rank waits for others (default 300); then the run\n"
     "ends and names the rank that is late"},
    {"PARC_NANCHECK=1",
     "check all results, and end the run at the first value that is not\n"
     "finite, with its tensor and line; slow"},
    {"PARC_TOKEN=TEXT",
     "secret of a job that a launcher starts: 16 characters or more, equal\n"
     "on all ranks; PARC_TOKEN_FILE=FILE reads it from a file"},
    {"PARC_MASTER=HOST:PORT", "where rank 0 of such a job listens"},
    {"PARC_LAUNCHER=none",
     "start all ranks on this machine, even under a launcher"},
    {"PARC_MEMCHECK=0",
     "start even if this machine has less memory available than the ranks need"},
    {NULL, NULL},
};

/* Prints a row of the help; the help text may have several lines. */
static void print_row(const char *left, const char *help)
{
    for (const char *line = help; line;) {
        const char *end = strchr(line, '\n');
        int n = end ? (int)(end - line) : (int)strlen(line);
        printf("  %-21s  %.*s\n", line == help ? left : "", n, line);
        line = end ? end + 1 : NULL;
    }
}

static void print_variables(const RtVariable *v)
{
    for (; v->name; v++)
        print_row(v->name, v->help);
}

void rt_usage(const RtOptions *o, const ParcModel *model)
{
    printf("usage: %s [options]\n\nTrains %s (built from %s by parc %s).\n\n",
           o->program, model->name, model->source, model->parc_version);
    for (int i = 0; i < NOPTIONS; i++) {
        const Option *p = &options[i];
        char left[32];
        snprintf(left, sizeof left, "%s%s%s", p->name, p->argument ? " " : "",
                 p->argument ? p->argument : "");
        print_row(left, p->help);
    }
    printf("\nenvironment variables:\n");
    print_variables(variables);
    print_variables(rt_device_variables);
}

static int usage_error(const RtOptions *o)
{
    rt_say("try '%s --help'", o->program);
    return 2;
}

static const Option *option_named(const char *arg, size_t n)
{
    if (n == 2 && strncmp(arg, "-h", n) == 0)
        return option_named("--help", strlen("--help"));
    if (n == 2 && strncmp(arg, "-V", n) == 0)
        return option_named("--version", strlen("--version"));
    for (int i = 0; i < NOPTIONS; i++)
        if (strlen(options[i].name) == n &&
            strncmp(options[i].name, arg, n) == 0)
            return &options[i];
    return NULL;
}

/* Options that other training programs have. */
static const struct OtherOption {
    const char *name, *help;
} other_options[] = {
    {"lr", "--set optimizer.lr=VALUE sets the learning rate"},
    {"learning-rate", "--set optimizer.lr=VALUE sets the learning rate"},
    {"min-lr", "--set schedule.min_lr=VALUE sets it"},
    {"warmup", "--set schedule.warmup=N sets it"},
    {"warmup-steps", "--set schedule.warmup=N sets it"},
    {"clip", "--set clip=VALUE sets it"},
    {"grad-clip", "--set clip=VALUE sets it"},
    {"max-grad-norm", "--set clip=VALUE sets it"},
    {"num-epochs", "--epochs N sets the length of the run"},
    {"max-steps", "--steps N sets the length of the run"},
    {"batch", "the batch is a part of the program: compile again with "
              "-D batch=N"},
    {"batch-size", "the batch is a part of the program: compile again with "
                   "-D batch=N"},
    {"seq-len", "the length is a part of the program: compile again with "
                "-D seq=N"},
    {"precision", "the precision is a part of the program: compile again with "
                  "-D precision=bf16"},
    {"output-dir", "--save DIR writes checkpoints"},
    {"checkpoint-dir", "--save DIR writes checkpoints"},
};

/* The row for "--batch_size" or "--batch-size"; NULL: none. */
static const struct OtherOption *other_option(const char *name)
{
    char word[64];
    size_t n = 0;
    for (name += strspn(name, "-"); *name && n < sizeof word - 1; name++)
        word[n++] = *name == '_' ? '-' : *name;
    word[n] = 0;
    for (size_t i = 0; i < sizeof other_options / sizeof *other_options; i++)
        if (strcmp(other_options[i].name, word) == 0)
            return &other_options[i];
    return NULL;
}

static bool unknown(const char *arg, size_t n)
{
    const char *names[NOPTIONS];
    int nnames = 0;
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)n, arg);
    for (int i = 0; i < NOPTIONS; i++)
        names[nnames++] = options[i].name + 2; /* without "--" */
    const char *near = rt_near_miss(name + strspn(name, "-"), names, nnames);
    if (arg[0] != '-')
        return rt_error("unexpected argument '%s'", arg);
    const struct OtherOption *other = other_option(name);
    if (other)
        return rt_error("unknown option '%s'; %s", name, other->help);
    if (near)
        return rt_error("unknown option '%s'; did you mean '--%s'?", name,
                        near);
    return rt_error("unknown option '%s'", name);
}

static bool set_number(RtOptions *o, const Option *p, const char *value)
{
    char *end;
    errno = 0;
    if (p->kind == EVERY && strcmp(value, "epoch") == 0) {
        memcpy((char *)o + p->field, &(int64_t){RT_EPOCH}, sizeof(int64_t));
        return true;
    }
    long long n = strtoll(value, &end, 10);
    if (end == value || *end || errno || n < p->least)
        return rt_error("%s takes a whole number%s%s, not '%s'", p->name,
                        p->least == 0   ? " from 0"
                        : p->least == 1 ? " from 1"
                                        : "",
                        p->kind == EVERY ? " or 'epoch'" : "", value);
    memcpy((char *)o + p->field, &(int64_t){n}, sizeof(int64_t));
    o->seed_given |= p->field == AT(seed);
    return true;
}

static bool set_real(RtOptions *o, const Option *p, const char *value)
{
    char *end;
    double x = strtod(value, &end);
    if (end == value || *end || !isfinite(x) || x < (double)p->least)
        return rt_error("%s takes a number from %lld, not '%s'", p->name,
                        (long long)p->least, value);
    memcpy((char *)o + p->field, &x, sizeof x);
    return true;
}

/* Finds `value` among the words of the option's argument: "f32|bf16". */
static bool set_word(RtOptions *o, const Option *p, const char *value)
{
    int64_t number = 1;
    size_t n = strlen(value);
    for (const char *w = p->argument; *w; number++) {
        size_t size = strcspn(w, "|");
        if (size == n && strncmp(w, value, n) == 0) {
            memcpy((char *)o + p->field, &number, sizeof number);
            return true;
        }
        w += size + (w[size] == '|');
    }
    return rt_error("%s is one of %s, not '%s'", p->name, p->argument, value);
}

/* The suffix of a number, in bytes or seconds. */
typedef struct Suffix {
    const char *name;
    int64_t size;
} Suffix;
static const Suffix of_bytes[] = {
    {"", 1},          {"KB", 1000},     {"MB", 1000000}, {"GB", 1000000000},
    {"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {NULL, 0}};
static const Suffix of_time[] = {{"", 1},     {"s", 1},     {"m", 60},
                                 {"h", 3600}, {"d", 86400}, {NULL, 0}};

/* "5GB" is 5000000000 bytes, "90m" 5400 seconds. */
static bool set_units(RtOptions *o, const Option *p, const char *value)
{
    bool is_time = p->kind == TIME;
    char *end;
    errno = 0;
    long long n = strtoll(value, &end, 10);
    for (const Suffix *u = is_time ? of_time : of_bytes; u->name; u++)
        if (end != value && !errno && n > 0 && strcmp(end, u->name) == 0 &&
            n <= INT64_MAX / u->size) {
            int64_t total = n * u->size;
            memcpy((char *)o + p->field, &total, sizeof total);
            return true;
        }
    return rt_error("%s takes %s, not '%s'", p->name,
                    is_time ? "a time such as 30s, 90m, 3h or 1d"
                            : "a size such as 500MB, 5GB or 2GiB",
                    value);
}

static bool add_text(RtOptions *o, const Option *p, const char *value)
{
    RtTexts *t = (RtTexts *)(void *)((char *)o + p->field);
    int most = sizeof t->at / sizeof t->at[0];
    if (t->n == most)
        return rt_error("%s is given more than %d times", p->name, most);
    t->at[t->n++] = value;
    return true;
}

/* Sets one option; `value` is NULL if none was given. */
static bool apply_option(RtOptions *o, const Option *p, const char *value)
{
    if (p->kind == FLAG) {
        if (value)
            return rt_error("%s takes no value", p->name);
        memcpy((char *)o + p->field, &(bool){true}, sizeof(bool));
        return true;
    }
    if (!value || !*value)
        return rt_error("%s needs a value: %s %s", p->name, p->name,
                        p->argument);
    switch (p->kind) {
    case NUMBER:
    case EVERY:
        return set_number(o, p, value);
    case REAL:
        return set_real(o, p, value);
    case WORD:
        return set_word(o, p, value);
    case BYTES:
    case TIME:
        return set_units(o, p, value);
    case TEXTS:
        return add_text(o, p, value);
    case FLAG:
    case TEXT:
        break;
    }
    memcpy((char *)o + p->field, &value, sizeof value);
    return true;
}

/* Checks that each option has the one that it needs, and excludes others. */
static bool check_rules(const RtOptions *o)
{
    bool samples = o->sample || o->sample_ids, saves = o->save != NULL;
    bool automatic = o->resume && strcmp(o->resume, "auto") == 0;
    const struct {
        bool broken;
        const char *error;
    } rule[] = {
        {o->save_every && !saves, "--save-every needs --save DIR"},
        {o->keep && !saves, "--keep needs --save DIR"},
        {o->save_async && !saves, "--save-async needs --save DIR"},
        {automatic && !saves, "--resume auto needs --save DIR"},
        {o->init_partial && o->init.n == 0, "--init-partial needs --init PATH"},
        {o->export_dtype && !o->export_to,
         "--export-dtype needs --export PATH"},
        {o->export_names && !o->export_to,
         "--export-names needs --export PATH"},
        {o->export_ema && !o->export_to,
         "--export-ema needs --export PATH"},
        {o->export_only.n > 0 && !o->export_to,
         "--export-only needs --export PATH"},
        {o->export_shard_bytes && !o->export_to,
         "--export-shard-size needs --export PATH/"},
        {o->resume && o->init.n > 0, "--init and --resume exclude each other: "
                                     "a checkpoint has weights"},
        {o->eval && !o->val, "--eval needs --val SPEC"},
        {o->epochs && o->steps_given,
         "--epochs and --steps exclude each other"},
        {o->epochs && (o->eval || o->predict),
         "--epochs: --eval and --predict train no step"},
        {o->predict && !o->data, "--predict needs --data SPEC"},
        {o->predict && o->steps > 0,
         "--predict trains no step: leave --steps out"},
        {o->all && !o->print_shards, "--all needs --print-shards NAME"},
        {o->val_every && !o->val, "--val-every needs --val SPEC"},
        {o->val_steps && !o->val, "--val-steps needs --val SPEC"},
        {o->temperature > 0 && !samples, "--temperature needs --sample TEXT"},
        {o->top_k && o->temperature == 0, "--top-k needs --temperature T"},
        {o->sample && o->sample_ids, "--sample and --sample-ids exclude each "
                                     "other"},
    };
    for (size_t i = 0; i < sizeof rule / sizeof rule[0]; i++)
        if (rule[i].broken)
            return rt_error("%s", rule[i].error);
    return true;
}

int rt_options(RtOptions *o, int argc, char **argv)
{
    const char *slash = argc > 0 ? strrchr(argv[0], '/') : NULL;
    memset(o, 0, sizeof *o);
    o->program = slash ? slash + 1 : argc > 0 ? argv[0] : "train";
    rt_message_program(o->program);
    o->steps = -1;
    o->tokens = DEFAULT_TOKENS;
    o->trace_steps = DEFAULT_TRACE_STEPS;
    for (int i = 1; i < argc; i++) {
        const char *equals = strchr(argv[i], '=');
        size_t n = equals ? (size_t)(equals - argv[i]) : strlen(argv[i]);
        const Option *p = option_named(argv[i], n);
        const char *value = equals ? equals + 1 : NULL;
        if (p && p->kind != FLAG && !equals && i + 1 < argc)
            value = argv[++i];
        if (!(p ? apply_option(o, p, value) : unknown(argv[i], n)))
            return usage_error(o);
    }
    bool only_reads = o->eval || o->sample || o->sample_ids || o->predict;
    o->steps_given = o->steps >= 0;
    if (o->eval || o->steps < 0)
        o->steps = only_reads ? 0 : DEFAULT_STEPS;
    return check_rules(o) ? -1 : usage_error(o);
}
