/* lower.h: declares the state of lowering, and the functions that lower modules,
 * statements and expressions.
 *
 * lower_scope.c    errors; names in scope; values in the regions of loops
 * lower_module.c   instances of modules: sizes, parameters, ties
 * lower_runs.c     arrays whose elements the plan treats differently
 * lower_stmt.c     statements; frames
 * lower_loop.c     loops
 * lower_call.c     calls of modules: shapes of inputs, boundaries
 * lower_expr.c     expressions; operators on tensors
 * lower_arithmetic.c  operators and functions of numbers
 * lower_op.c       ops on tensors; range checks for numbers
 * lower_builtin.c  the table of builtins; elementwise builtins
 * lower_argument.c arguments of builtins
 * lower_tensor.c   builtins that change shapes or look up
 * lower_einsum.c   the builtin einsum
 * lower_weight.c   the weights of modules
 * lower_attention.c  attention
 * lower_init.c       arange, the tables of rotary embeddings
 * lower_random.c   random numbers and their keys
 * lower_state.c    updates of states
 *
 * A forward is lowered once for each call, with the sizes of that call. The
 * body of a loop over an array of modules is lowered once.
 */
#ifndef PARC_FRONTEND_LOWER_LOWER_H
#define PARC_FRONTEND_LOWER_LOWER_H

#include "frontend/eval/eval.h"
#include "frontend/frontend.h"
#include "ir/analysis/choices.h"
#include "ir/ir.h"
#include "ir/path.h"

/* A name and its value. A later binding of a name hides an earlier one. Lists
 * grow only at the front: saving the head saves a scope. */
typedef struct Binding Binding;
struct Binding {
    const char *name;
    Loc loc;
    Datum datum;
    Binding *next;
};

/* A parameter before ties are resolved. */
typedef struct Candidate {
    Param param;
    Instance *owner;
    int tied_to;   /* the candidate that it is tied to, or -1 */
    Loc tie_loc;
    int index;     /* in Program.param, once numbered */
    bool used;
} Candidate;

typedef struct Buffer {
    const Member *member;
    Value *value;  /* NULL before lowering and after an error */
    bool lowered;
} Buffer;

/* A module with its sizes. The elements of an array share one instance, or one
 * for each run of elements (lower_runs.c). */
struct Instance {
    const Decl *decl;
    Instance *parent;
    const char *path;    /* "layers.*.attention" */
    const char *name;    /* "attention"; an element has the array's name */
    Loc loc;             /* location of the child's declaration */
    bool is_array;
    int64_t length;      /* length of the array */
    int64_t count;       /* number of elements that share this instance */
    PathRange range;     /* the elements that share this instance */
    int period;          /* this instance and the period-1 after it share one
                            loop; 0: the loop of an earlier instance includes
                            this one */
    Instance *array;     /* the array's first instance */
    Instance *next_run;  /* the array's next instance, or NULL */
    int nstack;          /* number of enclosing arrays, its own included */
    int64_t stack[MAX_STACK];
    Binding *formals;    /* formals and constants */
    Binding *members;    /* children, parameters, buffers */
    const Member *forward;
    int module;          /* index in Program.module */
    int first_candidate;
    bool called;
};

/* A region under construction: the step, or a loop's body. */
typedef struct Level Level;
struct Level {
    Level *outer;        /* NULL: the step */
    Region *region;
    Op *loop;
    Instance *array;
    VEC(Value *) from;   /* values of the outer level that are read here … */
    VEC(Value *) here;   /* … and the arguments that hold them */
    VEC(int) candidate;  /* parameters that are read here … */
    VEC(Value *) value;  /* … and their values in the compute type */
    Value *key;          /* key of random numbers here; NULL: none so far */
};

/* A forward, a function or a module's members during evaluation. */
typedef struct Frame Frame;
struct Frame {
    Frame *outer;
    Loc call;            /* location of the call */
    const char *callee;  /* name of the called function or module, for notes */
    Instance *instance;  /* NULL: a function */
    Binding *locals;
    bool members;        /* evaluates members: no tensors yet */
    bool settings;       /* evaluates `train`: no batch and seq yet */
    bool returned;
    Datum result;
};

/* How rotary embeddings are scaled to a longer context (lower_init.c). */
typedef enum RopeScaling {
    ROPE_PLAIN, ROPE_LINEAR, ROPE_LLAMA3, ROPE_YARN, ROPE_YARN_EXACT
} RopeScaling;
/* Rotary embeddings of `seq` positions and heads of `dim` columns; the other numbers are
 * those of its argument scaling, or 0. */
typedef struct Rope {
    int64_t seq, dim;
    double theta;
    RopeScaling scaling;
    double factor, low, high, original;
} Rope;
typedef struct RopeTable {
    Rope of;
    Value *cos, *sin; /* [seq, dim / 2] */
} RopeTable;

