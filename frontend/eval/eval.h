/* eval.h: the values of PDL expressions during lowering, and the arguments of
 * calls.
 *
 * A Datum is known at compile time, except for a tensor, which is a Value of
 * the program. POISON is the result of an expression with a reported error; an
 * operation on poison gives poison and reports nothing, so that one fault gives
 * one message.
 */
#ifndef PARC_FRONTEND_EVAL_EVAL_H
#define PARC_FRONTEND_EVAL_EVAL_H

#include "frontend/syntax/ast.h"
#include "ir/ir.h"

typedef struct Instance Instance;

typedef enum DatumKind {
    DATUM_POISON,
    DATUM_NONE,
    DATUM_INT,
    DATUM_FLOAT,
    DATUM_BOOL,
    DATUM_WORD,   /* text: half, tanh, or a string */
    DATUM_RANGE,  /* the numbers from 0 to integer - 1 */
    DATUM_INIT,   /* an initializer of parameters */
    DATUM_TUPLE,
    DATUM_TENSOR,
    DATUM_MODULE, /* an instance that can be called */
    DATUM_ARRAY,  /* all elements of an array of modules */
    DATUM_PARAM,  /* a parameter, before it is read */
    DATUM_BUFFER, /* a buffer, before it is read */
} DatumKind;

/* What a tensor is to the modules that use it, which finds their weights
 * (frontend/lower/lower_weight.c). */
typedef struct Use {
    const Instance *input_of;    /* the module whose first input it is, or an op
                                  * of that which keeps the last dim; or NULL */
    const Instance *declared_by; /* a parameter, as it is or cast: the module
                                  * that declares it; or NULL */
    int param;                   /* its index */
    const Instance *result_of;   /* the module whose forward made it with a
                                  * weight, and ops that joined it; or NULL */
    int weight;                  /* the index among the module's weights */
} Use;

typedef struct Datum Datum;
struct Datum {
    DatumKind kind;
    int64_t integer;   /* INT, BOOL, RANGE; PARAM: index of its candidate */
    double number;     /* FLOAT */
    const char *text;  /* WORD */
    Init init;
    const Datum *item; /* TUPLE */
    int nitems;
    Value *tensor;
    Use use;
    bool is_data;      /* f32 from inputs alone, which the first op with an
                        * operand in the compute type reads in that type
                        * (lower_narrow) */
    int64_t below;     /* bound of an integer tensor's elements; 0: unknown */
    bool has_ignored;  /* they may also be `ignored` */
    int64_t ignored;
    Instance *module;  /* MODULE, ARRAY; PARAM, BUFFER: the owner */
    struct Buffer *buffer;
};

Datum datum_poison(void);
Datum datum_none(void);
Datum datum_int(int64_t x);
Datum datum_float(double x);
Datum datum_bool(bool x);
Datum datum_word(const char *text);
Datum datum_tensor(Value *v); /* NULL gives poison */

bool datum_is_number(Datum x);
double datum_number(Datum x); /* INT or FLOAT */

/* "12", "a tuple of 2", "f32[8, 64]", … for messages. */
const char *datum_text(Arena *a, Datum x);

/* A word that is a value of PDL: zeros, ones, half, …; false for any other
 * word. */
bool eval_word(const char *name, Datum *result);
extern const char *const word_names[];
extern const int word_count;

/* ---- calls ---- */

/* The arguments that a call takes, by position or by name. Formal number `many`
 * (-1: none) takes any number of operands; formals after it take arguments by
 * name only. */
enum { MAX_FORMALS = 32 };
typedef struct Signature {
    const char *what;  /* "module 'Linear'", "function 'silu'", "'exp'" */
    int n, many;
    const char *name[MAX_FORMALS];
    bool optional[MAX_FORMALS];
    Loc loc;           /* location of the declaration; zero: a builtin */
} Signature;

/* The arguments of a call in the order of the signature; NULL: not given.
 * `extra` are the operands of the formal `many` after its first. */
typedef struct Bound {
    const Expr *value[MAX_FORMALS];
    const Expr **extra;
    int nextra;
} Bound;

/* Binds a call's arguments; false after errors. */
bool bind_call(Arena *a, Diag *d, const Signature *s, const Expr *call,
               Bound *b);
void signature_of_decl(Arena *a, const Decl *decl, Signature *s);
/* The signature of a module's forward; `what` names it in messages. */
void signature_of_forward(const char *what, const Member *forward,
                          Signature *s);
/* The signature of a builtin, from "x, dim=none, keep=false" or
 * "dims..., dim=-1". */
void signature_of_text(Arena *a, const char *name, const char *text,
                       Signature *s);

/* ---- names with near misses ---- */

typedef struct NameList {
    Arena *arena;
    VEC(const char *) name;
    VEC(Loc) loc;
} NameList;
void names_add(NameList *l, const char *name, Loc loc);
/* Reports that row i of a list, whose rows begin with an Ident, has the name of
 * an earlier row: "'x' is HOW twice". */
void names_check_repeated(Diag *d, const void *rows, size_t row_size, int i,
                          const char *how);
#define names_check_new(d, rows, i, how) \
    names_check_repeated(d, rows, sizeof *(rows), i, how)
/* Adds the note or help "did you mean 'x'?" to the last error. */
void names_suggest(Diag *d, const NameList *l, const char *name);
/* Suggests a name like names_suggest; without a near miss, lists the names:
 * "one of a, b, c". */
void names_suggest_or_list(Diag *d, const NameList *l, const char *name);

#endif
