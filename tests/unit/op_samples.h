/* op_samples.h: declares sample operands, of typical shapes, for every
 * operator.
 *
 * The tests of gradients and of partitioning share this table; an operator
 * without a row fails there.
 */
#ifndef PARC_TESTS_UNIT_OP_SAMPLES_H
#define PARC_TESTS_UNIT_OP_SAMPLES_H

#include "tests/interp/interp.h"
#include "ir/ir.h"

/* The numbers of an operand. */
typedef enum Range {
    ANY,      /* normal */
    POSITIVE, /* 0.5 … 2 */
    AWAY,     /* away from zero, where the op is not differentiable */
    MASK,     /* 0 or 1 */
    INDEX,    /* i32, 0 … below-1 */
    KEY,      /* i64, of 53 bits */
    PAIR, ROW, ENDS, /* i32, results of group_rows for fixed choices (op_samples.c), which
                      * leave rows unused, and pairs without one, if `below` is 1 */
} Range;

enum { SAMPLE_ARGS = 8, SAMPLE_DIMS = 5 };

typedef struct SampleArg {
    Range range;
    int ndim;
    int64_t dim[SAMPLE_DIMS];
    int64_t below; /* INDEX */
    bool constant; /* no gradient flows to it */
} SampleArg;

typedef struct OpSample {
    OpKind kind;
    int nargs;
    SampleArg arg[SAMPLE_ARGS];
    Attr attr[MAX_ATTRS];
} OpSample;

extern const OpSample op_sample[];
extern const int op_sample_count;

/* Whether the numbers are integers: inputs of the model. */
bool sample_is_integer(const SampleArg *arg);
Type sample_type(const SampleArg *arg);
/* Fills type_elements() numbers, which follow from the seed. */
void sample_numbers(const SampleArg *arg, uint64_t seed, double *x);
/* "einsum bsk,fk->bsf", for messages. */
const char *sample_text(Arena *a, const OpSample *s);

#endif
