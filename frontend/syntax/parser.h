/* parser.h: declares the parser's state, and the functions that lex.l, parse.y,
 * build.c, foreign.c and syntax_error.c share.
 *
 * parse.y has only the grammar: build.c makes the nodes, syntax_error.c words
 * the errors, and build.c limits them to the selected plan.
 */
#ifndef PARC_FRONTEND_SYNTAX_PARSER_H
#define PARC_FRONTEND_SYNTAX_PARSER_H

#include "frontend/syntax/ast.h"

/* Limits that keep every later walk over the tree within its stack. */
enum { MAX_NEST = 100, MAX_EXPR_DEPTH = 256, MAX_NAME_LENGTH = 255 };
enum { MAX_SOURCE = 16 << 20, MAX_SYNTAX_ERRORS = 20, MAX_PATH_LENGTH = 1000 };

typedef VEC(Ident) IdentList;
typedef VEC(Expr *) ExprList;
typedef VEC(Arg) ArgList;
typedef VEC(Formal) FormalList;
typedef VEC(InputDecl) InputList;
typedef VEC(Stmt *) StmtList;
typedef VEC(Member *) MemberList;
typedef VEC(Path) PathList;
typedef VEC(StyleArg) StyleArgList;
typedef VEC(Clause) ClauseList;
typedef VEC(StageItem) StageList;
typedef struct ItemList {
    VEC(Item) list;
    bool comma; /* a comma, not a newline, follows the last item */
} ItemList;

/* A plan that --plan does not select. */
typedef struct OtherPlan {
    const char *text;  /* its name; NULL: the current plan counts */
    Loc name;
    size_t begin, end; /* its text, from `plan` to its '}'; end 0: unknown */
    int warnings;      /* the number of warnings at its beginning */
} OtherPlan;

typedef struct Parser {
    Arena *arena;
    Diag *diag;
    uint16_t source;
    void *scanner; /* flex's state */

    /* lex.l */
    const char *text;
    size_t size, offset; /* offset: the end of the last token */
    size_t token_begin;
    int start; /* START_FILE or START_DEFINE: the first token; then 0 */
    int last;  /* kind of the last token */
    uint32_t line, col;
    Loc last_loc;
    VEC(uint32_t) line_end; /* by line - 1: column after its last token */
    struct {
        char open; /* '(', '[' or '{' */
        Loc loc;
        int indent; /* indentation of the first line of its statement */
    } nest[MAX_NEST];
    int nnest;
    struct {
        uint32_t line;
        int indent;
    } closed;     /* the last closing bracket: its line, its partner's indent */
    Loc unclosed; /* the first '{' of this declaration whose '}' is indented
                   * less than its statement: a '}' is probably missing; or
                   * zero */
    bool in_plan;  /* the current declaration is a plan */
    bool in_names; /* … a block of names */
    bool stopped;      /* the rest of the text is ignored */
    bool defining;     /* the text is the value of a -D option */
    const char *selected; /* the plan of --plan; NULL: errors in every plan
                           * count */
    size_t plan_begin;    /* offset of the last word `plan` outside of braces */
    OtherPlan other;
    VEC(OtherPlan) broken; /* plans with errors */
    int errors_before; /* the error count of diag at the start */

    bool too_deep;
    NamesDecl names; /* the current block of names */

    /* the result */
    File *file;
    Setting *define;
} Parser;

/* lex.l */
void lexer_open(Parser *p);
void lexer_close(Parser *p);
/* After a syntax error: discards open brackets, so that the lexer returns the
 * next newline as a token. */
void lexer_recover(Parser *p);

/* The range from the start of a to the end of b, cut at a's line. */
Loc loc_span(const Parser *p, Loc a, Loc b);

Expr *expr_new(Parser *p, ExprKind kind, Loc loc);
Expr *expr_name(Parser *p, ExprKind kind, Ident name);
Expr *expr_integer(Parser *p, int64_t integer, Loc loc);
Expr *expr_bool(Parser *p, bool value, Loc loc);
Expr *expr_unary(Parser *p, ExprKind kind, Loc op, Expr *x, Loc range);
Expr *expr_binary(Parser *p, BinaryOp op, Loc at, Expr *x, Expr *y, Loc range);
Expr *expr_call(Parser *p, Ident name, ArgList args, Loc range);
Expr *expr_member(Parser *p, Expr *x, Ident name, Loc range);
Expr *expr_index(Parser *p, Expr *x, Expr *index, Loc at, Loc range);
/* A tuple; a list of one expression is the expression itself unless `single`.
 */
Expr *expr_tuple(Parser *p, ExprList list, bool single, Loc range);

Stmt *stmt_new(Parser *p, StmtKind kind, Loc loc, Expr *value);
/* Gives a statement one name: the variable of a loop, or the state of an update. */
void stmt_target(Parser *p, Stmt *s, Ident name);
Member *member_new(Parser *p, MemberKind kind, Loc loc, Ident name,
                   Expr *value);
void decl_add(Parser *p, Decl decl);
void plan_add(Parser *p, PlanDecl plan);
void train_begin(Parser *p, Loc loc);
/* A block `names`: its begin, its entries of config.json, its end. */
void files_begin(Parser *p, Ident name);
void files_config(Parser *p, Ident word);
void files_end(Parser *p);

/* "a.b"; returns a after an error if the result is too long. */
const char *name_join(Parser *p, const char *a, const char *b, Loc loc);
Path path_done(Path path); /* replaces `model` by "" */
StyleArg style_arrow(Parser *p, StyleArg from, StyleArg to, Loc arrow);
StyleArg style_tuple(Parser *p, StyleArgList list, Loc range);
/* Adds an item, or adds an option that follows a comma to the last item. */
void item_add(Parser *p, ItemList *items, Item item);
Item item_setting(Parser *p, Ident name, Expr *value);
Item item_option(Parser *p, Item item, Arg option);
/* The item of a pipeline with an option; with the modules of its stages; with
 * the options of both. */
Item pipeline_option(Parser *p, Arg option);
Item pipeline_stages(Parser *p, Ident name, StageList stages);
Item pipeline_join(Parser *p, Item item, Item more);

/* foreign.c: the PDL equivalent of a name of Python or PyTorch, or of their
 * syntax at the current token, as a help text; NULL: unknown. */
const char *foreign_help(const char *name);
/* The same for the name of an argument. */
const char *foreign_argument_help(const char *name);
const char *foreign_syntax(const Parser *p);

/* build.c: begins a plan of this name at its name token, and ends it when
 * the token after its '}' is read. */
void other_plan_begin(Parser *p, const char *name, Loc loc);
void other_plan_end(Parser *p);
/* Whether the current plan is not selected and had an error before. */
bool other_plan_reported(const Parser *p);
/* Notes an error that counts although its plan is not selected. */
void other_plan_note(Parser *p);

/* The keyword of a declaration that begins at this offset, the start of a line;
 * NULL: none. */
const char *declaration_at(const Parser *p, size_t begin);
/* syntax_error.c: reports a syntax error; symbols have the names of parse.y's tokens. */
void syntax_error(Parser *p, Loc loc, const char *unexpected,
                  const char *const *expected, int n);

#endif
