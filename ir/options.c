/* options.c: the rows of options.def, and access to the fields that they name.
 */
#include "ir/options.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

#include "base/text.h"
#include "ir/ir.h"

/* ---- words --------------------------------------------------------------- */

static const OptionWord type_words[] = {
    {"f32", DT_F32, NULL}, {"bf16", DT_BF16, NULL}, {"f16", DT_F16, NULL}, {0}};
static const OptionWord reduce_words[] = {
    {"f32", DT_F32, NULL}, {"bf16", DT_BF16, NULL}, {0}};
static const OptionWord optimizer_words[] = {
    {"SGD", OPT_SGD, "gradient descent, with momentum if it is not 0"},
    {"Adam", OPT_ADAM, "averages of gradients and of their squares"},
    {"AdamW", OPT_ADAMW, "Adam, with weight decay apart from the gradient"},
    {"Lion", OPT_LION,
     "the sign of an average of gradients, with weight decay as in AdamW"},
    {"Muon", OPT_MUON,
     "of each matrix the momentum with all singular values near 1, with weight "
     "decay as in AdamW"},
    {"Adafactor", OPT_ADAFACTOR,
     "squares of gradients as the product of their means by row and by column, steps "
     "relative to the size of the parameter"},
    {0}};
static const OptionWord adjust_words[] = {
    {"original", ADJUST_ORIGINAL, NULL},
    {"match_rms_adamw", ADJUST_RMS, NULL},
    {"spectral_unclamped", ADJUST_UNCLAMPED, NULL},
    {0}};
/* The values are those of ParamGroup.adamw. */
static const OptionWord group_optimizer_words[] = {
    {"Muon", false, NULL}, {"AdamW", true, NULL}, {0}};
static const OptionWord schedule_words[] = {
    {"constant", SCHEDULE_CONSTANT,
     "lr t / warmup up to step `warmup`, then lr"},
    {"linear", SCHEDULE_LINEAR,
     "the same warm-up, then linear decay to `min_lr`"},
    {"cosine", SCHEDULE_COSINE,
     "the same warm-up, then decay along half a cosine"},
    {"wsd", SCHEDULE_WSD,
     "warm-up, stable, decay: the same warm-up, then lr, then over the last "
     "`decay` steps to `min_lr`"},
    {"piecewise", SCHEDULE_PIECEWISE,
     "the same warm-up, then lr up to the first step of `after`, the first of "
     "`rates` up to the second, and so on"},
    {0}};
static const OptionWord shape_words[] = {
    {"linear", DECAY_LINEAR, NULL},
    {"sqrt", DECAY_SQRT, NULL},
    {"cosine", DECAY_COSINE, NULL},
    {0}};
static const OptionWord recompute_words[] = {
    {"all", RECOMPUTE_ALL,
     "elementwise ops, copies of tokens for experts, and all-gathers over tensor axes, where "
     "that saves memory"},
    {"elementwise", RECOMPUTE_ELEMENTWISE,
     "elementwise ops and copies of tokens for experts, where that saves memory; gathered "
     "activations are saved"},
    {"fused", RECOMPUTE_FUSED,
     "what a kernel of the backward pass computes on the way, with less memory "
     "traffic than reading it; all else is saved"},
    {0}};
/* The values are those of Train.bare_matmuls. */
static const OptionWord epilogue_words[] = {
    {"all", false, NULL}, {"none", true, NULL}, {0}};
static const OptionWord strategy_words[] = {
    {"full_shard", STRATEGY_FULL_SHARD,
     "over one axis, or over two axes as if they were one: a rank stores its "
     "part of each parameter, gradient and optimizer state; parameters are "
     "gathered for use"},
    {"shard_grad_op", STRATEGY_SHARD_GRAD_OP,
     "the same, but gathered once per step: the same as `reshard=false`"},
    {"no_shard", STRATEGY_NO_SHARD,
     "replicas: every rank stores all parameters, gradients are all-reduced"},
    {"hybrid_shard", STRATEGY_HYBRID_SHARD,
     "over two axes, `fully_shard (rep, dp)`: sharded over `dp`, replicated "
     "over `rep`; a collective runs over one of them"},
    {0}};
static const OptionWord often_words[] = {
    {"microbatch", PER_MICROBATCH, NULL}, {"step", PER_STEP, NULL}, {0}};
