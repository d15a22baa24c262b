/* ir.h: the intermediate representation.
 *
 * A Program is one training step in SSA form: parameters, inputs, and a region
 * of operators that ends with the new parameters. Control flow is structured:
 * only `loop` repeats its body.
 *
 *   loop   %h, %dw = loop n=4 reverse=false carry(%x = %h0) stack(%w = %ws)
 *                    free(%t = %table) { … yield %h1, %z }
 *          runs its body n times. `carry` arguments start as their operands
 *          and take the first yields after every iteration; `stack` arguments
 *          are slices of an operand whose type has one more stack dim: slice
 *          i in iteration i; `free` arguments are the same in every iteration.
 *          Results: the last values of the carries, then one stack (a new
 *          leading stack dim of n) for each further yield. `reverse` runs the
 *          iterations n-1 … 0; slices and stacks keep their indices.
 *   early  a region without arguments and yields: statements of another
 *          iteration, see ops.def.
 *   fused  a region that becomes one kernel; its arguments are its operands,
 *          its results its yields.
 *
 * A value belongs to one op (or is a region's argument). The same structure
 * represents the global program (every axis Replicate, no collectives) and the
 * partitioned one (placements in types, explicit collectives): `Stage` tells
 * the verifier which rules apply.
 */
#ifndef PARC_IR_IR_H
#define PARC_IR_IR_H

#include "base/diag.h"
#include "base/text_map.h"
#include "ir/attrs.h"
#include "ir/ops.h"
#include "ir/plan_spec.h"
#include "ir/train.h"
#include "ir/type.h"

/* When an op runs. INIT ops compute constants (tables of sines, for example)
 * once at start; they depend only on each other. WEIGHTS: of the backward pass in a
 * staged loop, only gradients of weights. */
typedef enum { PH_INIT, PH_FORWARD, PH_BACKWARD, PH_WEIGHTS, PH_OPTIMIZER } Phase;
const char *phase_name(Phase p);

/* Where ops run: each stream runs its ops in order, different streams run
 * concurrently. A target with one stream has STREAM_COMPUTE. */
enum { STREAM_COMPUTE, STREAM_TENSOR, STREAM_DATA, STREAM_HOST, STREAMS };
/* Of a staged loop's transfers: only ops post and await have it. */
enum { STREAM_TRANSFER = STREAMS };
const char *stream_name(int stream);

typedef struct Program Program;
typedef struct Region Region;
typedef struct Op Op;
typedef struct Value Value;

/* The part of the step that needs a collective. */
typedef enum Origin {
    ORIGIN_NONE,      /* not recorded */
    ORIGIN_STYLE,     /* a style: the layouts at a module's boundary, or the
                         sum over a dim that a style splits */
    ORIGIN_UNIT,      /* the parameters of a sharded unit */
    ORIGIN_GRADIENT,  /* the gradients of parameters */
    ORIGIN_LOSS,      /* the loss, and other outputs of the step */
    ORIGIN_OPTIMIZER, /* the gradient norm, and ops that depend on it */
    ORIGIN_PIPELINE,  /* what a stage needs of another */
    ORIGIN_IMPLIED,   /* nothing in the plan: an op needs another placement
                         than its operand has */
    ORIGINS
} Origin;
const char *origin_name(Origin o); /* "style"; "" for ORIGIN_NONE */

/* The reason for a value's placement on an axis, or for a collective. */
typedef struct Why {
    const char *text; /* "ColwiseParallel on layers.*.attention.wq", …; NULL:
                       * no reason recorded, or that of another value */
    const char *follows; /* the name of the value whose placement this one has;
                          * NULL: none */
    const char *removed_by; /* the pass that removed that value; NULL: none */
    Loc loc;          /* the plan's or the model's line */
    Origin origin;    /* of a collective */
} Why;
static inline Why why_is(const char *text, Loc loc)
{
    return (Why){.text = text, .loc = loc};
}
/* why.c: whether a reason is recorded. */
bool why_is_given(const Why *why);
/* The reason as a phrase, "follows %x.3"; "" if none is recorded. */
const char *why_text(Arena *a, const Why *why);

