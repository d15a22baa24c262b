/* read_unit.c: reads the options of an item of `fully_shard`, and checks that
 * they agree with each other and with the clause's axes.
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

#include "frontend/plan/plan.h"

static void check_hybrid_axes(Lower *l, const Clause *c, const Expr *at)
{
    if (c->naxes == 2)
        return;
    const char *axis = c->axis[0].name;
    const char *rep = strcmp(axis, "rep") == 0 ? "replica" : "rep";
    diag_error(l->diag, at->range, "hybrid_shard needs two axes: one for "
               "replicas, one for shards");
    diag_help(l->diag, "write fully_shard (%s, %s) with an axis '%s' of the "
              "plan before '%s', or strategy=full_shard", rep, axis, rep,
              axis);
}

static void check_reshard(Lower *l, const Unit *u, const Arg *reshard)
{
    if (u->strategy == STRATEGY_NO_SHARD && u->reshard) {
        diag_error(l->diag, reshard->name_loc, "no_shard does not shard "
                   "parameters: remove '%s'", reshard->name);
    } else if (u->strategy == STRATEGY_SHARD_GRAD_OP && u->reshard) {
        diag_error(l->diag, reshard->name_loc, "shard_grad_op keeps parameters "
                   "gathered until the backward pass");
        diag_help(l->diag, "with strategy=full_shard they are re-gathered");
    } else if (u->strategy == STRATEGY_FULL_SHARD && !u->reshard) {
        diag_error(l->diag, reshard->name_loc,
                   "full_shard re-gathers parameters for the backward pass");
        diag_help(l->diag, "write strategy=shard_grad_op, which keeps them, or "
                  "omit the strategy");
    }
}

void read_unit(Lower *l, const Clause *clause, const Item *item, Unit *u)
{
    GivenOptions given;
    options_read(l, clause->kind, item, u, &given);
    const Arg *strategy = given.at[OPTION_strategy];
    const Arg *reshard = given.at[OPTION_reshard];
    const Arg *prefetch = given.at[OPTION_prefetch];
    if (u->strategy == STRATEGY_HYBRID_SHARD)
        check_hybrid_axes(l, clause, strategy->value);
    if (reshard)
        check_reshard(l, u, reshard);
    else if (u->strategy == STRATEGY_SHARD_GRAD_OP)
        u->reshard = 0;
    if (prefetch && u->strategy == STRATEGY_NO_SHARD)
        diag_error(l->diag, prefetch->name_loc, "no_shard does not gather "
                   "parameters: remove '%s'", prefetch->name);
    if (item->min_params)
        option_read(l, &option_rows[OPTION_min_params], item->min_params, u);
}
