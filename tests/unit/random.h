/* random.h: generates random models and plans, and compares their runs.
 *
 * random_model.c       parameters, modules, loops, and the complete model
 * random_statements.c  the table of statements that a model may contain
 * random_states.c      states of modules, and their updates
 * random_plan.c        a mesh, styles and sharding units for it
 * find_weights.c       the weights of its modules
 * random_compare.c     numbers for a program, and the comparison of two runs
 * random_memory.c      a run against the plan of the arena
 *
 * random_programs.c, random_binaries.c and other tests use them. All choices
 * follow from one seed, by a random generator of these files.
 */
#ifndef PARC_TESTS_UNIT_RANDOM_H
#define PARC_TESTS_UNIT_RANDOM_H

#include "tests/interp/interp.h"
#include "ir/ir.h"

/* ---- numbers ---- */
typedef struct Rng {
    uint64_t state;
} Rng;
uint64_t rng_next(Rng *r);
int64_t rng_below(Rng *r, int64_t n); /* 0 … n-1 */
bool rng_chance(Rng *r, int percent);
double rng_normal(Rng *r);
/* Picks one of the arguments after r. */
#define rng_pick(r, ...)                                                       \
    (((const int64_t[]){__VA_ARGS__})[rng_below(                               \
        (r),                                                                   \
        (int64_t)(sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)))])

/* ---- models ---- */

/* A region under construction: the step, or a loop's body, which reads outer
 * values through the loop's arguments. */
typedef struct Brought {
    Value *outer, *arg;
} Brought;
typedef struct Level {
    Op *loop; /* NULL: the step */
    Build b;
    VEC(Brought) brought;
    Value *key; /* key of random numbers; NULL: not created yet */
} Level;

/* A tensor [batch, seq, dim] that later statements may use. */
typedef struct Known {
    Value *value;
    int level;
} Known;

/* A Linear module that later statements may call. */
typedef struct Linear {
    const char *path;
    int weight, bias; /* parameters; bias -1: none */
    int64_t in, out;
    int level;
} Linear;

/* A state of a module whose update is still to be written, and how often it was updated. */
typedef struct NewState {
    int mean, count;  /* parameters; count -1: none */
    int follows;      /* the parameter that the update reads; -1: none */
    Value *statistic; /* of the batch, in the region of the module */
} NewState;

typedef struct Model {
    Program *p;
    Rng *r;
    Level level[MAX_STACK + 1];
    int depth;
    const char *path;
    int64_t batch, seq, dim, vocab;
    int64_t times; /* factor of all sizes but the batch */
    Value *tokens;
    Op *first_input; /* parameters and constants are inserted before it */
    VEC(Known) known;
    VEC(Linear) linear;
    VEC(NewState) state;
    int table; /* parameter that embeds the tokens; -1: none */
    int nmodules, sites;
    int left; /* statements that may still be added */
} Model;

/* Builds a global program that computes a loss, on p->mesh, which the caller
 * sets, as it must divide the batch. `times` multiplies the sizes. */
void random_model(Program *p, Rng *r, uint32_t data_axes);
void random_large_model(Program *p, Rng *r, uint32_t data_axes, int64_t times);

/* The position of the next op. */
Build *model_at(Model *m);
/* The value at the current level that corresponds to v of level `from`. */
Value *model_reach(Model *m, Value *v, int from);
/* The key of random numbers at the current level; random numbers in [0, 1) of
 * x's shape. */
Value *model_key(Model *m);
Value *model_random(Model *m, const Value *x);
/* A new parameter `leaf` of the current module, and its value at this level. */
int model_param(Model *m, const char *leaf, int ndim, const int64_t *dim);
Value *model_param_value(Model *m, int param);
/* The same, in some models widened to f32, as by float(weight) in PDL. */
Value *model_param_wide(Model *m, int param);
/* Enters a child module of the class; model_close needs the result. */
typedef struct Opened {
    int module;
    const char *outer;
} Opened;
Opened model_open(Model *m, const char *name, const char *class, int nin,
                  int nout);
void model_close(Model *m, Opened o);
const char *model_name(Model *m, const char *prefix);
/* x at an input or output of the current module. */
Value *model_in(Model *m, Value *x, int i);
Value *model_out(Model *m, Value *x, int i);
/* Calls a new Linear, or an existing one, on x. */
Linear model_linear(Model *m, const char *name, int64_t in, int64_t out,
                    bool bias);
Value *model_call(Model *m, const Linear *l, Value *x);

/* One random statement on h [batch, seq, dim]; the result has h's shape. */
Value *random_statement(Model *m, Value *h);
/* One of them: a convolution over the tokens. */
Value *random_conv(Model *m, Value *h);
/* … or a mixture of experts. */
Value *random_experts(Model *m, Value *h);
/* Adds a state of the current module, in some models, with a statistic of h. Later random
 * numbers do not depend on it. */
void model_state(Model *m, Value *h);
/* At the end of the step: the updates of all states. */
void model_assign_states(Model *m);
/* x in the training precision. */
Value *model_narrow(Model *m, Value *x);
/* Small compositions. */
Value *model_einsum(Model *m, const char *spec, Value *x, Value *y);
Value *model_scale(Model *m, Value *x, double by);
Value *model_offset(Model *m, Value *x, double by);
Value *model_mean(Model *m, Value *x, int dim);
Value *model_norm(Model *m, Value *x);
Value *model_cross_entropy(Model *m, Value *logits, Value *labels);

/* ---- plans ---- */
/* Chooses the mesh and the axes that split the batch; then styles and units. */
uint32_t random_mesh(Program *p, Rng *r, const char *shape);
void random_plan(Program *p, Rng *r, uint32_t data_axes);
/* Whether the pass may report errors: random plans need not fit their models. */
bool random_may_refuse(const char *pass);
/* Makes an axis of several ranks that of a pipeline, sometimes, before
 * random_plan. `r` is a copy: later numbers do not depend on it. */
void random_pipeline(Program *p, Rng r);
/* find_weights.c: sets Module.weight from the ops of the forward pass. */
void find_weights(Program *p);
/* Compares the record of lowering with the ops: NULL, or the path of a module
 * whose weights differ. */
const char *weights_differ(const Program *p);

/* ---- comparison ---- */
/* Sets parameters, states, inputs and scalars of an interpreter. The numbers
 * depend only on names and the seed. */
void random_values(Interp *in, const Program *p, uint64_t seed);
/* The same with a rounding error in each number of a parameter. */
void random_rounded_values(Interp *in, const Program *p, uint64_t seed);
/* Compares loss, grad_norm, all parameters and states. NULL, or the tensor that
 * differs by more than `tolerance` of its largest magnitude. */
const char *compare_runs(Arena *a, const Program *p, Interp *x, Interp *y,
                         double tolerance);

/* Runs `in`, which has run once before, together with an arena laid out by the
 * memory plan: results are stored at their addresses, and each operand must be
 * intact when it is read. NULL, or the overwritten value. */
const char *check_memory(const Program *p, Interp *in);

/* random_side.c: gives a random model, before any pass, side programs for
 * the loss and for a tensor. */
void random_side(Program *p);
/* Verifies the side programs of p; once they are partitioned, compares them
 * with the reference, and checks their memory plans. NULL, or what is wrong. */
const char *check_side_programs(const Program *p, Interp *global, uint64_t seed,
                          double tolerance);

#endif