struct Value {
    uint32_t id;      /* unique in the program; passes index tables by it */
    const char *name; /* unique in the program, without the '%' */
    Type type;
    Op *def;          /* NULL: an argument of `region` */
    Region *region;   /* where it is defined */
    int index;        /* among def's results, or region's arguments */
    Loc loc;
    Why why[MAX_AXES];
    const struct Address *address; /* see ir/memory.h; NULL: none */
};

struct Op {
    uint32_t id;
    OpKind kind;
    Phase phase;
    int nargs, nouts;
    Value **arg, **out;
    Attr attr[MAX_ATTRS]; /* in the order of ops.def; read by attr_n(op) */
    Region *body;         /* loop, fused, early */
    int ncarry, nstack;   /* loop: the first ncarry arguments are carries, the
                           * next nstack stacks, the others free */
    int cut;              /* loop: the number of its cut into stages; 0: none */
    bool rounds;          /* loop: its iterations are rounds of experts; a run may end it
                           * after those that choices need (parc_rounds) */
    bool staged;          /* loop over microbatches: the stages run it in the order
                           * of a timetable (passes/pipeline/timetable.h) */
    const Placement *needs; /* STAGE_PLACED, ops that have a sharding rule: the
                             * placement that each operand must have */
    int stream;           /* set by `schedule` */
    int workspace;        /* its workspace's block, see ir/memory.h; -1: none */
    bool done;            /* set by `memory`: earlier ops `start` issue it; it
                           * must be done here (as XLA's start and done) */
    bool concurrent;      /* set by `schedule`: a matmul that leaves multiprocessors
                           * to a collective over tensor axes */
    int piece;            /* of a microbatch, from 1 (the pass async_tp); 0: all */
    bool recomputed;      /* set by `recompute`: repeats a forward op for the
                           * backward pass */
    Loc loc;              /* in the model */
    const char *path;     /* the module that it was lowered from:
                           * "layers.*.attention"; "" for the model */
    Why why;              /* the reason for a collective */
    Op *prev, *next;
    Region *region;
};

struct Region {
    int nargs, nyields;
    Value **arg, **yield;
    Op *first, *last;
    Op *owner; /* NULL: the program's step */
};

/* The initial value of a parameter. Random values are drawn by (seed, the
 * parameter's name, the global element index), so that no mesh changes them. */
typedef enum InitKind {
    INIT_ZEROS,
    INIT_ONES,
    INIT_NORMAL,  /* a = std */
    INIT_TRUNCATED_NORMAL, /* a = std, restricted to [b, c] */
    INIT_UNIFORM, /* [a, b) */
    INIT_ARANGE,  /* a, a+1, … */
    INIT_COPY,    /* a copy of its parameter, whose state it is, in its own
                   * element type (the pass `lowp_copies` makes such states) */
} InitKind;
typedef struct Init {
    InitKind kind;
    double a, b, c;
    double depth; /* element i of the array has the values times (i + 1)^depth */
} Init;

/* A tensor of a file, and how it holds a layer of a parameter. The file's
 * tensor has the shape dim[]. The layer's row-major index has the digits k[0] …
 * k[n-1] in the sizes size[]; its element is element first + sum of k[i] *
 * stride[i] of the tensor. */
