/* ast.h: the syntax tree of a PDL file.
 *
 * The parser builds the tree. `check` reports the errors that can be found
 * without sizes (names, arity, duplicates). `lower` evaluates the tree with
 * sizes and builds the IR. Nodes are allocated in the compilation's arena;
 * lists are arrays.
 */
#ifndef PARC_FRONTEND_SYNTAX_AST_H
#define PARC_FRONTEND_SYNTAX_AST_H

#include "base/arena.h"
#include "base/diag.h"
#include "base/out.h"
#include "ir/options.h"

/* ---- expressions ---- */

typedef enum ExprKind {
    EX_INT,    /* integer */
    EX_FLOAT,  /* number */
    EX_STRING, /* name: the text */
    EX_BOOL,   /* integer: 0 or 1 */
    EX_NONE,   /* `none` */
    EX_NAME,   /* name */
    EX_NEG,    /* -arg[0] */
    EX_NOT,    /* not arg[0] */
    EX_BINARY, /* op, arg[0], arg[1] */
    EX_CALL,   /* name(arg…); `loc` is the callee's name */
    EX_TUPLE,  /* (a, b, …) */
    EX_MEMBER, /* arg[0].name: output.weight */
    EX_INDEX,  /* arg[0][arg[1]] : layers[0] */
    EX_IF,     /* reserved: PDL has no conditional expression */
} ExprKind;

typedef enum BinaryOp {
    BIN_ADD, BIN_SUB, BIN_MUL, BIN_DIV, BIN_MOD, BIN_POW, BIN_MATMUL,
    BIN_EQ, BIN_NE, BIN_LT, BIN_LE, BIN_GT, BIN_GE, BIN_AND, BIN_OR,
} BinaryOp;

typedef struct Expr Expr;
typedef struct Arg {
    const char *name; /* NULL: a positional argument */
    Loc name_loc;
    Expr *value;
} Arg;
struct Expr {
    ExprKind kind;
    BinaryOp op;
    Loc loc;       /* location of the operator, the name or the literal */
    Loc range;     /* range of the whole expression, cut at its first line */
    int64_t integer;
    double number;
    const char *name;
    Arg *arg;
    int nargs;
    int depth;     /* height of this subtree; the parser limits it */
};

/* ---- statements of a forward, or of a function ---- */

typedef enum StmtKind {
    ST_ASSIGN, /* target… = value */
    ST_UPDATE, /* update target[0] = value */
    ST_RETURN, /* return value (EX_TUPLE for several) */
    ST_FOR,    /* for target[0] in value { body } */
    ST_IF,     /* if value { body } else { other } */
} StmtKind;

typedef struct Ident {
    const char *name;
    Loc loc;
} Ident;

typedef struct Stmt Stmt;
struct Stmt {
    StmtKind kind;
    Loc loc;
    Ident *target;
    int ntargets;
    Expr *value;
    Stmt **body, **other;
    int nbody, nother;
};

/* ---- members of a module ---- */

typedef enum MemberKind {
    MB_CHILD,    /* name: Module(…), name: [count] Module(…) */
    MB_CONSTANT, /* name = value */
    MB_PARAM,    /* param name[dims] = value */
    MB_BUFFER,   /* buffer name[dims] = value */
    MB_STATE,    /* state name[dims] = value */
    MB_TIE,      /* tie value = other */
    MB_IF,       /* if value { body } else { other_body } */
    MB_FORWARD,  /* forward(inputs) { statements } */
} MemberKind;

/* An input of a forward: x, x: [..., dim], tokens: int(vocab)[batch, seq] */
typedef struct InputDecl {
    Ident name;
    Expr *below;      /* the bound of int(below), or NULL */
    Ident ignored_name;
    Expr *ignored;    /* the value of int(below, ignore=value), or NULL */
    bool is_int, has_shape, open; /* open: the shape starts with ... */
    Expr **dim;
    int ndims;
} InputDecl;

typedef struct Member Member;
struct Member {
    MemberKind kind;
    Ident name;
    Loc loc;
    Expr *count;        /* MB_CHILD: array length, or NULL */
    Expr *value;        /* MB_CHILD: the EX_CALL of the class */
    Expr *other;        /* MB_TIE: the parameter that `value` becomes */
    Expr **dim;
    int ndims;
    Member **body, **other_body;
    int nbody, nother;
    InputDecl *input;   /* MB_FORWARD */
    int ninputs;
    Stmt **stmt;
    int nstmts;
};

/* ---- plans ---- */

/* A path pattern: layers.*.attention */
typedef struct Path {
    const char *text; /* "" is the model (written `model`) */
    Loc loc;
} Path;

/* An argument of a style: a layout (R, Replicate, Shard(1), Partial, none) or a
 * pair `from -> to`, or in Prepare* a tuple of these. Layouts are expressions:
 * EX_NAME, EX_CALL with EX_INT or EX_NEG, EX_TUPLE. */