/* Data (Datum.is_data) and its copy in the compute type. */
typedef struct NarrowCopy {
    const Value *of;
    Value *copy;
} NarrowCopy;

/* An `update` of a state that was lowered. */
typedef struct StateUpdate {
    const Stmt *stmt;
    int candidate;
    Value *value; /* in the region of the update; NULL after an error */
} StateUpdate;

/* A pattern of the optimizer's no_decay= or groups=. */
typedef struct GroupPattern {
    const char *text;
    Loc loc;
    bool given[OPTIONS]; /* the settings of the group, by OptionName */
    ParamGroup group;
} GroupPattern;
typedef VEC(GroupPattern) GroupPatterns;

/* An item of a plan with its options (frontend/plan/read_plan.c). */
typedef struct PlanItem {
    const Clause *clause;
    const Item *item;
    Unit unit;             /* of fully_shard */
    Checkpoint checkpoint; /* of checkpoint */
    uint32_t offload;      /* of offload: bits of Offload */
    Pipeline pipeline;     /* of pipeline */
    Context context;       /* of context */
    ExpertItem experts;    /* of expert_parallel */
} PlanItem;
typedef VEC(PlanItem) PlanItems;

typedef struct Lower Lower;
struct Lower {
    Arena *arena;
    Diag *diag;
    const File *prelude, *file;
    const FrontendOptions *options;
    const Decl *model;
    const PlanDecl *plan; /* NULL: none */
    bool without_plan;   /* no plan could be chosen, which is an error */
    PlanItems planned;   /* its items, in order */
    bool pipelined;      /* it has a pipeline */
    const Clause *context; /* its clause `context`; NULL: none */
    bool uncut;          /* paths are those of another plan or of stages, for
                          * which arrays are not cut */
    Program *p;
    const Lower *trained; /* of a side program: the training step's */
    Loc accumulate_loc;  /* location of the setting that took effect */
    Build b;             /* inserts ops into the current level */
    Level *level;
    Level step;
    Op *init_end;        /* INIT ops are inserted before it */
    Frame *frame;
    int depth;           /* number of active frames */
    int calls;           /* number of frames and iterations of ranges so far */
    int64_t warmup;      /* train's: for schedules without an own warmup */
    Loc schedule_loc;    /* location of the last schedule setting */
    bool has_loss_scale; /* train sets it */
    GroupPatterns no_decay, groups; /* of the optimizer */
    VEC(Candidate) candidate;
    VEC(Instance *) instance; /* by Program.module index */
    VEC(const char *) broken; /* paths of children that have errors and no
                               * instance */
    VEC(RopeTable) rope;
    VEC(NarrowCopy) narrow;
    VEC(StateUpdate) update; /* of the training step */
    int64_t sites;       /* number of sites that draw random numbers */
    const Expr *returned; /* the value of the last `return` */
    int outputs;          /* outputs of the model besides the loss */
};

/* ---- lower_scope.c ---- */

/* Reports an error. An error inside the prelude is reported at the user's call,
 * with a note into the prelude. `help` may be NULL. The result is false, of
 * lower_poison poison. */