enum { MAX_FILE_DIGITS = 12 };
typedef struct FileTensor {
    const char *name; /* "model.layers.*.q.weight" */
    int nindex;       /* each '*' of the name is a number, in order: … */
    int64_t stack[MAX_STACK]; /* … of the element in this stack dim, -1: of the part, … */
    int64_t scale[MAX_STACK], offset[MAX_STACK]; /* … times scale plus offset */
    int ndim;
    int64_t dim[MAX_DIMS];
    int n;
    int64_t size[MAX_FILE_DIGITS], stride[MAX_FILE_DIGITS];
    int64_t first;
    int64_t parts; /* tensors for a layer, one for each element of its dim 0; 1: one tensor for
                    * the whole layer. Sizes, strides and dims are those of a part */
} FileTensor;
/* Whether the name and layout fit a type (without padding): each '*' is for one
 * of its stack dims, and each element of a layer is an element of the tensor. */
bool file_tensor_fits(const FileTensor *f, const Type *t);
/* The name and shape, and if it is not that of the layer, the factors of the
 * layer with their strides: "model.layers.2i+1.q.weight [32, 96], from element
 * 32: 32 (stride 1) 32 (stride 96)". */
const char *file_tensor_text(Arena *a, const FileTensor *f);

/* A dim of a parameter that a style splits over its axis. */
typedef struct StyleSplit {
    int style; /* index into PlanSpec.style */
    int dim;
} StyleSplit;

/* A tensor that persists between steps: a parameter, or an optimizer state of
 * one. A stack of n layers is one Param whose name has a '*' for each stack
 * dim: "layers.*.attention.wq.weight". */
typedef struct Param {
    const char *name;
    Type type; /* placement: the compute layout before the pass `storage`, the
                * storage layout after it */
    int64_t pad[MAX_DIMS]; /* padding elements at the end of each dim: zeros
                            * that no result depends on */
    Init init;
    bool trainable;
    bool decay;       /* has weight decay */
    bool module_state; /* a state of a module, which its forward updates; it is
                        * not trainable */
    ParamGroup group; /* its own settings of the optimizer */
    int state_of;     /* -1: a parameter; else the index of the parameter whose
                       * optimizer state this is */
    const char *state; /* of a state: "m", "v", "momentum", "bf16"; else NULL */
    const char *unit; /* FSDP unit ("layers.*", "norm+output"), or NULL */
    int item;         /* a parameter: the number of the item of `fully_shard`
                       * that it belongs to, from 1; 0: none */
    VEC(StyleSplit) split; /* styles.h: by the plan's styles, in their order */
    bool gathered; /* its unit stays gathered (reshard=false): a rank's run
                    * is stored in its place in the full layer */
    bool shared;   /* gathered, and in memory that the ranks of a node share: a
                    * run that one rank writes is visible to all */
    bool host;        /* stored in host memory (set by the pass `offload`) */
    const char *const *alias; /* other names, from ties */
    int nalias;
    const FileTensor *file; /* the tensor of a file that holds it, then those of
                             * its other names; NULL without `names` */
    int nfile;
    Loc loc;
    Value *value;     /* the result of its `param` op */
} Param;

/* What the update of a parameter multiplies the learning rate by, and its weight
 * decay. */
double param_lr_factor(const Param *p);
double param_weight_decay(const Train *t, const Param *p);
/* The optimizer that updates it: that of its group, or that of `train`. */
OptimizerKind param_optimizer(const Train *t, const Param *p);
/* Whether it is the state with the means of a parameter's rows or columns, which are whole on
 * every rank. */
bool param_is_mean(const Program *p, const Param *state);
/* Whether a dim is padded; the type without padding. */
bool param_is_padded(const Param *p);
Type param_shape(const Param *p);

/* A batch input of the model's forward. (A scalar that the runtime sets each
 * step is the op `scalar`.) */
typedef struct Input {
    const char *name; /* "tokens", "labels" */
    Type type;        /* i32 for int(n), else the compute type */
    int64_t below;    /* int(n): every element is in 0 … n-1; else 0 */
    bool has_ignored; /* int(n, ignore=k): an element may also be k, which is
                       * not in 0 … n-1 */
    int64_t ignored;
    Loc loc;
    Value *value;
} Input;

