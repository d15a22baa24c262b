/* roles.h: finds the weight of each module, and tells what its dims are.
 *
 * ColwiseParallel and RowwiseParallel split the weight of a module. It is found
 * by what the module's own forward does, not by the name of its class. The
 * weight is a 2-D parameter. The forward contracts one of its dims with the
 * last dim of the module's first input (Linear), or looks up its rows
 * (Embedding).
 */
#ifndef PARC_IR_PLAN_ROLES_H
#define PARC_IR_PLAN_ROLES_H

#include "ir/ir.h"

enum { MAX_BIASES = 4 };

typedef struct WeightRole {
    int param;
    const char *path;    /* path of the module */
    bool lookup;         /* rows are looked up, nothing is contracted */
    int in_dim, out_dim; /* dims of the parameter: the contracted one (or the
                          * rows), and the one that is the result's last dim */
    int bias[MAX_BIASES]; /* 1-D parameters of the module that elementwise ops
                           * join with the result */
    int nbiases;
} WeightRole;
typedef VEC(WeightRole) WeightRoles;

/* The roles of all weights, in program order; each weight is a parameter that
 * its module declares. */
WeightRoles weight_roles(const Program *p);
/* The role of the module's only weight; NULL if it has none or several: then
 * *n is how many. */
const WeightRole *weight_role_of(const WeightRoles *roles, const char *module,
                                 int *n);

/* Whether the module itself declares the parameter, under any of its names. */
bool module_declares(const Program *p, const char *module, int param);

/* The value outside of all loops that v is an argument of; NULL for a carry. */
const Value *value_outside(const Value *v);
/* The parameter whose value v is, as it is or cast; -1: none. */
int value_param(const Value *v);

#endif
