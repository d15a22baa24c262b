/* parse.y: the grammar of PDL.
 *
 * Keywords are contextual: `word`, all keywords except those that begin or join
 * statements and expressions, is accepted as a name. After a syntax error the
 * parser skips the rest of the line and the block that follows it, to report
 * the errors of the whole file in one run.
 */
%code requires {
#include "frontend/syntax/parser.h"
}
%code {
int pdl_yylex(PDL_YYSTYPE *value, Loc *loc, Parser *p);
static void pdl_yyerror(Loc *loc, Parser *p, const char *message);

#define YYLLOC_DEFAULT(at, rhs, n)                                          \
    ((at) = (n) ? loc_span(p, YYRHSLOC(rhs, 1), YYRHSLOC(rhs, n))           \
                : YYRHSLOC(rhs, 0))
#define PUSH(list, x) vec_push(p->arena, &(list), (x))
#define COPY(x) arena_copy(p->arena, &(x), sizeof (x))
#define NO_NAME ((Ident){0})
}

%define api.pure full
%define api.prefix {pdl_yy}
%define api.location.type {Loc}
%define parse.error custom
%define parse.lac full
%locations
%param {Parser *p}
%expect 0

%union {
    Ident ident; int64_t integer; double number; const char *string; bool flag;
    Expr *expr; Arg arg; Formal formal; InputDecl input; Stmt *stmt;
    Member *member; Path path; StyleArg style_arg; Item item; Clause clause;
    Setting setting; NameItem name_item;
    IdentList idents; ExprList exprs; ArgList args; FormalList formals;
    InputList inputs; StmtList stmts; MemberList members; PathList paths;
    StyleArgList style_args; ItemList items; ClauseList clauses;
    StageList stages;
}

%token END 0            "the end of the file"
%token START_FILE       "the start of the file"
%token START_DEFINE     "the start of the definition"
%token NEWLINE          "the end of the line"
%token BAD              "a character that is not PDL"
%token PATH_STAR        "'*'"
%token <string> PATH_PART "a pattern"
%token EQ "'=='" NE "'!='" LE "'<='" GE "'>='" ARROW "'->'" POW "'**'"
%token ELLIPSIS         "'...'"
%token <integer> INTEGER "an integer"
%token <number> FLOAT   "a number"
%token <string> STRING  "a string"
/* Words, from NAME to EVERY. */
%token <ident> NAME     "a name"
%token <ident> MODULE "'module'" MODEL "'model'" FUNCTION "'function'"
%token <ident> PLAN "'plan'" TRAIN "'train'" PARAM "'param'"
%token <ident> BUFFER "'buffer'" STATE "'state'" UPDATE "'update'" TIE "'tie'" FORWARD "'forward'" IN "'in'"
%token <ident> INT_TYPE "'int'" PARALLELIZE "'parallelize'"
%token <ident> FULLY_SHARD "'fully_shard'" CHECKPOINT "'checkpoint'"
%token <ident> FREEZE "'freeze'" OFFLOAD "'offload'" PIPELINE "'pipeline'" CONTEXT "'context'"
%token <ident> IF "'if'" ELSE "'else'" FOR "'for'" RETURN "'return'"
%token <ident> AND "'and'" OR "'or'" NOT "'not'" TRUE_WORD "'true'"
%token <ident> FALSE_WORD "'false'" NONE_WORD "'none'"
%token <ident> NAMES "'names'" EVERY "'every'" EXPERT_PARALLEL "'expert_parallel'"