/* A tensor that a side program computes for the user: the operand of the op
 * `output` with this name. Its type may have padding at the end of its dims. */
typedef struct Output {
    const char *name;
    int ndim;
    int64_t dim[MAX_DIMS]; /* without padding */
    Loc loc;
} Output;

/* A weight of a module, which ColwiseParallel and RowwiseParallel split: a 2-D
 * parameter that the module declares. Its forward contracts one dim of it with
 * the last dim of the module's first input (Linear), or looks up its rows
 * (Embedding). Recorded by lowering: passes rewrite contractions. */
enum { MAX_BIASES = 4 };
typedef struct Weight {
    int param;
    bool lookup;         /* rows are looked up, nothing is contracted */
    int in_dim, out_dim; /* dims of the parameter: the contracted one (or the
                          * rows), and the one that is the result's last dim */
    int bias[MAX_BIASES]; /* 1-D parameters of the module that elementwise ops
                           * join with the result */
    int nbiases;
} Weight;

/* A module instance, or all elements of an array that the plan treats alike:
 * their indices are '*' or a range in the path (path.h). */
typedef struct Module {
    const char *path;  /* "layers.*.attention"; "" is the model */
    const char *class; /* "Linear", "TransformerBlock", … */
    int nin, nout;     /* tensors into and out of its forward */
    int first_param, nparams; /* the parameters declared in it or in its
                               * children are contiguous:
                               * Program.param[first_param …]; a tied one is
                               * where it was declared first */
    int checkpoint;    /* the number of the item of `checkpoint` that names it,
                        * from 1; 0: none */
    VEC(Weight) weight;
    Loc loc;           /* its declaration */
} Module;

/* The tokens of a sample: `seq` if an integer input is [batch, seq, …], else 1,
 * as for images and rows of floats. */
int64_t program_sample_tokens(const Program *p);
/* The value that result i of an update replaces: the parameter or a state. */
Value *update_old(const Op *update, int i);
/* The index of the first state among the operands of an `update`. */
int update_first_state(const Op *update);

/* The name of the op `output` of a number that a program counts beside its results: "dropped";
 * ".dropped" in a program for outputs, whose other names are users'. */
const char *count_name(const Program *p, const char *name);
/* The operand of the op `output` with the name; NULL: there is none. */
Value *program_output(const Program *p, const char *name);

/* What a program computes. A model is compiled to a training step and to
 * side programs that use its parameters (passes/side_program.h). */
typedef enum Purpose {
    FOR_TRAINING, /* loss, gradients, updates */
    FOR_LOSS,     /* the loss of a batch, without dropout */
    FOR_OUTPUTS,  /* the other outputs of one microbatch, without dropout */
    FOR_ROUNDS,   /* the training step with experts in rounds (passes/microbatch/rounds.c) */
    PURPOSES
} Purpose;
extern const char *const purpose_words[]; /* "training", … ends with NULL */
/* Whether the program has gradients and updates. */
bool program_trains(const Program *p);

typedef enum Stage {
    STAGE_GLOBAL,      /* after `lower`: no placements */
    STAGE_PLACED,      /* after `propagate`: placements, operands may still
                        * need conversion */
    STAGE_PARTITIONED, /* after `partition`: operands are placed as their op's
                        * rule requires; parameters in compute layout */
    STAGE_STORED,      /* after `storage`: parameters in storage layout */
    STAGE_FUSED,       /* after `fuse`: only ops that codegen supports */
} Stage;

/* The name of a boundary that the pass `partition` has removed, such as the
 * variable q of `q = wq(x)`, and the name of the value that stays. */
typedef struct BoundaryName {
    const char *name, *value;
    Loc loc;
} BoundaryName;