bool lower_error(Lower *l, Loc loc, const char *help, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
#define lower_poison(...) (lower_error(__VA_ARGS__), datum_poison())
void lower_note(Lower *l, Loc loc, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Whether pdl_check reported an error of this name or call: it is poison. */
bool lower_is_refused(const Lower *l, const Expr *e);
/* The innermost location in the user's text: the source of an op. */
Loc lower_user_loc(const Lower *l, Loc loc);

/* Whether the module is the array's element, or is below it. */
bool instance_is_below(const Instance *m, const Instance *array);

Binding *bind_name(Lower *l, Binding *next, const char *name, Loc loc,
                   Datum d);
const Binding *find_name(const Binding *b, const char *name);
/* The declaration that a name in the text at `from` refers to: the file's, else
 * the prelude's; names inside the prelude refer to the prelude only. NULL:
 * none. */
const Decl *lower_find_decl(const Lower *l, Loc from, const char *name,
                            DeclKind kind);

/* The base of the frequencies of rope. */
enum { DEFAULT_THETA = 10000 };

/* ---- lower_module.c ---- */

/* The instances of the model and all its modules. NULL after an error that
 * prevents lowering. */
Instance *lower_instances(Lower *l, Binding *formals);
Datum lower_read_param(Lower *l, int candidate);
Datum lower_read_buffer(Lower *l, Instance *owner, Buffer *buffer);

/* ---- lower_runs.c ---- */

/* A plan cannot treat elements of longer arrays differently. */
enum { MAX_CUT_ELEMENTS = 1 << 16 };

/* Elements of an array that the plan treats alike. */
typedef struct LayerRun {
    PathRange range;
    int64_t count;
    int period; /* as in Instance */
    bool whole; /* the plan treats all elements alike */
} LayerRun;
typedef VEC(LayerRun) LayerRuns;
/* ---- groups of tokens for experts (expert_groups.c) ---- */

/* The axes of the plan's clauses of a kind, as bits. */
uint32_t lower_clause_axes(const Lower *l, ClauseKind kind);
/* Whether the item names the module with this path, or one around it. */
bool lower_item_names(const Lower *l, const Item *item, const char *path);
/* The first item of expert_parallel that names the module; NULL: none. */
const PlanItem *lower_expert_item(const Lower *l, const char *path);
/* In how many groups the plan puts tokens for experts, along the batch and along
 * sequences, and how many shards the experts have. */
typedef struct ExpertGroups {
    int64_t batch, sequence, shards;
    double buffer; /* Experts.buffer */
    Loc loc; /* of the item of the plan; its file is 0 without one */
} ExpertGroups;
/* For experts called in the module with this path, of choices in one group and shard. */
ExpertGroups lower_expert_groups(const Lower *l, const char *path, const Choices *c);
/* How the tokens of a module with such choices reach its experts, by the item that names it:
 * without an option, as moves fewer bytes. */
Dispatch lower_expert_dispatch(const Lower *l, const PlanItem *planned, const Choices *c);
/* The rows of a shard for the choices of a group. */
int64_t lower_expert_rows(const ExpertGroups *g, const Choices *c);

/* The runs of an array of n elements of a class; `path` has no index. */
LayerRuns lower_runs(Lower *l, const char *path, const char *class, int64_t n);

/* v as a value of the level's region: an argument if v is defined outside. */
Value *lower_import(Lower *l, Level *at, Value *v);
/* The argument of the level's loop for a value of the region around it; if
 * `stacked`, for its slice. */
Value *lower_bring_in(Lower *l, Level *at, Value *outer, bool stacked);

/* ---- lower_stmt.c ---- */

void lower_stmts(Lower *l, Stmt *const *stmt, int n);
/* Reports a body that ends without a return. */
void lower_ended(Lower *l, Loc loc, const char *name);
/* Counts a call or an iteration of a range; false if the model has too many. */
bool lower_count_call(Lower *l, Loc loc);
bool push_frame(Lower *l, Frame *f, const char *callee, Loc call,
                Instance *instance);
void pop_frame(Lower *l);
/* Binds the arguments of a call and the defaults of those not given, in order.
 */
Binding *bind_formals(Lower *l, const Decl *decl, const Bound *bound,
                      Binding *next);

/* ---- lower_state.c ---- */

/* Whether the `update` takes effect here: in training, without an error. */
bool lower_takes_update(Lower *l, const Stmt *s);
/* Adds an `update` that takes effect, with its value. */
void lower_add_update(Lower *l, const Stmt *s, Datum d);
/* At the end of the step: assigns the values of all updates. */
void lower_assign_states(Lower *l);

/* ---- lower_loop.c ---- */

void lower_for_loop(Lower *l, const Stmt *s);

/* ---- lower_call.c ---- */

/* Lowers a call of an instance's forward, with its boundaries. */
Datum lower_call_module(Lower *l, Instance *m, const Datum *args,
                        const Loc *locs, Loc call);

/* ---- lower_expr.c ---- */

Datum lower_expr(Lower *l, const Expr *e);
/* Whether a name has a value where it is evaluated now. */
bool lower_is_known(const Lower *l, const char *name);
/* lower_op.c: data (Datum.is_data) in the compute type; any other datum as it
 * is. */
Datum lower_narrow(Lower *l, Datum d);
/* lower_op.c: emits an op on tensors. Poison after an error, which names the
 * operands' shapes; `doing` completes "cannot …". */
Datum lower_op(Lower *l, Loc loc, const char *doing, OpKind kind, int nargs,
               const Datum *args, const Attr *attr);
/* Narrows n tensors as operands of a product, and gives them one element type: the compute type,
 * or f32 if one of them has that. Returns the type. */
DType lower_common(Lower *l, Loc loc, int n, Datum *args);
/* The kinds and shapes of operands, for messages. */
const char *lower_operands_text(Lower *l, int n, const Datum *args);
/* Evaluate an expression that must be of this kind; false after an error. */
bool lower_int(Lower *l, const Expr *e, const char *what, int64_t *x);
bool lower_float(Lower *l, const Expr *e, const char *what, double *x);
bool lower_bool(Lower *l, const Expr *e, const char *what, bool *x);
/* A size: an integer that is at least 1 and at most 2 ** MAX_SIZE_LOG2. */
enum { MAX_SIZE_LOG2 = 40 };
bool lower_size(Lower *l, const Expr *e, const char *what, int64_t *x);

/* ---- lower_weight.c ---- */

/* The use of an op's result. Records the weight that a contraction or a lookup
 * uses, and its biases. */
Use lower_use(Lower *l, const Op *op, const Datum *args);

/* ---- lower_arithmetic.c ---- */

/* x op y, -x and not x for operands that are not tensors. A division of
 * integers that leaves a remainder is an error. */
Datum eval_binary(Lower *l, Loc loc, BinaryOp op, Datum x, Datum y);
Datum eval_unary(Lower *l, Loc loc, ExprKind kind, Datum x);
/* A function of numbers ("sqrt", "floor", …); false if no function has this
 * name and number of operands. */
bool eval_function(Lower *l, Loc loc, const char *name, int n, const Datum *x,
                   Datum *result);

/* ---- lower_op.c ---- */

/* Whether x is 0 or its f32 value is finite and not 0; reports an error if not.
 */
bool lower_f32(Lower *l, Loc loc, double x);
/* A number as an f32 tensor without dims; other values unchanged. */
Datum lower_scalar(Lower *l, Loc loc, Datum x);
/* Whether x, a number that becomes an element of the tensor `of`, is finite in
 * its element type; reports an error if not. */
bool lower_element_fits(Lower *l, Loc loc, Datum x, Datum of);
/* Whether all initial values of a parameter are finite in f32 and in its
 * compute type; reports an error if not. */
bool lower_init_fits(Lower *l, Loc loc, const Init *init, const Type *of);

/* ---- lower_random.c ---- */

/* The key for random numbers at the current level. */
Datum lower_key(Lower *l);

/* ---- lower_builtin.c, lower_tensor.c, lower_attention.c, lower_init.c ---- */

/* A call of a builtin with its bound arguments. */
typedef struct BuiltinCall {
    Lower *l;
    const struct Builtin *self;
    const Expr *call;
    Bound bound;
    Datum arg[MAX_FORMALS];  /* evaluated; NONE if not given */
    Datum *extra;            /* evaluated: operands of the formal `many` */
} BuiltinCall;
typedef Datum BuiltinRun(const BuiltinCall *c);

typedef struct Builtin {
    const char *name;
    const char *signature;
    OpKind op;   /* of an elementwise builtin; else OP_COUNT */
    BuiltinRun *run;
} Builtin;
const Builtin *builtin_find(const char *name);
extern const Builtin builtin_table[];
extern const int builtin_count;
Datum lower_builtin(Lower *l, const Builtin *b, const Expr *call);

/* lower_argument.c: the loc of argument i of a builtin's call, or of the call
 * itself. */
Loc builtin_loc(const BuiltinCall *c, int i);
/* "f32[8, 64]", for messages. */
const char *builtin_shape(const BuiltinCall *c, const Value *v);
/* Reports that argument i is not what the builtin takes ("a tensor"); false. */
bool builtin_wrong(const BuiltinCall *c, int i, const char *wanted);
bool builtin_tensor(const BuiltinCall *c, int i, Value **v);
/* lower_tensor.c: whether argument i has integers below `rows`, or the value `ignored`, if
 * that is not NULL; false after an error. */
bool builtin_ids(const BuiltinCall *c, int i, int64_t rows, const Datum *ignored);
bool builtin_number(const BuiltinCall *c, int i, double none, double *x);
bool builtin_flag(const BuiltinCall *c, int i, bool none, bool *x);
/* A dim of a tensor with ndim dims; a negative number counts from the end. */
bool builtin_dim(const BuiltinCall *c, int i, int ndim, int64_t none,
                 int *dim);
/* A dim, a tuple of dims, or none for all dims. */
bool builtin_dims(const BuiltinCall *c, int i, int ndim, AttrList *list);
/* The sizes of dims: argument i, the first of the operands, and those after it. `rest`:
 * a size may be -1. */
bool builtin_sizes(const BuiltinCall *c, int i, bool rest, AttrList *dims);

BuiltinRun builtin_reshape, builtin_unsqueeze, builtin_squeeze, builtin_broadcast,
    builtin_transpose, builtin_heads, builtin_merge_heads, builtin_concat,
    builtin_split, builtin_slice, builtin_pad, builtin_einsum, builtin_embedding,
    builtin_range, builtin_topk, builtin_sort, builtin_onehot, builtin_may_be, builtin_arange,
    builtin_attention, builtin_convolution, builtin_rope, builtin_random,
    builtin_limit_choices, builtin_group_rows, builtin_rows, builtin_grouped_matmul;

#endif