%type <ident> word define_name
%type <integer> module_kind tensor_kind axis_clause axes_clause plain_clause
%type <expr> expr dotted call init value
%type <exprs> exprs dims
%type <arg> arg option
%type <args> args call_args
%type <formal> formal
%type <formals> formals formal_list
%type <idents> axes axis_list names
%type <input> input
%type <inputs> inputs input_list
%type <stmt> stmt if_stmt
%type <stmts> block stmts stmt_lines else_block
%type <member> member if_member
%type <members> members member_block member_lines else_members
%type <path> path segment
%type <paths> paths target
%type <style_arg> style_arg pair layout
%type <style_args> style_args style_call pairs
%type <item> style_item item pipeline pipeline_lines pipeline_item
%type <stages> stages
%type <items> style_items style_lines items item_lines
%type <clause> clause
%type <clauses> clauses clause_lines
%type <setting> setting config_setting
%type <name_item> name_item mapping file_name

%left OR
%left AND
%precedence NOT
%nonassoc EQ NE '<' LE '>' GE
%left '+' '-'
%left '*' '/' '%' '@'
%precedence NEGATE
%right POW

%%

top:
    START_FILE file
|   START_DEFINE define_name '=' expr end_of_define
        { p->define = NEW(p->arena, Setting);
          *p->define = (Setting){$2, $4}; }
;
end_of_define: %empty | NEWLINE ;
define_name:
    word
|   define_name '.' word
        { $$.name = name_join(p, $1.name, $3.name, @$); $$.loc = @$; }
;

file: %empty | file top_level NEWLINE ;
top_level:
    module_kind word formals member_block
        { decl_add(p, (Decl){.kind = (DeclKind)$1, .name = $2,
              .formal = $3.at, .nformals = $3.n,
              .member = $4.at, .nmembers = $4.n}); }
|   FUNCTION word formals block
        { decl_add(p, (Decl){.kind = DC_FUNCTION, .name = $2,
              .formal = $3.at, .nformals = $3.n,
              .stmt = $4.at, .nstmts = $4.n}); }
|   PLAN word axes '{' clauses '}'
        { plan_add(p, (PlanDecl){.name = $2, .axis = $3.at, .naxes = $3.n,
              .clause = $5.at, .nclauses = $5.n}); }
|   TRAIN '{' { train_begin(p, @1); } settings '}'
|   NAMES word '{' { files_begin(p, $2); } name_items '}'
        { files_end(p); }
|   bad
;

module_kind: MODULE { $$ = DC_MODULE; } | MODEL { $$ = DC_MODEL; } ;

/* After a syntax error: skips to the end of the line, blocks included. */
bad: error | bad '{' junk '}' | bad ELSE ;
junk: %empty | junk any | junk '{' junk '}' ;
any:
    word | IF | ELSE | FOR | RETURN | AND | OR | NOT | TRUE_WORD
|   FALSE_WORD | NONE_WORD | INTEGER | FLOAT | STRING | NEWLINE | BAD
|   PATH_STAR | PATH_PART | EQ | NE | LE | GE | ARROW | POW | ELLIPSIS | '=' | ',' | ':'
|   '.' | '+' | '-' | '*' | '/' | '%' | '@' | '<' | '>' | '(' | ')' | '['
|   ']'
;

word:
    NAME | MODULE | MODEL | FUNCTION | PLAN | TRAIN | PARAM | BUFFER | STATE | UPDATE | TIE
|   FORWARD | IN | INT_TYPE | PARALLELIZE | FULLY_SHARD | CHECKPOINT
|   FREEZE | OFFLOAD | PIPELINE | CONTEXT | EXPERT_PARALLEL | NAMES | EVERY
;
comma: %empty | ',' ;

formals:
    %empty { $$ = (FormalList){0}; }
|   '(' ')' { $$ = (FormalList){0}; }
|   '(' formal_list comma ')' { $$ = $2; }
|   '(' error ')' { $$ = (FormalList){0}; }
;
formal_list:
    formal { $$ = (FormalList){0}; PUSH($$, $1); }
|   formal_list ',' formal { $$ = $1; PUSH($$, $3); }
;
formal:
    word { $$ = (Formal){$1, NULL}; }
|   word '=' expr { $$ = (Formal){$1, $3}; }
;

/* ---- members ---- */

member_block: '{' members '}' { $$ = $2; } ;
members:
    member_lines