struct Program {
    Arena *arena;
    Diag *diag;
    const char *model;   /* the model's name */
    Stage stage;
    Mesh mesh;
    PlanSpec plan;
    Train train;
    VEC(Param) param;
    VEC(Input) input;
    VEC(Output) output; /* FOR_OUTPUTS: all of them; otherwise none */
    VEC(Module) module;
    const char *file_prefix; /* names in files may lack it; NULL: none */
    const char *file_config; /* the text of config.json; NULL: none */
    Region *step;
    Purpose purpose;
    Program *training; /* a side program: the training step whose parameters
                        * it uses; NULL for the training step */
    Program *repeats;   /* a side program: the program of which it is a part,
                         * with the same names of values (the pass
                         * share_forward); NULL: it has its own statements */
    Program *side[PURPOSES]; /* of a training step: its side programs by
                                 * purpose; NULL: none */
    uint32_t nvalues, nops; /* ids in use: the length of tables */
    TextMap names;       /* of values, in use */
    VEC(BoundaryName) boundary_name; /* not part of a dump */
    int streams;         /* number that the target has; 0 before `schedule` */
    struct MemoryPlan *memory; /* after `memory`; see ir/memory.h */
    const char **equal_kernel; /* of a side program, by op id: the name of an
                                * equal kernel of an earlier program, or NULL;
                                * see codegen/kernel/kernel.h */
};

/* ---- construction: ir.c, rules/build.c, names.c, analysis/loop.c --------- */

Program *ir_program(Arena *a, Diag *d);
int ir_param_index(const Program *p, const char *name); /* -1: none */
/* The module with this path; NULL: none. */
Module *ir_module(const Program *p, const char *path);
/* The module's weight; NULL if it has none or several, or is NULL. */
const Weight *module_weight(const Module *m);

/* Where new ops are inserted, and their properties. */
typedef struct Build {
    Program *p;
    Region *region;
    Op *before;       /* insert before it; NULL: at the region's end */
    Phase phase;
    Loc loc;
    const char *path; /* not NULL; "" for the model */
    int piece;        /* of a microbatch; 0: all */
} Build;

/* Inserts before `before`, or at the end of like's region if it is NULL. Phase,
 * location and path are those of `like`. */
Build ir_build_at(Program *p, const Op *like, Op *before);

/* The most results of an op with inferred types, in addition to one for each
 * operand. */
enum { MAX_MORE_RESULTS = 3 };
/* An op with inferred result types (rules/infer.c). Operands that do not fit end in
 * bug(): callers check user input first with ir_infer. `attr` holds the op's
 * attributes in the order of ops.def (NULL: none). Result names derive from
 * `hint` (NULL: from the op's name). Placements of results are derived by rule
 * from STAGE_PARTITIONED on, and Replicate before. */
Op *ir_op(Build *b, OpKind kind, int nargs, Value *const *args,
          const Attr *attr, const char *hint);
/* Like ir_op, for an op with one result, which it returns. */
Value *ir_value(Build *b, OpKind kind, int nargs, Value *const *args,
                const Attr *attr, const char *hint);
Value *ir_unary(Build *b, OpKind kind, Value *x);
Value *ir_binary(Build *b, OpKind kind, Value *x, Value *y);
Value *ir_full(Build *b, double value, DType t, int ndim, const int64_t *dim);
Value *ir_scalar_const(Build *b, double value); /* f32[] */
Value *ir_step_scalar(Build *b, const char *name); /* the op `scalar` */
Value *ir_sum(Build *b, Value *x, AttrList dims, bool keep);
Value *ir_max(Build *b, Value *x, AttrList dims, bool keep);
Value *ir_reshape(Build *b, Value *x, int ndim, const int64_t *dim);
Value *ir_broadcast(Build *b, Value *x, int ndim, const int64_t *dim);
Value *ir_transpose(Build *b, Value *x, AttrList perm);
Value *ir_einsum(Build *b, const char *spec, DType t, Value *x, Value *y);
Value *ir_cast(Build *b, Value *x, DType t); /* x itself if it has that type */
/* The op group_rows of the choices, of the first round; limit is its attribute. */
Op *ir_group_rows(Build *b, Value *ids, AttrList shape, int64_t limit, const char *hint);
Value *ir_boundary(Build *b, Value *x, const char *path, Port port,
                   bool grad);