static const OptionWord keep_words[] = {
    {"attention", 0, "results of attention are saved"},
    {"matmul", 1, "results of all contractions and convolutions are saved"},
    {"all_to_all", 2, "results of all-to-alls are saved: the rows of a rank's experts, and with "
                       "`context` queries, keys and values of its heads"},
    {0}};
static const OptionWord offload_words[] = {
    {"optimizer", 0, "optimizer states"},
    {"parameters", 1, "parameters, or a rank's shards of them"},
    {0}};

static const OptionWord pipeline_words[] = {
    {"gpipe", PIPELINE_GPIPE,
     "all microbatches forward, then all backward"},
    {"1f1b", PIPELINE_1F1B,
     "the backward pass of a microbatch as soon as possible: fewer microbatches "
     "are in memory"},
    {"interleaved", PIPELINE_INTERLEAVED,
     "the same with several stages on each rank: a shorter bubble, more "
     "transfers"},
    {"zero_bubble", PIPELINE_ZERO_BUBBLE,
     "the gradients of weights are computed where a rank would wait"},
    {0}};

static const OptionWord dispatch_words[] = {
    {"gather", DISPATCH_GATHER,
     "a rank gets all tokens of its group; shares of the results are reduced and scattered"},
    {"all_to_all", DISPATCH_ALL_TO_ALL,
     "a rank gets the tokens of its experts, and returns their results"},
    {0}};

static const OptionWord exchange_words[] = {
    {"auto", EXCHANGE_AUTO,
     "`heads` if heads can be split, else `gather` if keys and values of whole sequences are few, else `ring`"},
    {"heads", EXCHANGE_HEADS,
     "a rank gets whole sequences of its part of the heads, and returns their results"},
    {"gather", EXCHANGE_GATHER,
     "a rank gets the keys and values of whole sequences, for its queries"},
    {"ring", EXCHANGE_RING,
     "ranks pass keys and values on, and attend to those of one rank at a time"},
    {0}};

/* ---- rows ---------------------------------------------------------------- */

typedef Train StructTRAIN, StructOPTIMIZER, StructSCHEDULE;
typedef ParamGroup StructGROUP;
typedef Unit StructFULLY_SHARD;
typedef Checkpoint StructCHECKPOINT;
typedef PlanSpec StructOFFLOAD;
typedef Pipeline StructPIPELINE;
typedef Context StructCONTEXT;
typedef ExpertItem StructEXPERTS;

