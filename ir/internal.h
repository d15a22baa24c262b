/* internal.h: declares what only files of ir/ use: construction of ops without
 * checks, the text of sharding rules, checks of one op. */
#ifndef PARC_IR_INTERNAL_H
#define PARC_IR_INTERNAL_H

#include "ir/ir.h"
#include "ir/rules.h"

/* Ends the compilation with an error at `loc` if the type of a new value is too
 * large: one layer of the user's model may be legal, but not all layers. */
void ir_check_size(Program *p, const Type *t, Loc loc);

/* A value with exactly this name that no op defines yet. */
Value *ir_raw_value(Program *p, const char *name, Type t, Loc loc);
/* An op with space for operands and results, not in a region yet. */
Op *ir_raw_op(Program *p, OpKind kind, int nargs, int nouts);
/* Makes v result i of op, or argument i of r. A value without a location gets
 * that of the op, as in a dump. */
void ir_set_out(Op *op, int i, Value *v);
Region *ir_raw_region(Program *p, Op *owner, int nargs);
void ir_set_region_arg(Region *r, int i, Value *v);

/* ---- the text of sharding rules (rules_parse.c) ------------------------- */

enum { MAX_TEXT_TENSORS = 12, MAX_BASES = 4 };

/* One dim of a rule's tensor: letters, major first, or "...". */
typedef struct RuleDim {
    bool dots;
    int n;
    char letter[MAX_DIM_FACTORS];
} RuleDim;

typedef struct RuleTensor {
    bool added; /* it begins with '+' */
    int n;
    RuleDim dim[MAX_DIMS + 1]; /* one more: dots may match no dim */
} RuleTensor;

typedef struct RuleText {
    int nargs, nouts;
    RuleTensor tensor[MAX_TEXT_TENSORS];
    int nbases;
    char base[MAX_BASES]; /* letters of the base factors, in order */
    bool whole[SPEC_LETTERS], max[SPEC_LETTERS];
} RuleText;

/* NULL, or the error in the text. `plain` accepts only einsum specs: single
 * letters. */
const char *rule_text_parse(const char *text, bool plain, RuleText *t);

/* Sizes of letters (0: not bound) and of the dims that "..." matches. */
typedef struct RuleSizes {
    int64_t letter[SPEC_LETTERS];
    int ndots;
    int64_t dots[MAX_DIMS];
} RuleSizes;

/* Binds the letters to the dims of the first t->nargs operands; `rest` is the
 * size of a letter that occurs in results only (0: there is none). NULL, or the
 * mismatch. */
const char *rule_text_bind(Arena *a, const RuleText *t, Value *const *args,
                           int64_t rest, RuleSizes *sizes);

/* ---- verification (verify_place.c) --------------------------------------- */

/* Checks the placements of one op's operands and results, from
 * STAGE_PARTITIONED on; shapes and element types are already checked. NULL, or
 * the error. */
const char *verify_placement(const Program *p, const Op *op);
/* Checks Op.needs, the record of propagate's choice. */
const char *verify_needs(const Program *p, const Op *op);

/* Checks which memory the op's operands are in (host.c). NULL, or the error. */
const char *verify_host(const Program *p, const Op *op);

/* Checks the ops that say when others run (verify_schedule.c): each op that is
 * marked done runs exactly once in every iteration of its loop. NULL, or the
 * error. */
const char *verify_schedule(const Program *p);

/* Checks the memory plan, if there is one (verify_memory.c). NULL, or the
 * error. */
const char *verify_memory(const Program *p);

/* The number of trailing base operands of an op whose rule has them. */
int rule_base_count(OpKind kind);

#endif
