/* lower.h: shared by the files of lowering.
 *
 * lower.c          the order of lowering; model parameters; the model's inputs
 * lower_train.c    `train` and -D
 * lower_optimizer.c  optimizers and schedules
 * lower_decay.c    parameters without weight decay
 * lower_mesh.c     --mesh
 * lower_module.c   instances of modules: sizes, parameters, ties
 * lower_runs.c     arrays whose elements the plan treats differently
 * lower_stmt.c     statements and loops
 * lower_call.c     calls of modules: shapes of inputs, boundaries
 * lower_expr.c     expressions; operators on tensors
 * lower_builtin.c  the table of builtins, with those on elements
 * lower_tensor.c   builtins that change shapes, contract or look up
 * lower_attention.c  attention, rotary positions, constants
 * lower_number.c   numbers that become part of the program
 * lower_random.c   random numbers and their keys
 * lower_plan.c     plans: clauses, patterns and units
 * lower_freeze.c   plans: parameters that are not trained
 * lower_parallelize.c  plans: which module gets which style
 * lower_style.c    plans: styles and their layouts
 * lower_prepare.c  plans: the styles PrepareModule…
 * lower_checkpoint.c  plans: what is recomputed
 * lower_offload.c  plans: tensors kept in host memory
 *
 * Each forward is evaluated once for each call, with the call's sizes; the body
 * of a loop over an array of modules is evaluated once.
 */
#ifndef PARC_FRONTEND_LOWER_H
#define PARC_FRONTEND_LOWER_H

#include "frontend/eval.h"
#include "frontend/frontend.h"
#include "ir/ir.h"
#include "ir/path.h"
#include "ir/roles.h"

/* Names and what they stand for; a later binding of a name hides an earlier
 * one. Lists only grow at the front, so that a scope is saved and restored by
 * its head. */
typedef struct Binding Binding;
struct Binding {
    const char *name;
    Loc loc;
    Datum datum;
    Binding *next;
};

/* A parameter before ties are settled. */
typedef struct Slot {
    Param param;
    Instance *owner;
    int tied_to;   /* slot that it became, or -1 */
    Loc tie_loc;
    int index;     /* in Program.param, once numbered */
    bool used;
} Slot;

typedef struct Buffer {
    const Member *member;
    Value *value;  /* once lowered; NULL before and after an error */
    bool lowered;
} Buffer;

/* A module with its sizes. The elements of an array are one instance, or one
 * for each run of them (lower_runs.c). */
struct Instance {
    const Decl *decl;
    Instance *parent;
    const char *path;    /* "layers.*.attention" */
    const char *name;    /* "attention"; of an element the array's name */
    Loc loc;             /* of the child's declaration */
    bool is_array;
    int64_t length;      /* of the array */
    int64_t count;       /* elements that this instance stands for */
    PathRange range;     /* which */
    int period;          /* instances that share the iterations of a loop, this
                            one and those after it; 0: not the first of a loop */
    Instance *array;     /* the array's first instance */
    Instance *next_run;  /* the array's next one, or NULL */
    int nstack;          /* arrays around it, its own included */
    int64_t stack[MAX_STACK];
    Binding *formals;    /* formals and constants */
    Binding *members;    /* children, parameters, buffers */
    const Member *forward;
    int module;          /* index in Program.module */
    int first_slot;
    bool called;
};

/* A region under construction: the step, or a loop's body. */
typedef struct Level Level;
struct Level {
    Level *outer;        /* NULL: the step */
    Region *region;
    Op *loop;
    Instance *array;
    VEC(Value *) from;   /* values of the outer level read here … */
    VEC(Value *) here;   /* … and the arguments that hold them */
    VEC(int) slot;       /* parameters read here … */
    VEC(Value *) value;  /* … and their value in the compute type */
    Value *key;          /* of what is drawn here; NULL: nothing yet */
};

