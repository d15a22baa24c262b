/* parse.h: declares the state of the IR's parser, and the functions that its
 * files share.
 *
 * The grammar needs one token of lookahead and ignores line ends, except for
 * notes ("| %h tp …"), which end with their line. After the first error the
 * lexer only returns the end of the text, so that every loop ends.
 */
#ifndef PARC_IR_TEXT_PARSE_H
#define PARC_IR_TEXT_PARSE_H

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
    char c;     /* TK_CHAR */
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

typedef struct Parser {
    Arena *arena;
    Diag *diag;
    Program *p;
    const char *at, *end, *line_start; /* the remaining text */
    uint32_t line;
    uint16_t file;
    bool failed, line_begun;
    Token tok;
    VEC(Block) block;     /* buffers */
    VEC(OpName) op_name;  /* to be found when all ops are parsed */
    VEC(uint16_t) source; /* index in Diag by number in the dump - 1 */
    TextMap value;        /* by name */
    int repeats;          /* the purpose of the program that this one repeats;
                           * -1: none */
} Parser;

/* lex.c */
void parse_next(Parser *s);
void parse_fail(Parser *s, Loc loc, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* parse_parts.c: small parts; each function advances past what it parsed. */
bool parse_is(const Parser *s, char c);
bool parse_is_word(const Parser *s, const char *word);
/* These advance if it is the next token: a character, a word, "key=". */
bool parse_take(Parser *s, char c);
bool parse_take_word(Parser *s, const char *word);
bool parse_take_key(Parser *s, const char *key);
void parse_expect(Parser *s, char c);
void parse_expect_word(Parser *s, const char *word);
void parse_expect_key(Parser *s, const char *key); /* "key=" */
const char *parse_word(Parser *s, const char *what);
const char *parse_string(Parser *s);
int64_t parse_int(Parser *s);
int parse_small(Parser *s); /* -1 … 1 << 30 */
int64_t parse_keyed(Parser *s, const char *key); /* "key=12" */
int parse_keyed_small(Parser *s, const char *key);
double parse_number(Parser *s);
bool parse_bool(Parser *s);
int parse_axis(Parser *s);
uint32_t parse_axes(Parser *s);
DType parse_dtype(Parser *s);
Loc parse_loc(Parser *s); /* zeros if there is none */
Type parse_type(Parser *s);
/* The index of the next word in a list that ends with NULL. */
int parse_choice(Parser *s, const char *const *words, const char *what);
/* "(" [string {"," string}] ")" */
int parse_strings(Parser *s, const char *const **list);

/* parse_attrs.c */
AttrList parse_list(Parser *s, int longest); /* "[1, 2]" */
/* "{dims=[1], keep=false}" */
void parse_attrs(Parser *s, OpKind kind, Attr *attr);
/* Lists the names of ops among the attributes of op, at loc; replaces them by
 * the ops when all are known. */
void parse_note_op_names(Parser *s, Op *op, Loc loc);
void parse_find_ops(Parser *s);

/* parse_values.c: defines a value with exactly this name, which is at
 * name_loc. */
Value *parse_define(Parser *s, const char *name, Loc name_loc, Type t, Loc loc);
/* The value of that name, or that the next token names. NULL: none, or after an
 * error. */
Value *parse_find(const Parser *s, const char *name);
Value *parse_use(Parser *s);

/* parse_memory.c: lines of the header, without their first word; the place of a
 * value; NULL if the next word is not "in". */
void parse_streams(Parser *s);
void parse_arena(Parser *s);
void parse_segment(Parser *s);
void parse_buffer(Parser *s);
const Address *parse_address(Parser *s);

/* options.c: options of a scope, up to another token; the rest of the scope's
 * fields get their defaults. */
void parse_options(Parser *s, OptionScope scope, void *to);

/* parse_plan.c: the plan, after its first word. */
void parse_plan(Parser *s);

/* parse_head.c: everything before "step". */
void parse_head(Parser *s);

#endif
