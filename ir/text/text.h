/* text.h: the text of a program (docs/ir.md), and the functions that print and
 * parse it.
 *
 * One function describes a part of the text for both directions:
 *
 *   static void text_segment(Text *t, Segment *s)
 *   {
 *       text_field(t, " ", &s->axes);
 *       text_field(t, " at=", &s->offset);
 *       …
 *
 * prints "segment {dp} at=8192 …", and stores {dp} and 8192 when it parses that.
 * A form such as " at=" is printed as it is written. The parser expects its
 * tokens: the grammar needs one token of lookahead and ignores line ends,
 * except for notes ("| %h tp …"), which end with their line. After the first
 * error the lexer only returns the end of the text, so that every loop ends.
 */
#ifndef PARC_IR_TEXT_TEXT_H
#define PARC_IR_TEXT_TEXT_H

#include "ir/internal.h"
#include "ir/memory.h"
#include "ir/options.h"

typedef enum TokenKind {
    TK_END,
    TK_WORD,   /* add, f32, carry */
    TK_VALUE,  /* %h.3, without the '%' in text */
    TK_STRING, /* unescaped in text */
    TK_NUMBER, /* 12, -1, 3e-05, inf; text as written */
    TK_ARROW,  /* -> */
    TK_DOT,    /* the · of f32[8/(tp·dp)] */
    TK_CHAR,   /* one of { } ( ) [ ] = : , / + ^ ~ | @ */
} TokenKind;

typedef struct Token {
    TokenKind kind;
    const char *text;
    bool first; /* the first token of its line */
    Loc loc;
} Token;

/* An attribute that names an op, which may follow. */
typedef struct OpName {
    Op *op;
    int attr;
    const char *name;
    Loc loc;
} OpName;

typedef struct Text {
    Program *p;
    Out *out; /* NULL: the text is parsed */

    /* Printing; it stores in the program what the program has. */
    uint16_t *file; /* number in the dump by index in Diag; 0: not used */
    int nfiles;     /* length of `file` */
    bool marks;     /* text_loc marks the files in use by 1 */
    int indent;

    /* Parsing. */
    Arena *arena;
    Diag *diag;
    const char *at, *end, *line_start; /* the remaining text */
    uint32_t line;
    uint16_t source; /* index in Diag of the dump */
    bool failed, line_begun;
    Token tok;
    VEC(OpName) op_name;        /* to be found when all ops are parsed */
    VEC(uint16_t) named_source; /* index in Diag by number in the dump - 1 */
    TextMap value;              /* by name */
    int repeats; /* the purpose of the program that this one repeats; -1: none */
} Text;

/* ---- lex.c: tokens ------------------------------------------------------- */