/* A forward, a function or a module's members being run. */
typedef struct Frame Frame;
struct Frame {
    Frame *outer;
    Loc call;            /* where it was called */
    const char *callee;  /* for notes */
    Instance *instance;  /* NULL: a function */
    Binding *locals;
    bool members;        /* members are being declared: no tensors yet */
    bool settings;       /* `train` is being read: no batch and seq yet */
    bool returned;
    Datum result;
};

/* The tables of sines and cosines that rotations of one kind share. */
typedef struct RopeTable {
    int64_t seq, dim;
    double theta;
    Value *cos, *sin;
} RopeTable;

/* A pattern of no_decay=. */
typedef struct DecayPattern {
    const char *text;
    Loc loc;
} DecayPattern;

typedef struct Lower {
    Arena *arena;
    Diag *diag;
    const File *prelude, *file;
    const FrontendOptions *options;
    const Decl *model;
    const PlanDecl *plan; /* NULL: none */
    Program *p;
    Loc accumulate_loc;  /* of the setting that won */
    EvalSink sink;
    Build b;             /* where ops are made now */
    Level *level;
    Level step;
    Op *init_end;        /* ops of the INIT phase go before it */
    Frame *frame;
    int depth;           /* of frames */
    int calls;           /* frames so far */
    int64_t warmup;      /* the setting: for schedules that give none */
    Loc schedule_loc;    /* where the schedule was set last */
    VEC(DecayPattern) no_decay; /* the optimizer's */
    VEC(Slot) slot;
    VEC(Instance *) instance; /* by Program.module index */
    VEC(RopeTable) rope;
    WeightRoles roles;   /* once the model has been run */
    int64_t sites;       /* where random numbers are drawn */
} Lower;

/* ---- lower.c ---- */

/* An error; one inside the prelude is reported where the user called it, with
 * a note into the prelude. `help` may be NULL. */