typedef struct StyleArg {
    const char *name; /* input=, output=, or NULL */
    Loc name_loc;
    Expr *from, *to;  /* `to` is NULL without an arrow */
} StyleArg;

typedef struct StageItem {
    Path *path;
    int npaths;
} StageItem;

typedef struct Item {
    Path *path;        /* several paths: [a, b] */
    int npaths;
    const char *class_name; /* of `every Module`, or NULL */
    Expr *min_params;  /* `min_params=N`, or NULL */
    const char *style; /* ColwiseParallel, … in parallelize; else NULL */
    Loc style_loc;
    StyleArg *arg;
    int nargs;
    Arg *option;       /* after the colon: reshard=false, prefetch=2 */
    int noptions;
    StageItem *stage; /* `split` of a pipeline: the modules of each stage */
    int nstages;
    Loc loc;
} Item;

typedef struct Clause {
    ClauseKind kind;
    Ident *axis;
    int naxes;
    Item *item;
    int nitems;
    Loc loc;
} Clause;

typedef struct PlanDecl {
    Ident name;
    Ident *axis;
    int naxes;
    Clause *clause;
    int nclauses;
} PlanDecl;

/* ---- the file ---- */

typedef struct Formal {
    Ident name;
    Expr *value; /* default, or NULL */
} Formal;

typedef enum DeclKind { DC_MODULE, DC_MODEL, DC_FUNCTION } DeclKind;

/* A `function` is a forward without members; the prelude defines silu(x) and
 * others as functions, and files may define more. */
typedef struct Decl {
    DeclKind kind;
    Ident name;
    Formal *formal;    /* formals; of a function: operands, then settings */
    int nformals;
    Member **member;   /* module, model */
    int nmembers;
    Stmt **stmt;       /* function */
    int nstmts;
} Decl;

typedef struct Setting { /* a setting of the train block: name = value */
    Ident name;
    Expr *value;
} Setting;

/* ---- names in files ---- */

/* path -> file: layout, … : the names of parameters in files. */
typedef struct NameItem {
    Path *path;     /* several paths: [a, b] are parts of one tensor */
    int npaths;
    Path file;
    bool quoted;    /* file is a string */
    Expr **layout;  /* EX_NAME, EX_CALL */
    int nlayouts;
    Loc loc;
} NameItem;

typedef struct NamesDecl {
    Ident name;       /* hf */
    VEC(NameItem) item;
    VEC(Setting) setting; /* prefix = "…" */
    VEC(Setting) config;  /* the entries of config.json */
    Ident config_word; /* the word before the entries; no name without them */
} NamesDecl;

typedef VEC(const Expr *) ExprSet;

typedef struct File {
    uint16_t source;
    VEC(Decl *) decl;
    VEC(PlanDecl *) plan;
    VEC(Ident) ignored; /* plans with syntax errors, which --plan does not
                         * select */
    VEC(Setting) setting;
    bool has_train;
    Loc train_loc;
    VEC(NamesDecl *) names;
    ExprSet *refused; /* names and calls with errors that pdl_check reported */
} File;

/* parse.y, lex.l. Parses a registered source. Reports syntax errors to d and
 * returns NULL if it finds any. */
File *pdl_parse(Arena *a, Diag *d, uint16_t source);
/* Parses a registered source with `plan` selected (--plan; NULL: none): other
 * plans with syntax errors are omitted with a warning. */
File *pdl_parse_plan(Arena *a, Diag *d, uint16_t source, const char *plan);

/* Parses `NAME=VALUE` of a -D option as a setting; the name may be dotted
 * (optimizer.lr). NULL after an error. */
Setting *pdl_parse_define(Arena *a, Diag *d, uint16_t source);
/* Parses a -D option like pdl_parse_define, but only `size` bytes from `begin`
 * on of the source's first line: one argument of the command line. */
Setting *pdl_parse_define_at(Arena *a, Diag *d, uint16_t source, size_t begin,
                             size_t size);

/* build.c: the declaration of this name and kind; NULL: none, or f is NULL. */
const Decl *file_find_decl(const File *f, const char *name, DeclKind kind);
/* The model; NULL: none. */
const Decl *file_model(const File *f);
/* The plan of this name; NULL: none, or name is NULL. */
const PlanDecl *file_find_plan(const File *f, const char *name);
/* The first forward among members and the branches of their `if`s, or NULL;
 * adds their number to *count. */
const Member *members_find_forward(Member *const *member, int n, int *count);

/* ast_print.c: prints the tree as normalized PDL, which parses to the same
 * tree (`--emit ast`). */
void ast_print(Out *o, const File *f);
void ast_print_plan(Out *o, const PlanDecl *p);
void ast_print_setting(Out *o, const Setting *s); /* "batch = 8" */
const char *binary_sign(BinaryOp op);  /* "+" … "or" */
void ast_print_item(Out *o, const Item *item);

/* The prelude's text, embedded at build time (frontend/prelude.pdl). */
extern const char prelude_text[];
extern const unsigned long prelude_size;

#endif