void parse_next(Text *t);
/* Raises an error, if the text is parsed. */
void parse_fail(Text *t, Loc loc, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- parts.c: small parts ------------------------------------------------ */

/* Whether the next token is the first one of the form. */
bool parse_is(const Text *t, const char *form);
/* A word; `what` it is, for errors. */
const char *parse_word(Text *t, const char *what);
Type parse_type(Text *t);

void text_form(Text *t, const char *form);
/* An optional part: prints the form if it is given; parses the form if its first
 * token is next. Returns whether it did. */
bool text_given(Text *t, bool given, const char *form);
/* A word that is printed if *on. */
void text_flag(Text *t, const char *form, bool *on);

/* The form, then a value: an integer; one from -1 to 2^30; a number within f32;
 * true or false; a string in quotes; axes of the mesh, "{dp, tp}"; a location
 * " @1:40:15+5", nothing for a Loc of zeros. */
#define text_field(t, form, x)                                                 \
    _Generic((x),                                                              \
        int64_t *: text_int64,                                                 \
        int *: text_int,                                                       \
        double *: text_double,                                                 \
        bool *: text_bool,                                                     \
        const char **: text_string,                                            \
        uint32_t *: text_axes,                                                 \
        Loc *: text_loc,                                                       \
        Type *: text_type)((t), (form), (x))
/* The same for an optional value. */
#define text_field_if(t, given, form, x)                                       \
    (text_given((t), (given), (form)) ? text_field((t), "", (x)) : (void)0)
void text_int64(Text *t, const char *form, int64_t *x);
void text_int(Text *t, const char *form, int *x);
void text_double(Text *t, const char *form, double *x);
void text_bool(Text *t, const char *form, bool *x);
void text_string(Text *t, const char *form, const char **x);
void text_axes(Text *t, const char *form, uint32_t *axes);
void text_loc(Text *t, const char *form, Loc *loc);
void text_type(Text *t, const char *form, Type *type);

/* An optional number below n, which *after is plus 1; 0: none. */
void text_number(Text *t, const char *form, int *after, int n);
/* The value of an enum by its word; `words` ends with NULL, `what` names the
 * enum in errors. */
int text_choice(Text *t, const char *form, int value, const char *const *words,
                const char *what);
DType text_dtype(Text *t, const char *form, DType type);
/* The name of an axis of the mesh, as its index. */
int text_axis(Text *t, const char *form, int axis);
/* "[1, 2]", at most `most` numbers; "(\"a\", \"b\")". They return how many. */
int text_list(Text *t, const char *form, int n, int64_t *x, int most);
int text_strings(Text *t, const char *form, int n, const char *const **list);

/* Appends to an array that has grown only here, by doubling. */
#define array_push(arena, at, n, x)                                            \
    ((((n) & ((n) - 1)) == 0                                                   \
          ? (void)((at) = arena_grow((arena), (at), (size_t)(n),               \
                                     (size_t)((n) ? 2 * (n) : 1),              \
                                     sizeof *(at)))                            \
          : (void)0),                                                          \
     (at)[(n)++] = (x))

/* ---- the parts of a program ---------------------------------------------- */

/* Begins and ends a line of the header, if it is printed. */
void text_begin(Text *t, const char *form);
void text_end(Text *t, Loc *loc);
/* The elements of a list, each on a line; the parser has read the first word of
 * one. `push` appends x to the list. */
#define text_lines(t, form, list, n, T, walk, push)                            \
    do {                                                                       \
        for (int i = 0; (t)->out && i < (n); i++) {                            \
            T x = (list)[i];                                                   \
            text_begin((t), (form));                                           \
            walk((t), &x);                                                     \
        }                                                                      \
        if (!(t)->out) {                                                       \
            T x = {0};                                                         \
            walk((t), &x);                                                     \
            push;                                                              \
        }                                                                      \
    } while (0)

/* head.c: everything before the step. */
void text_head(Text *t);
/* options.c: the options of a scope, with a space before each; the parser takes
 * options up to another token, and gives the scope's other fields their
 * defaults. */
void text_options(Text *t, OptionScope scope, void *of);
/* plan.c: lines of the header. */
void text_plan(Text *t);
void text_styles(Text *t);
void text_units(Text *t);
void text_checkpoints(Text *t);
void text_offload(Text *t);
void text_pipeline(Text *t);
void text_stages(Text *t);
void text_context(Text *t);
void text_experts(Text *t);
/* memory.c: lines of the header; the place of a value, NULL: it has none. */
void text_streams(Text *t);
void text_arena(Text *t);
void text_rotations(Text *t);
void text_segments(Text *t);
void text_buffers(Text *t);
const Address *text_address(Text *t, const Address *at);

/* attrs.c: "{dims=[1], keep=false}" of an op whose text begins at loc. */
void text_attrs(Text *t, Op *op, Loc loc);
/* Replaces the names of ops among the attributes by the ops, when all are
 * known. */
void parse_find_ops(Text *t);
/* Defines a value with exactly this name, which is at name_loc. */
Value *parse_define(Text *t, const char *name, Loc name_loc, Type type,
                    Loc loc);
/* "%h.3": a value that is defined; the parser returns NULL after an error. */
Value *text_use(Text *t, const char *form, Value *v);

#endif