|   member_lines member { $$ = $1; PUSH($$, $2); }
|   member_lines bad
;
member_lines:
    %empty { $$ = (MemberList){0}; }
|   member_lines member NEWLINE { $$ = $1; PUSH($$, $2); }
|   member_lines bad NEWLINE { yyerrok; }
;
member:
    word ':' call { $$ = member_new(p, MB_CHILD, @1, $1, $3); }
|   word ':' '[' expr ']' call
        { $$ = member_new(p, MB_CHILD, @1, $1, $6); $$->count = $4; }
|   word '=' expr { $$ = member_new(p, MB_CONSTANT, @1, $1, $3); }
|   tensor_kind word dims init
        { $$ = member_new(p, (MemberKind)$1, @1, $2, $4);
          $$->dim = $3.at; $$->ndims = $3.n; }
|   TIE dotted '=' dotted
        { $$ = member_new(p, MB_TIE, @1, NO_NAME, $2); $$->other = $4; }
|   FORWARD '(' inputs ')' block
        { $$ = member_new(p, MB_FORWARD, @1, $1, NULL);
          $$->input = $3.at; $$->ninputs = $3.n;
          $$->stmt = $5.at; $$->nstmts = $5.n; }
|   if_member
;
tensor_kind: PARAM { $$ = MB_PARAM; } | BUFFER { $$ = MB_BUFFER; } | STATE { $$ = MB_STATE; } ;
init: '=' expr { $$ = $2; } ;
dims:
    %empty { $$ = (ExprList){0}; }
|   '[' ']' { $$ = (ExprList){0}; }
|   '[' exprs comma ']' { $$ = $2; }
;
if_member:
    IF expr member_block else_members
        { $$ = member_new(p, MB_IF, @1, NO_NAME, $2);
          $$->body = $3.at; $$->nbody = $3.n;
          $$->other_body = $4.at; $$->nother = $4.n; }
;
else_members:
    %empty { $$ = (MemberList){0}; }
|   ELSE member_block { $$ = $2; }
|   ELSE if_member { $$ = (MemberList){0}; PUSH($$, $2); }
;

inputs:
    %empty { $$ = (InputList){0}; }
|   input_list comma
;
input_list:
    input { $$ = (InputList){0}; PUSH($$, $1); }
|   input_list ',' input { $$ = $1; PUSH($$, $3); }
;
input:
    word { $$ = (InputDecl){.name = $1}; }
|   word ':' dims_of_input
        { $$ = $<input>3; $$.name = $1; }
|   word ':' ints { $$ = $<input>3; $$.name = $1; }
|   word ':' ints dims_of_input
        {
            $$ = $<input>3;
            $$.name = $1;
            $$.has_shape = true;
            $$.open = $<input>4.open;
            $$.dim = $<input>4.dim;
            $$.ndims = $<input>4.ndims;
        }
;
ints:
    INT_TYPE '(' expr comma ')'
        { $<input>$ = (InputDecl){.is_int = true, .below = $3}; }
|   INT_TYPE '(' expr ',' word '=' expr comma ')'
        {
            $<input>$ = (InputDecl){.is_int = true, .below = $3,
                                    .ignored_name = $5, .ignored = $7};
        }
;
dims_of_input:
    '[' ']' { $<input>$ = (InputDecl){.has_shape = true}; }
|   '[' exprs comma ']'
        { $<input>$ = (InputDecl){.has_shape = true,
                                  .dim = $2.at, .ndims = $2.n}; }
|   '[' ELLIPSIS ']'
        { $<input>$ = (InputDecl){.has_shape = true, .open = true}; }
|   '[' ELLIPSIS ',' exprs comma ']'
        { $<input>$ = (InputDecl){.has_shape = true, .open = true,
                                  .dim = $4.at, .ndims = $4.n}; }
;

/* ---- statements ---- */

block: '{' stmts '}' { $$ = $2; } ;
stmts:
    stmt_lines
