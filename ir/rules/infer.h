/* infer.h: declares the operands and results of one type inference, for infer.c
 * and infer_text.c. */
#ifndef PARC_IR_RULES_INFER_H
#define PARC_IR_RULES_INFER_H

#include "ir/rules/rule_text.h"

typedef struct Infer {
    Program *p;
    OpKind kind;
    int nargs;
    Value *const *args;
    const Op *op; /* has the kind and the attributes only */
    Type *out;
    int nouts;
} Infer;

static inline const Type *arg_type(const Infer *in, int i)
{
    return &in->args[i]->type;
}

/* infer_text.c: ops whose rule is written in letters, einsums too. */
const char *infer_by_text(Infer *in);
/* attention_step and attention_grad_step, whose results are f32. */
const char *infer_attention_step(Infer *in);

#endif