void lower_error(Lower *l, Loc loc, const char *help, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
void lower_note(Lower *l, Loc loc, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* The innermost place that is in the user's text: where an op comes from. */
Loc lower_user_loc(const Lower *l, Loc loc);

Binding *bind_name(Lower *l, Binding *next, const char *name, Loc loc,
                   Datum d);
const Binding *find_name(const Binding *b, const char *name);
/* A declaration that a text at `from` means: of the file, else of the prelude;
 * the prelude sees itself alone. NULL: none. */
const Decl *lower_find_decl(const Lower *l, Loc from, const char *name,
                            DeclKind kind);

/* ---- lower_train.c ---- */

/* Defaults, the `train` block, then -D. */
void lower_train(Lower *l);
/* The last -D of that name, or NULL. */
const Setting *lower_define(const Lower *l, const char *name);

/* ---- lower_optimizer.c ---- */

struct ChoiceSet;
/* PyTorch's. */
void lower_optimizer_defaults(Train *t, OptimizerKind kind);
/* optimizer = AdamW(…), schedule = cosine(…) */
void lower_choice(Lower *l, const struct ChoiceSet *set, const Expr *e);
/* -D optimizer.lr=…: a part of what was chosen before. */
void lower_choice_part(Lower *l, const struct ChoiceSet *set,
                       const Setting *s);
/* warmup = N */
void lower_warmup(Lower *l, const Expr *e);
/* Once everything is set. */
void lower_check_schedule(Lower *l);

/* ---- lower_decay.c ---- */

/* no_decay= */
void lower_no_decay(Lower *l, const Expr *e);
/* Takes the parameters that match out of weight decay. */
void lower_decay(Lower *l);

/* ---- lower_mesh.c, lower_plan.c, lower_freeze.c, lower_style.c ---- */

/* The plan that applies; NULL: parc's own, or an error (then *fault). */
const PlanDecl *lower_choose_plan(Lower *l, bool *fault);
void lower_mesh(Lower *l, const PlanDecl *plan);
void lower_plan(Lower *l, const PlanDecl *plan);
/* Whether a pattern matches a module, or with `params` a parameter, and names
 * only elements that exist; if not, reports it. */
bool lower_path_known(Lower *l, const Path *path, bool params);
/* Whether the model has a module of the class that the item names with
 * `every`; if not, reports it. */
bool lower_class_known(Lower *l, const Item *item);
/* The number of the mesh axis of that name; -1: none. */
int lower_mesh_axis(const Lower *l, const char *name);
/* lower_parallelize.c: fills PlanSpec.style. */
void lower_parallelize(Lower *l, const PlanDecl *plan);
void lower_freeze(Lower *l, const Clause *c);
/* lower_checkpoint.c: fills PlanSpec.checkpoint. */
void lower_checkpoints(Lower *l, const PlanDecl *plan);
/* lower_offload.c: fills PlanSpec.offload. */
void lower_offload(Lower *l, const PlanDecl *plan);
/* Fills layouts of one item for module number `module`; false after an error.
 */
bool lower_style(Lower *l, const Item *item, int module, Style *style);
/* The same for the placement of parameter number `param`. */
bool lower_placement(Lower *l, const Item *item, int param, Style *style);
/* A layout; false after an error. */
bool lower_layout(Lower *l, const Expr *e, Layout *to);
/* lower_prepare.c: the same for the styles PrepareModule…; `called`: the
 * numbers of the module's inputs and outputs are known. */
bool lower_prepare(Lower *l, const Item *item, const Module *m, bool called,
                   Style *s);

/* What check and lower know of plans. */
typedef struct StyleInfo {
    const char *name;
    StyleKind kind;
    const char *settings; /* "input, output": names that it takes */
} StyleInfo;
const StyleInfo *style_find(const char *name);
/* Whether the style has an argument of that name. */
bool style_takes(Arena *a, const StyleInfo *style, const char *name);
/* parc's name of a style's argument: "input" for PyTorch's "input_layouts". */
const char *style_setting(const char *name);
extern const StyleInfo style_table[];
extern const int style_count;

/* ---- lower_module.c ---- */

/* The model and everything below it. NULL after an error that leaves nothing
 * to run. */
Instance *lower_instances(Lower *l, Binding *formals);
Datum lower_read_param(Lower *l, int slot);
Datum lower_read_buffer(Lower *l, Instance *owner, Buffer *buffer);

/* ---- lower_runs.c ---- */

/* Elements of an array that the plan treats alike. */
typedef struct LayerRun {
    PathRange range;
    int64_t count;
    int period; /* as in Instance */
    bool whole; /* the plan means all elements wherever it means one */
} LayerRun;
typedef VEC(LayerRun) LayerRuns;
/* The runs of an array of n elements of a class; `path` is without index. */
LayerRuns lower_runs(Lower *l, const char *path, const char *class, int64_t n);
/* N of an item's `every=N`; 0: it has none. */
int64_t lower_item_every(const Item *item);

/* ---- lower_stmt.c ---- */

void lower_stmts(Lower *l, Stmt *const *stmt, int n);
/* Reports a body that ends without a return. */
void lower_ended(Lower *l, Loc loc, const char *name);
/* v as it is seen from the region that is being built. */
Value *lower_import(Lower *l, Level *at, Value *v);
bool push_frame(Lower *l, Frame *f, const char *callee, Loc call,
                Instance *instance);
void pop_frame(Lower *l);
/* Evaluates the default values of what a call left out, in order. */
Binding *bind_formals(Lower *l, const Decl *decl, const Bound *bound,
                      Binding *next);

/* ---- lower_call.c ---- */

/* Runs an instance's forward on values; boundaries included. */
Datum lower_call_module(Lower *l, Instance *m, const Datum *args,
                        const Loc *locs, Loc call);

/* ---- lower_expr.c ---- */

Datum lower_expr(Lower *l, const Expr *e);
/* An operator of the table on tensors; poison after an error, which names
 * the operands' shapes. `doing` completes "cannot …". */
Datum lower_op(Lower *l, Loc loc, const char *doing, OpKind kind, int nargs,
               const Datum *args, const Attr *attr);
/* Expressions that must be of a kind; false after an error. */
bool lower_int(Lower *l, const Expr *e, const char *what, int64_t *x);
bool lower_float(Lower *l, const Expr *e, const char *what, double *x);
bool lower_bool(Lower *l, const Expr *e, const char *what, bool *x);
/* A size: an integer of at least 1. */
bool lower_size(Lower *l, const Expr *e, const char *what, int64_t *x);
Datum lower_binary(Lower *l, Loc loc, BinaryOp op, Datum x, Datum y);

/* ---- lower_number.c ---- */

/* Whether x becomes a number other than 0 in f32, or is 0; reports it if not.
 */
bool lower_f32(Lower *l, Loc loc, double x);
/* The same for the attributes of an op that are numbers. */
bool lower_numbers_fit(Lower *l, Loc loc, OpKind kind, const Attr *attr);
/* A number as a tensor without dims, in f32; anything else as it is. */
Datum lower_scalar(Lower *l, Loc loc, Datum x);
/* Whether a number x, which elements of the tensor `of` may become, is finite
 * in their type; reports it if not. */
bool lower_element_fits(Lower *l, Loc loc, Datum x, Datum of);
/* Whether all initial values of a parameter are finite in f32 and in the type
 * that it is computed with; reports it if not. */
bool lower_init_fits(Lower *l, Loc loc, const Init *init, const Type *of);

/* ---- lower_random.c ---- */

/* The key of what is drawn at the current level. */
Datum lower_key(Lower *l);

/* ---- lower_builtin.c, lower_tensor.c, lower_attention.c ---- */

/* A call of a builtin: what it is given, already bound. */
typedef struct BuiltinCall {
    Lower *l;
    const Expr *call;
    Bound bound;
    Datum arg[MAX_FORMALS];  /* evaluated; NONE where left out */
    Datum *extra;            /* evaluated, of a `many` formal */
} BuiltinCall;

typedef struct Builtin {
    const char *name;
    const char *signature;
    OpKind op;   /* of elementwise ones; else OP_COUNT */
    Datum (*run)(const BuiltinCall *c, const struct Builtin *self);
} Builtin;
const Builtin *builtin_find(const char *name);
extern const Builtin builtin_table[];
extern const int builtin_count;
Datum lower_builtin(Lower *l, const Builtin *b, const Expr *call);

/* The loc of argument i of a builtin's call, or of the call itself. */
Loc builtin_loc(const BuiltinCall *c, int i);
bool builtin_tensor(const BuiltinCall *c, int i, Value **v);
bool builtin_number(const BuiltinCall *c, int i, double none, double *x);
bool builtin_flag(const BuiltinCall *c, int i, bool none, bool *x);
/* A dim that may count from the end, of a tensor of ndim dims. */
bool builtin_dim(const BuiltinCall *c, int i, int ndim, int64_t none,
                 int *dim);

#define BUILTIN_RUN(name) \
    Datum builtin_##name(const BuiltinCall *c, const Builtin *self)
BUILTIN_RUN(reshape);
BUILTIN_RUN(unsqueeze);
BUILTIN_RUN(broadcast);
BUILTIN_RUN(transpose);
BUILTIN_RUN(heads);
BUILTIN_RUN(merge_heads);
BUILTIN_RUN(concat);
BUILTIN_RUN(split);
BUILTIN_RUN(slice);
BUILTIN_RUN(einsum);
BUILTIN_RUN(embedding);
BUILTIN_RUN(onehot);
BUILTIN_RUN(may_be);
BUILTIN_RUN(arange);
BUILTIN_RUN(attention);
BUILTIN_RUN(rope);
BUILTIN_RUN(random);

#endif