|   stmt_lines stmt { $$ = $1; PUSH($$, $2); }
|   stmt_lines bad
;
stmt_lines:
    %empty { $$ = (StmtList){0}; }
|   stmt_lines stmt NEWLINE { $$ = $1; PUSH($$, $2); }
|   stmt_lines bad NEWLINE { yyerrok; }
;
stmt:
    names '=' value
        { $$ = stmt_new(p, ST_ASSIGN, @1, $3);
          $$->target = $1.at; $$->ntargets = $1.n; }
|   UPDATE word '=' value
        { $$ = stmt_new(p, ST_UPDATE, @1, $4); stmt_target(p, $$, $2); }
|   RETURN value { $$ = stmt_new(p, ST_RETURN, @1, $2); }
|   FOR word IN expr block
        { $$ = stmt_new(p, ST_FOR, @1, $4); stmt_target(p, $$, $2);
          $$->body = $5.at; $$->nbody = $5.n; }
|   if_stmt
;
names:
    word { $$ = (IdentList){0}; PUSH($$, $1); }
|   names ',' word { $$ = $1; PUSH($$, $3); }
;
value: exprs { $$ = expr_tuple(p, $1, false, @$); } ;
if_stmt:
    IF expr block else_block
        { $$ = stmt_new(p, ST_IF, @1, $2);
          $$->body = $3.at; $$->nbody = $3.n;
          $$->other = $4.at; $$->nother = $4.n; }
;
else_block:
    %empty { $$ = (StmtList){0}; }
|   ELSE block { $$ = $2; }
|   ELSE if_stmt { $$ = (StmtList){0}; PUSH($$, $2); }
;

/* ---- expressions ---- */

exprs:
    expr { $$ = (ExprList){0}; PUSH($$, $1); }
|   exprs ',' expr { $$ = $1; PUSH($$, $3); }
;
expr:
    INTEGER { $$ = expr_integer(p, $1, @1); }
|   FLOAT { $$ = expr_new(p, EX_FLOAT, @1); $$->number = $1; }
|   STRING { $$ = expr_new(p, EX_STRING, @1); $$->name = $1; }
|   TRUE_WORD { $$ = expr_bool(p, true, @1); }
|   FALSE_WORD { $$ = expr_bool(p, false, @1); }
|   NONE_WORD { $$ = expr_new(p, EX_NONE, @1); }
|   dotted
|   call
|   '(' expr ')' { $$ = $2; $$->range = @$; }
|   '(' expr ',' ')'
        { ExprList one = {0}; PUSH(one, $2);
          $$ = expr_tuple(p, one, true, @$); }
|   '(' expr ',' exprs comma ')'
        { ExprList all = {0}; PUSH(all, $2);
          for (int i = 0; i < $4.n; i++)
              PUSH(all, $4.at[i]);
          $$ = expr_tuple(p, all, true, @$); }
|   '-' expr %prec NEGATE { $$ = expr_unary(p, EX_NEG, @1, $2, @$); }
|   NOT expr { $$ = expr_unary(p, EX_NOT, @1, $2, @$); }
|   expr '+' expr { $$ = expr_binary(p, BIN_ADD, @2, $1, $3, @$); }
|   expr '-' expr { $$ = expr_binary(p, BIN_SUB, @2, $1, $3, @$); }
|   expr '*' expr { $$ = expr_binary(p, BIN_MUL, @2, $1, $3, @$); }
|   expr '/' expr { $$ = expr_binary(p, BIN_DIV, @2, $1, $3, @$); }
|   expr '%' expr { $$ = expr_binary(p, BIN_MOD, @2, $1, $3, @$); }
|   expr '@' expr { $$ = expr_binary(p, BIN_MATMUL, @2, $1, $3, @$); }
|   expr POW expr { $$ = expr_binary(p, BIN_POW, @2, $1, $3, @$); }
|   expr EQ expr { $$ = expr_binary(p, BIN_EQ, @2, $1, $3, @$); }
|   expr NE expr { $$ = expr_binary(p, BIN_NE, @2, $1, $3, @$); }
|   expr '<' expr { $$ = expr_binary(p, BIN_LT, @2, $1, $3, @$); }
|   expr LE expr { $$ = expr_binary(p, BIN_LE, @2, $1, $3, @$); }
|   expr '>' expr { $$ = expr_binary(p, BIN_GT, @2, $1, $3, @$); }
|   expr GE expr { $$ = expr_binary(p, BIN_GE, @2, $1, $3, @$); }
|   expr AND expr { $$ = expr_binary(p, BIN_AND, @2, $1, $3, @$); }
|   expr OR expr { $$ = expr_binary(p, BIN_OR, @2, $1, $3, @$); }
;
dotted:
    word { $$ = expr_name(p, EX_NAME, $1); }