/* Adds a state of parameter `of` with its op; returns the op's result. */
Value *ir_add_state(Build *b, int of, const char *name, const Type *t, InitKind init);

/* An op without inference: the types of results are given. For collectives,
 * loops and the parser. */
Op *ir_op_typed(Build *b, OpKind kind, int nargs, Value *const *args,
                const Attr *attr, int nouts, const Type *types,
                const char *const *hints);

/* A loop or fused op with an empty body whose arguments correspond to `args`
 * (loop: stack arguments lose one stack dim). ir_close adds the results when
 * the body's yields are set. */
Op *ir_open(Build *b, OpKind kind, int nargs, Value *const *args, int ncarry,
            int nstack, const Attr *attr);
void ir_yield(Program *p, Region *r, int n, Value *const *values);
void ir_close(Program *p, Op *op);
/* Adds an operand and its argument, or a yield and its result, to a loop; a
 * carry yields its argument. Carries and stacks stay in order; indices are
 * renumbered. */
Value *ir_loop_add_carry(Program *p, Op *loop, Value *start);
Value *ir_loop_add_free(Program *p, Op *loop, Value *operand);
Value *ir_loop_add_stack(Program *p, Op *loop, Value *operand);
Value *ir_loop_add_yield(Program *p, Op *loop, Value *inner);
/* v, a value of a region around r, as an argument of r: passed into each loop as
 * a free operand, unless it is one already. */
Value *ir_loop_inside(Program *p, Value *v, Region *r);
/* Removes argument or result i with its yield; it must be unused. */
void ir_loop_drop_arg(Program *p, Op *loop, int i);
void ir_loop_drop_result(Program *p, Op *loop, int i);

/* Gives a conversion of n tensors these operands and results. */
void ir_set_members(Op *op, int n, Value **arg, Value **out);

Value *ir_new_value(Program *p, const char *hint, Type t, Loc loc);
const char *ir_unique_name(Program *p, const char *hint);
/* For a value that replaces another. */
void ir_swap_names(Value *a, Value *b);
/* Takes exactly this name; false if it is in use. For the parser. */
bool ir_claim_name(Program *p, const char *name);
/* Renumbers values and ops in the order of the text and frees unused names. The
 * pipeline calls it before every pass, so that a run that starts from a dump is
 * identical to an uninterrupted one. */
void ir_renumber(Program *p);
void ir_insert(Op *op, Region *r, Op *before);
void ir_remove(Op *op);       /* unlinks; its results must be unused */
void ir_move(Op *op, Region *r, Op *before);
/* Raises an error at loops that need a stack of more than MAX_STACK, and stops:
 * an edited dump may have them, the frontend refuses such arrays. */
_Noreturn void ir_too_deep(const Program *p, Loc loc);
/* Replaces uses in region r and inner regions. */
void ir_replace_uses(Region *r, Value *old, Value *with);
/* The number of reads of v by ops and yields of its own region. */
int ir_count_uses(const Value *v);
/* Clones op before b->before, with operands mapped by map[id] (NULL: not
 * mapped); enters results into map, those in bodies too. `map` covers the ids
 * in use before the call. The clone has the op's source location, path and
 * reason (`why`), and the phase b->phase. */
Op *ir_clone(Build *b, const Op *op, Value **map);
/* Like ir_clone, with these operands. */
Op *ir_clone_with(Build *b, const Op *op, Value *const *args);
/* analysis/dead.c: removes ops without effect whose results are unused, and
 * unused yields and arguments of loops. */
void ir_eliminate_dead(Program *p);

/* Deep-copies a program (same arena, same ids and names). */
Program *ir_copy(const Program *p);

