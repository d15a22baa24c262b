/* rule_text.h: the text of sharding rules: see ops.def, and rules_parse.c for the
 * grammar. */
#ifndef PARC_IR_RULES_RULE_TEXT_H
#define PARC_IR_RULES_RULE_TEXT_H

#include "ir/rules/rules.h"

enum { MAX_TEXT_TENSORS = 14, MAX_BASES = 4 };

/* One dim of a rule's tensor: letters, major first, or "...". */
typedef struct RuleDim {
    bool dots;
    int n;
    char letter[MAX_DIM_FACTORS];
} RuleDim;

typedef struct RuleTensor {
    bool added;    /* it begins with '+' */
    bool integers; /* … with '#' */
    bool subset;   /* … with '&' */
    int n;
    RuleDim dim[MAX_DIMS + 1]; /* one more: dots may match no dim */
} RuleTensor;

typedef struct RuleText {
    int nargs, nouts;
    RuleTensor tensor[MAX_TEXT_TENSORS];
    int nbases, nglobal;
    char base[MAX_BASES]; /* letters of the base factors, in order; the last `nglobal`
                           * have the sizes of the attribute `global` */
    bool whole[SPEC_LETTERS], max[SPEC_LETTERS], separate[SPEC_LETTERS];
} RuleText;

/* NULL, or the error in the text of an op's rule. An op without bases has none in `t`. */
const char *rule_text_parse(const Op *op, const char *text, RuleText *t);
/* The same for an einsum's spec, which has single letters only. */
const char *spec_text_parse(const char *text, RuleText *t);

/* Sizes of letters (0: not bound) and of the dims that "..." matches. */
typedef struct RuleSizes {
    int64_t letter[SPEC_LETTERS];
    int ndots;
    int64_t dots[MAX_DIMS];
} RuleSizes;

/* Binds the letters to the dims of the first t->nargs operands and to the sizes that
 * attributes of the op have: `groups` has that of g, `shape` those of g, h, x, r and e, `n` or else `dims` those of the letters
 * that occur in results only, in their order. NULL, or the mismatch. */
const char *rule_text_bind(Arena *a, const RuleText *t, Value *const *args, const Op *op,
                           RuleSizes *sizes);

/* The numbers of operands of an op before the bases, -1: any, and of the bases, that it
 * has when one of their dims is split. */
int rule_operand_count(const Op *op);
int rule_base_count(const Op *op);

#endif