|   dotted '.' word { $$ = expr_member(p, $1, $3, @$); }
|   dotted '.' INTEGER
        { $$ = expr_index(p, $1, expr_integer(p, $3, @3), @3, @$); }
|   dotted '[' expr ']' { $$ = expr_index(p, $1, $3, @2, @$); }
;
call: word call_args { $$ = expr_call(p, $1, $2, @$); } ;
call_args:
    '(' ')' { $$ = (ArgList){0}; }
|   '(' args comma ')' { $$ = $2; }
;
args:
    arg { $$ = (ArgList){0}; PUSH($$, $1); }
|   args ',' arg { $$ = $1; PUSH($$, $3); }
;
arg: expr { $$ = (Arg){.value = $1}; } | option ;
option: word '=' expr { $$ = (Arg){$1.name, $1.loc, $3}; } ;

/* ---- plans ---- */

axes:
    %empty { $$ = (IdentList){0}; }
|   '(' ')' { $$ = (IdentList){0}; }
|   '(' axis_list comma ')' { $$ = $2; }
;
axis_list:
    word { $$ = (IdentList){0}; PUSH($$, $1); }
|   axis_list ',' word { $$ = $1; PUSH($$, $3); }
;
clauses:
    clause_lines
|   clause_lines clause { $$ = $1; PUSH($$, $2); }
|   clause_lines bad
;
clause_lines:
    %empty { $$ = (ClauseList){0}; }
|   clause_lines clause NEWLINE { $$ = $1; PUSH($$, $2); }
|   clause_lines bad NEWLINE { yyerrok; }
;
clause:
    PARALLELIZE word '{' style_items '}'
        { $$ = (Clause){CL_PARALLELIZE, COPY($2), 1, $4.list.at, $4.list.n, @1}; }
|   axis_clause word '{' items '}'
        { $$ = (Clause){(ClauseKind)$1, COPY($2), 1, $4.list.at, $4.list.n, @1}; }
|   axes_clause '(' axis_list ')' '{' items '}'
        { $$ = (Clause){(ClauseKind)$1, $3.at, $3.n, $6.list.at, $6.list.n, @1}; }
|   PIPELINE word '{' pipeline '}'
        { $$ = (Clause){CL_PIPELINE, COPY($2), 1, COPY($4), 1, @1}; }
|   plain_clause '{' items '}'
        { $$ = (Clause){.kind = (ClauseKind)$1, .item = $3.list.at,
                        .nitems = $3.list.n, .loc = @1}; }
;
axis_clause: axes_clause | CONTEXT { $$ = CL_CONTEXT; } ;
axes_clause: FULLY_SHARD { $$ = CL_FULLY_SHARD; } | EXPERT_PARALLEL { $$ = CL_EXPERT_PARALLEL; } ;
/* A clause without an axis. */
plain_clause:
    CHECKPOINT { $$ = CL_CHECKPOINT; }
|   FREEZE { $$ = CL_FREEZE; }
|   OFFLOAD { $$ = CL_OFFLOAD; }
;

