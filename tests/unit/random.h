/* random.h: random models, random plans, and their comparison.
 *
 * random_model.c       parameters, modules, loops, and the complete model
 * random_statements.c  the table of statements that a model may contain
 * random_plan.c        a mesh, styles and sharding units for it
 * random_compare.c     numbers for a program, and the comparison of two runs
 * random_memory.c      a run against the plan of the arena
 * random_programs.c    the test
 *
 * All choices follow from one seed, by this test's own generator.
 */
#ifndef PARC_TESTS_UNIT_RANDOM_H
#define PARC_TESTS_UNIT_RANDOM_H

#include "ir/interp.h"
#include "ir/ir.h"

/* ---- numbers ---- */
typedef struct Rng {
    uint64_t state;
} Rng;
uint64_t rng_next(Rng *r);
int64_t rng_below(Rng *r, int64_t n); /* 0 … n-1 */
bool rng_chance(Rng *r, int percent);
double rng_normal(Rng *r);
/* One of the arguments. */
#define rng_pick(r, ...)                                                       \
    (((const int64_t[]){__VA_ARGS__})[rng_below(                               \
        (r),                                                                   \
        (int64_t)(sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)))])

/* ---- models ---- */

/* The region that is being written: the step, or a loop's body. What it reads
 * from outside comes in through the loop's arguments. */
typedef struct Brought {
    Value *outer, *arg;
} Brought;
typedef struct Level {
    Op *loop; /* NULL: the step */
    Build b;
    VEC(Brought) brought;
    Value *key; /* of random numbers; NULL: none yet */
} Level;

/* A tensor [batch, seq, dim] that statements may use again. */
typedef struct Known {
    Value *value;
    int level;
} Known;

/* A Linear module that may be called again. */
typedef struct Linear {
    const char *path;
    int weight, bias; /* parameters; bias -1: none */
    int64_t in, out;
    int level;
} Linear;

typedef struct Model {
    Program *p;
    Rng *r;
    Level level[MAX_STACK + 1];
    int depth;
    const char *path;
    int64_t batch, seq, dim, vocab;
    int64_t times; /* all sizes but the batch are that much larger */
    Value *tokens;
    Op *first_input; /* parameters and constants go in front of it */
    VEC(Known) known;
    VEC(Linear) linear;
    int table; /* parameter that embeds the tokens; -1: none */
    int nmodules, sites;
    int left; /* statements that may still be written */
} Model;

/* A global program that computes a loss, on p->mesh (set by the caller, as
 * the batch must divide); with `times`, the same with larger sizes. */
void random_model(Program *p, Rng *r, uint32_t data_axes);
void random_large_model(Program *p, Rng *r, uint32_t data_axes, int64_t times);

/* Where the next op goes. */
Build *model_at(Model *m);
/* v, which belongs to level `from`, as read at the current level. */
Value *model_reach(Model *m, Value *v, int from);
/* The key of what is drawn at the current level; numbers in [0, 1) like x. */
Value *model_key(Model *m);
Value *model_random(Model *m, const Value *x);
/* A new parameter `leaf` of the current module, and its value here. */
int model_param(Model *m, const char *leaf, int ndim, const int64_t *dim);
Value *model_param_value(Model *m, int param);
/* Enters a child module of the class; `open` gives what model_close needs. */
typedef struct Opened {
    int module;
    const char *outer;
} Opened;
Opened model_open(Model *m, const char *name, const char *class, int nin,
                  int nout);
void model_close(Model *m, Opened o);
const char *model_name(Model *m, const char *prefix);
/* x at a port of the current module. */
Value *model_port(Model *m, Value *x, const char *port);
/* A new Linear called on x, or one called again. */
Linear model_linear(Model *m, const char *name, int64_t in, int64_t out,
                    bool bias);
Value *model_call(Model *m, const Linear *l, Value *x);

/* One random statement on h [batch, seq, dim]; the result has h's shape. */
Value *random_statement(Model *m, Value *h);
/* x in the precision of training. */
Value *model_narrow(Model *m, Value *x);
/* Small compositions. */
Value *model_einsum(Model *m, const char *spec, Value *x, Value *y);
Value *model_scale(Model *m, Value *x, double by);
Value *model_offset(Model *m, Value *x, double by);
Value *model_mean(Model *m, Value *x, int dim);
Value *model_norm(Model *m, Value *x);
Value *model_cross_entropy(Model *m, Value *logits, Value *labels);

/* ---- plans ---- */
/* Axes that split the batch, chosen with the mesh; then styles and units. */
uint32_t random_mesh(Program *p, Rng *r, const char *shape);
void random_plan(Program *p, Rng *r, uint32_t data_axes);

/* ---- comparison ---- */
/* Sets parameters, states, inputs and scalars of an interpreter; the numbers
 * depend on names and the seed only. */
void random_values(Interp *in, const Program *p, uint64_t seed);
/* Loss, grad_norm and all parameters and states; NULL, or what differs by
 * more than `tolerance` of the tensor's largest magnitude. */
const char *compare_runs(Arena *a, const Program *p, Interp *x, Interp *y,
                         double tolerance);

/* Runs `in` (the program's interpreter, which has run once before) beside an
 * arena laid out by the memory plan: every result is stored there and every
 * operand must still be found there when it is read. NULL, or what was
 * overwritten. */
const char *check_memory(const Program *p, Interp *in);

#endif