#define MOST 0x1p40 /* exact in a double, and products of two fit 128 bits */
#define SIZE .low = 1, .high = MOST
#define FIELD_SIZE(takes, scope, field)                                 \
    (TAKES_##takes == TAKES_PAIR ? 2 * sizeof(double)                   \
                                 : sizeof ((Struct##scope *)0)->field)

const Option option_rows[OPTIONS] = {
#define CLAUSE(...)
#define OPTION(in, id, word, kind, field, ...)                           \
    [OPTION_##id] = {.name = word, .scope = SCOPE_##in,                   \
                     .takes = TAKES_##kind,                               \
                     .at = offsetof(Struct##in, field),                   \
                     .size = FIELD_SIZE(kind, in, field), __VA_ARGS__},
#define OPTION_WITHOUT_FIELD(in, id, word, kind, ...)                     \
    [OPTION_##id] = {.name = word, .scope = SCOPE_##in,                   \
                     .takes = TAKES_##kind, __VA_ARGS__},
#include "ir/options.def"
#undef OPTION
#undef OPTION_WITHOUT_FIELD
#undef CLAUSE
};

const ClauseInfo clause_rows[CLAUSES] = {
#define CLAUSE(id, name, form, scope, see, help) \
    [CL_##id] = {name, form, scope, see, help},
#define OPTION(...)
#define OPTION_WITHOUT_FIELD(...)
#include "ir/options.def"
};

/* ---- names --------------------------------------------------------------- */

const char *option_prefix(OptionScope scope)
{
    return scope == SCOPE_TRAIN       ? ""
           : scope == SCOPE_OPTIMIZER ? "optimizer."
           : scope == SCOPE_SCHEDULE  ? "schedule."
                                      : NULL;
}

const Option *option_find(OptionScope scope, const char *name)
{
    for (int i = 0; i < OPTIONS; i++)
        if (option_rows[i].scope == scope &&
            strcmp(option_rows[i].name, name) == 0)
            return &option_rows[i];
    return NULL;
}

const char *options_of_program(Arena *a)
{
    const char *text = "";
    for (const Option *o = option_rows; o < option_rows + OPTIONS; o++)
        if (option_prefix(o->scope) && !o->run)
            text = arena_printf(a, "%s%s%s%s", text, *text ? " " : "",
                                option_prefix(o->scope), o->name);
    return text;
}

bool option_is_readable(const char *name)
{
    const Option *o = option_find(SCOPE_TRAIN, name);
    return o && o->readable;
}

const ClauseInfo *clause_find(const char *name)
{
    return row_find(clause_rows, CLAUSES, name);
}

const char *option_word(OptionName id, int64_t value)
{
    const OptionWord *w = option_rows[id].words;
    while (w->name && w->value != value)
        w++;
    return w->name;
}

const char *option_dump_word(Arena *a, const Option *o, int64_t value)
{
    const char *name = option_word((OptionName)(o - option_rows), value);
    char *text = arena_strdup(a, name);
    for (char *c = text; *c; c++)
        *c = (char)tolower((unsigned char)*c);
    return text;
}

/* ---- fields -------------------------------------------------------------- */

int64_t option_integer(const Option *o, const void *of)
{
    const void *at = (const char *)of + o->at;
    return o->size == sizeof(bool)      ? *(const bool *)at
           : o->size == sizeof(int32_t) ? *(const int32_t *)at
                                        : *(const int64_t *)at;
}

double option_number(const Option *o, const void *of, int i)
{
    const void *at = (const char *)of + o->at;
    return ((const double *)at)[i];
}

void option_store_integer(const Option *o, void *of, int64_t x)
{
    void *at = (char *)of + o->at;
    if (o->size == sizeof(bool))
        *(bool *)at = x;
    else if (o->size == sizeof(int32_t))
        *(int32_t *)at = (int32_t)x;
    else
        *(int64_t *)at = x;
}

void option_store_number(const Option *o, void *of, int i, double x)
{
    void *at = (char *)of + o->at;
    ((double *)at)[i] = x;
}

bool option_is_number(const Option *o)
{
    return o->takes == TAKES_NUMBER || o->takes == TAKES_LIMIT ||
           o->takes == TAKES_PAIR;
}

bool option_is_list(const Option *o)
{
    return o->takes == TAKES_INTS || o->takes == TAKES_NUMBERS;
}

const NumberList *option_list(const Option *o, const void *of)
{
    const void *at = (const char *)of + o->at;
    return at;
}

void option_store_list(const Option *o, void *of, const NumberList *list)
{
    void *at = (char *)of + o->at;
    *(NumberList *)at = *list;
}

bool option_list_takes(const Option *o, const NumberList *list, double x)
{
    if (o->takes == TAKES_NUMBERS)
        return x > o->low && isfinite(x);
    return x >= o->low && x <= o->high && x == floor(x) &&
           (list->n == 0 || x > list->v[list->n - 1]);
}

bool option_is_initial(const Option *o, const void *of)
{
    if (option_is_list(o))
        return option_list(o, of)->n == 0;
    if (!option_is_number(o))
        return option_integer(o, of) == (int64_t)o->initial;
    return option_number(o, of, 0) == o->initial &&
           (o->takes != TAKES_PAIR || option_number(o, of, 1) == o->second);
}

bool option_is_of(const Option *o, int choice)
{
    return !o->of || o->of >> choice & 1;
}

const struct OwnDefault *option_own_default(const Option *o, int choice)
{
    for (const struct OwnDefault *d = o->own; d->of; d++)
        if (d->of >> choice & 1)
            return d;
    return NULL;
}

void options_init(OptionScope scope, int choice, void *of)
{
    for (const Option *o = option_rows; o < option_rows + OPTIONS; o++) {
        if (o->scope != scope || o->size == 0 || o->selects)
            continue;
        const struct OwnDefault *own = option_own_default(o, choice);
        double x = own ? own->initial : o->initial;
        if (option_is_list(o))
            option_store_list(o, of, &(NumberList){0});
        else if (!option_is_number(o))
            option_store_integer(o, of, (int64_t)x);
        else
            option_store_number(o, of, 0, x);
        if (o->takes == TAKES_PAIR)
            option_store_number(o, of, 1, own ? own->second : o->second);
        if (o->takes == TAKES_CALL)
            options_init(o->args, (int)x, of);
    }
}