style_items:
    style_lines
|   style_lines style_item { $$ = $1; item_add(p, &$$, $2); }
|   style_lines bad
;
style_lines:
    %empty { $$ = (ItemList){0}; }
|   style_lines style_item separator { $$ = $1; item_add(p, &$$, $2); }
|   style_lines bad NEWLINE { yyerrok; }
;
separator: NEWLINE | ',' ;
style_item:
    target ':' word style_call
        { $$ = (Item){.path = $1.at, .npaths = $1.n, .style = $3.name,
                      .style_loc = $3.loc, .arg = $4.at, .nargs = $4.n,
                      .loc = @1}; }
;
style_call:
    %empty { $$ = (StyleArgList){0}; }
|   '(' ')' { $$ = (StyleArgList){0}; }
|   '(' style_args comma ')' { $$ = $2; }
;
target:
    path { $$ = (PathList){0}; PUSH($$, path_done($1)); }
|   '[' paths comma ']' { $$ = $2; }
;
paths:
    path { $$ = (PathList){0}; PUSH($$, path_done($1)); }
|   paths ',' path { $$ = $1; PUSH($$, path_done($3)); }
;
path:
    segment
|   path '.' segment { $$ = (Path){name_join(p, $1.text, $3.text, @$), @$}; }
;
segment:
    word { $$ = (Path){$1.name, $1.loc}; }
|   PATH_STAR { $$ = (Path){"*", @1}; }
|   PATH_PART { $$ = (Path){$1, @1}; }
|   INTEGER
        { $$ = (Path){arena_printf(p->arena, "%lld", (long long)$1), @1}; }
;
style_args:
    style_arg { $$ = (StyleArgList){0}; PUSH($$, $1); }
|   style_args ',' style_arg { $$ = $1; PUSH($$, $3); }
;
style_arg:
    pair
|   word '=' pair { $$ = $3; $$.name = $1.name; $$.name_loc = $1.loc; }
;
pair: layout | layout ARROW layout { $$ = style_arrow(p, $1, $3, @2); } ;
pairs:
    pair { $$ = (StyleArgList){0}; PUSH($$, $1); }
|   pairs ',' pair { $$ = $1; PUSH($$, $3); }
;
layout:
    word { $$ = (StyleArg){.from = expr_name(p, EX_NAME, $1)}; }
|   call { $$ = (StyleArg){.from = $1}; }
|   NONE_WORD { $$ = (StyleArg){.from = expr_new(p, EX_NONE, @1)}; }
|   INTEGER { $$ = (StyleArg){.from = expr_integer(p, $1, @1)}; }
|   '-' INTEGER
        { $$ = (StyleArg){.from = expr_unary(p, EX_NEG, @1,
                                             expr_integer(p, $2, @2), @$)}; }
|   TRUE_WORD { $$ = (StyleArg){.from = expr_bool(p, true, @1)}; }
|   FALSE_WORD { $$ = (StyleArg){.from = expr_bool(p, false, @1)}; }
|   '(' pairs comma ')' { $$ = style_tuple(p, $2, @$); }
;

items:
    item_lines
|   item_lines item { $$ = $1; item_add(p, &$$, $2); }
|   item_lines bad
;
item_lines:
    %empty { $$ = (ItemList){0}; }
|   item_lines item NEWLINE
        { $$ = $1; item_add(p, &$$, $2); $$.comma = false; }
|   item_lines item ',' { $$ = $1; item_add(p, &$$, $2); $$.comma = true; }
|   item_lines bad NEWLINE { $$ = $1; $$.comma = false; yyerrok; }
;
item:
    target { $$ = (Item){.path = $1.at, .npaths = $1.n, .loc = @1}; }
|   EVERY word { $$ = (Item){.class_name = $2.name, .loc = @$}; }
|   word '=' expr { $$ = item_setting(p, $1, $3); }
|   target ':' option
        { $$ = item_option(p, (Item){.path = $1.at, .npaths = $1.n,
                                     .loc = @1}, $3); }
