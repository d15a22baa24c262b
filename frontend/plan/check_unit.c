/* check_unit.c: checks the options of an item of `fully_shard`.
 *
 * FSDP's name of a strategy implies what the axes and the other options also
 * state. An option that contradicts the strategy is an error:
 *
 *   full_shard     one axis, or two that shard together; parameters are
 *                  re-gathered for the backward pass, except for the last unit
 *                  if reshard is not given
 *   shard_grad_op  one axis, or two that shard together; reshard=false
 *   hybrid_shard   (replicate, shard); reshard=true or false
 *   no_shard       any axes; nothing is gathered
 */
#include <string.h>

#include "base/text.h"
#include "frontend/plan/plan.h"

static const StrategyInfo strategy_table[] = {
    {.name = "full_shard", .over_all = true, .reshard = -1},
    {.name = "shard_grad_op", .over_all = true, .reshard = 0},
    {.name = "no_shard", .reshard = -1, .replicas = true},
    {.name = "hybrid_shard", .hybrid = true, .reshard = -1},
};
enum { STRATEGIES = sizeof strategy_table / sizeof *strategy_table };

const StrategyInfo *strategy_find(const char *name)
{
    return table_find(strategy_table, name);
}

/* ---- options one by one -------------------------------------------------- */

static void unknown_strategy(Arena *a, Diag *d, const Expr *e)
{
    bool named = e->kind == EX_NAME || e->kind == EX_STRING;
    NameList names = {.arena = a};
    for (int i = 0; i < STRATEGIES; i++)
        names_add(&names, strategy_table[i].name, (Loc){0});
    diag_error(d, e->range, "unknown strategy%s%s%s", named ? " '" : "",
               named ? e->name : "", named ? "'" : "");
    if (named)
        names_suggest_or_list(d, &names, e->name);
}

/* PyTorch's options and their equivalents in PDL. */
static const struct ForeignOption {
    const char *name, *help;
} foreign_options[] = {
    {"reshard_after_forward", "write reshard=true or reshard=false"},
    {"mesh", "the axis follows the word: fully_shard dp { … }"},
    {"mp_policy", "write precision=bf16 and reduce=f32 in train"},
    {"offload_policy", "write offload { optimizer, parameters } in the plan"},
    {"sharding_strategy", "write strategy=full_shard"},
};

static void unknown_option(Arena *a, Diag *d, const Arg *option)
{
    static const char *const known[] = {"prefetch", "reshard", "strategy"};
    NameList names = {.arena = a};
    for (int i = 0; i < 3; i++)
        names_add(&names, known[i], (Loc){0});
    diag_error(d, option->name_loc, "fully_shard has no option '%s'",
               option->name);
    const struct ForeignOption *foreign =
        table_find(foreign_options, option->name);
    if (foreign)
        diag_help(d, "%s", foreign->help);
    else
        names_suggest_or_list(d, &names, option->name);
}

/* The options by name; NULL: not given. */
typedef struct Options {
    const Arg *strategy, *reshard, *prefetch;
} Options;

static void take_option(Arena *a, Diag *d, const Arg *option, Options *o)
{
    const Arg **slot = strcmp(option->name, "strategy") == 0 ? &o->strategy
                       : strcmp(option->name, "reshard") == 0 ? &o->reshard
                       : strcmp(option->name, "prefetch") == 0 ? &o->prefetch
                                                               : NULL;
    if (!slot) {
        unknown_option(a, d, option);
        return;
    }
    if (*slot)
        diag_error(d, option->name_loc, "'%s' is given twice", option->name);
    *slot = option;
}

/* ---- agreement of the options -------------------------------------------- */

static void check_hybrid_axes(Diag *d, const Clause *c, const StrategyInfo *s,
                              const Expr *at)
{
    if (!s->hybrid || c->naxes == 2)
        return;
    const char *axis = c->axis[0].name;
    const char *rep = strcmp(axis, "rep") == 0 ? "replica" : "rep";
    diag_error(d, at->range, "hybrid_shard needs two axes: one for replicas, "
               "one for shards");
    diag_help(d, "write fully_shard (%s, %s) with an axis '%s' of the plan "
              "before '%s', or strategy=full_shard", rep, axis, rep, axis);
}

static void check_reshard(Diag *d, const StrategyInfo *s, const Arg *reshard)
{
    const Expr *e = reshard->value;
    if (e->kind != EX_BOOL) {
        diag_error(d, e->range, "'reshard' must be true or false");
        return;
    }
    if (!s)
        return;
    bool reshards = e->integer;
    if (s->replicas && reshards) {
        diag_error(d, reshard->name_loc, "no_shard does not shard "
                   "parameters: remove 'reshard'");
    } else if (s->reshard == 0 && reshards) {
        diag_error(d, reshard->name_loc, "shard_grad_op keeps parameters "
                   "gathered until the backward pass");
        diag_help(d, "strategy=full_shard re-gathers them");
    } else if (s->over_all && s->reshard < 0 && !reshards) {
        diag_error(d, reshard->name_loc,
                   "full_shard re-gathers parameters for the backward pass");
        diag_help(d, "strategy=shard_grad_op keeps parameters gathered; or "
                  "omit the strategy");
    }
}

void check_unit(Arena *a, Diag *d, const Clause *clause, const Item *item)
{
    Options o = {0};
    for (int i = 0; i < item->noptions; i++)
        take_option(a, d, &item->option[i], &o);
    const StrategyInfo *s = NULL;
    if (o.strategy) {
        const Expr *e = o.strategy->value;
        bool named = e->kind == EX_NAME || e->kind == EX_STRING;
        s = named ? strategy_find(e->name) : NULL;
        if (!s)
            unknown_strategy(a, d, e);
        else
            check_hybrid_axes(d, clause, s, e);
    }
    if (o.reshard)
        check_reshard(d, s, o.reshard);
    if (o.prefetch && s && s->replicas)
        diag_error(d, o.prefetch->name_loc,
                   "no_shard does not gather parameters: remove 'prefetch'");
}