/* All ops of a region in order, bodies after their owners: for_ops(op, r) runs
 * the statement after it for each; it may not remove the op. ir_next is the op
 * after `op`, or the first if that is NULL; NULL: there are no more. */
#define for_ops(op, r) \
    for (Op *op = ir_next((r), NULL); op; op = ir_next((r), op))
Op *ir_next(const Region *r, const Op *op);
/* The same for a visitor, which may remove the op and insert others. */
typedef void OpVisit(Op *op, void *context);
void ir_walk(Region *r, OpVisit *visit, void *context);
/* A value that an op of the region makes, or an argument of its body; NULL:
 * none has the name. */
const Value *ir_find_value(const Region *r, const char *name);
/* How many times an op runs per step: the product of the enclosing trip
 * counts (loop_usual_trips). */
int64_t ir_trip_count(const Op *op);

/* ---- ops: ir.c; ops.h has the kinds, attrs.h the attributes -------------- */

/* analysis/loop.c: whether op is the loop over microbatches, which runs the
 * whole model. */
bool loop_is_microbatches(const Program *p, const Op *op);
static inline int64_t loop_trips(const Op *op) { return attr_n(op); }
/* Balanced experts need one round. */
static inline int64_t loop_usual_trips(const Op *op) { return op->rounds ? 1 : attr_n(op); }
static inline bool loop_is_stack(const Op *loop, int i) /* of its operands */
{
    return i >= loop->ncarry && i < loop->ncarry + loop->nstack;
}
static inline bool loop_is_free(const Op *loop, int i)
{
    return i >= loop->ncarry + loop->nstack;
}
/* The type of a carry outside of the loop, before or after it. */
Type loop_carry_type(const Program *p, const Op *loop, Type inside, bool after);
/* The innermost loop around the op; the `early` that it is in. NULL: none. */
Op *op_loop(const Op *op);
Op *op_early(const Op *op);
/* Whether an operand of the op is a result of `of`. */
bool op_reads(const Op *op, const Op *of);
/* Whether it reads a value that is marked, by id. */
bool op_reads_any(const Op *op, const bool *marked);
/* Whether the op makes zeros only; false for NULL. */
bool op_is_zero(const Op *op);

/* ---- analysis/host.c ---------------------------------------------------- */

/* Whether a value is in host memory: a parameter with Param.host, the result of
 * `store`, slices and stacks of these, and views. */
bool ir_in_host(const Program *p, const Value *v);

/* ---- rules/infer.c ------------------------------------------------------- */

/* Infers the global result types of an op. NULL, or an error as a phrase for a
 * message ("cannot broadcast dim 1: 4 and 6"). Placements are Replicate. The
 * dtype of an elementwise result is f32 unless an operand of the result's shape
 * is bf16 or f16, then that; scalars and smaller operands do not count.
 * Reductions of bf16 and f16 give f32. Operations on integers only give
 * integers. */
const char *ir_infer(Program *p, OpKind kind, int nargs, Value *const *args,
                     const Attr *attr, Type *out, int *nouts);

/* ---- text/ops.c: the printed form, see docs/ir.md ------------------------ */

void ir_print(Out *o, const Program *p);
/* The value of one attribute. */
void ir_print_attr(Out *o, const Program *p, AttrType type, const Attr *a);
/* NULL after errors, which are in d. The source must be registered with
 * diag_source as `file`. */
Program *ir_parse(Arena *a, Diag *d, uint16_t file);

/* ---- verify/verify.c ---------------------------------------------------- */

/* why.c: marks the reasons that name a value which no longer exists as removed
 * by `pass`. */
void why_update(const Program *p, const char *pass);

/* Checks structure, types (inferred again) and, by stage, placements
 * (derived from the rules; annotations are not trusted). NULL, or the first
 * error as text that names op and value. */
const char *ir_verify(const Program *p);

#endif