|   EVERY word ':' option
        { $$ = item_option(p, (Item){.class_name = $2.name,
                                     .loc = loc_span(p, @1, @2)}, $4); }
|   word '=' expr ':' option
        { $$ = item_option(p, item_setting(p, $1, $3), $5); }
;

/* A pipeline has options, and no other items. */
pipeline:
    pipeline_lines
|   pipeline_lines pipeline_item { $$ = pipeline_join(p, $1, $2); }
|   pipeline_lines bad
;
pipeline_lines:
    %empty { $$ = (Item){0}; }
|   pipeline_lines pipeline_item separator { $$ = pipeline_join(p, $1, $2); }
|   pipeline_lines bad NEWLINE { yyerrok; }
;
pipeline_item:
    option { $$ = pipeline_option(p, $1); }
|   word '=' '[' stages comma ']'
        { $$ = pipeline_stages(p, $1, $4); }
;
stages:
    target { $$ = (StageList){0};
             PUSH($$, ((StageItem){$1.at, $1.n})); }
|   stages ',' target { $$ = $1; PUSH($$, ((StageItem){$3.at, $3.n})); }
;

/* ---- the train block ---- */

settings:
    setting_lines
|   setting_lines setting { vec_push(p->arena, &p->file->setting, $2); }
|   setting_lines bad
;
setting_lines:
    %empty
|   setting_lines setting NEWLINE { vec_push(p->arena, &p->file->setting, $2); }
|   setting_lines bad NEWLINE { yyerrok; }
;
setting: word '=' expr { $$ = (Setting){$1, $3}; } ;

/* ---- names in files ---- */

name_items:
    name_lines
|   name_lines name_line
|   name_lines bad
;
name_lines:
    %empty
|   name_lines name_line NEWLINE
|   name_lines bad NEWLINE { yyerrok; }
;
name_line:
    name_item { vec_push(p->arena, &p->names.item, $1); }
|   setting { vec_push(p->arena, &p->names.setting, $1); }
|   word '{' config_items '}' { files_config(p, $1); }
;
name_item:
    mapping
|   mapping ':' exprs { $$ = $1; $$.layout = $3.at; $$.nlayouts = $3.n; }
;
mapping: target ARROW file_name
    { $$ = $3; $$.path = $1.at; $$.npaths = $1.n; $$.loc = @1; } ;
file_name:
    path { $$ = (NameItem){.file = $1}; }
|   STRING { $$ = (NameItem){.file = {$1, @1}, .quoted = true}; }
;
config_items:
    config_lines
|   config_lines config_setting { vec_push(p->arena, &p->names.config, $2); }
|   config_lines bad
;
config_lines:
    %empty
|   config_lines config_setting NEWLINE { vec_push(p->arena, &p->names.config, $2); }
|   config_lines bad NEWLINE { yyerrok; }
;
config_setting: define_name '=' expr { $$ = (Setting){$1, $3}; } ;

%%

static int yyreport_syntax_error(const yypcontext_t *context, Parser *p)
{
    const char *expected[YYNTOKENS];
    yysymbol_kind_t kind[YYNTOKENS];
    int n = yypcontext_expected_tokens(context, kind, YYNTOKENS);
    for (int i = 0; i < n; i++)
        expected[i] = yysymbol_name(kind[i]);
    yysymbol_kind_t seen = yypcontext_token(context);
    const char *name = seen == YYSYMBOL_YYEMPTY ? "" : yysymbol_name(seen);
    syntax_error(p, *yypcontext_location(context), name, expected, n);
    return 0;
}

/* Bison calls it only when the stack overflows. */
static void pdl_yyerror(Loc *loc, Parser *p, const char *message)
{
    (void)message;
    diag_error(p->diag, *loc, "this is nested too deeply");
    diag_help(p->diag, "assign a part of it to a name first");
}
