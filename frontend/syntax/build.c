/* build.c: makes and finds the nodes of the syntax tree.
 *
 * The constructors enforce the limits of parser.h, which bound the recursion of
 * the later walks over the tree.
 */
#include <ctype.h>
#include <string.h>

#include "frontend/syntax/parse.tab.h"
#include "frontend/syntax/parser.h"

/* ---- expressions ---- */

Expr *expr_new(Parser *p, ExprKind kind, Loc loc)
{
    Expr *e = NEW(p->arena, Expr);
    e->kind = kind;
    e->loc = e->range = loc;
    e->depth = 1;
    return e;
}

static void set_args(Parser *p, Expr *e, int n, const Arg *args)
{
    e->arg = arena_copy(p->arena, args, sizeof *args * (size_t)n);
    e->nargs = n;
    for (int i = 0; i < n; i++)
        if (args[i].value->depth >= e->depth)
            e->depth = args[i].value->depth + 1;
    if (e->depth > MAX_EXPR_DEPTH && !p->too_deep) {
        diag_error(p->diag, e->loc,
                   "this expression is nested more than %d deep",
                   MAX_EXPR_DEPTH);
        diag_help(p->diag, "assign a part of it to a name first");
        p->too_deep = true;
    }
}

static Expr *with_operands(Parser *p, Expr *e, Expr *x, Expr *y, Loc range)
{
    Arg args[2] = {{.value = x}, {.value = y}};
    e->range = range;
    set_args(p, e, y ? 2 : 1, args);
    return e;
}

Expr *expr_name(Parser *p, ExprKind kind, Ident name)
{
    Expr *e = expr_new(p, kind, name.loc);
    e->name = name.name;
    return e;
}

Expr *expr_integer(Parser *p, int64_t integer, Loc loc)
{
    Expr *e = expr_new(p, EX_INT, loc);
    e->integer = integer;
    e->number = (double)integer;
    return e;
}

Expr *expr_bool(Parser *p, bool value, Loc loc)
{
    Expr *e = expr_new(p, EX_BOOL, loc);
    e->integer = value;
    return e;
}

Expr *expr_unary(Parser *p, ExprKind kind, Loc op, Expr *x, Loc range)
{
    return with_operands(p, expr_new(p, kind, op), x, NULL, range);
}

Expr *expr_binary(Parser *p, BinaryOp op, Loc at, Expr *x, Expr *y, Loc range)
{
    Expr *e = expr_new(p, EX_BINARY, at);
    e->op = op;
    return with_operands(p, e, x, y, range);
}

Expr *expr_call(Parser *p, Ident name, ArgList args, Loc range)
{
    Expr *e = expr_name(p, EX_CALL, name);
    e->range = range;
    set_args(p, e, args.n, args.at);
    return e;
}

Expr *expr_member(Parser *p, Expr *x, Ident name, Loc range)
{
    return with_operands(p, expr_name(p, EX_MEMBER, name), x, NULL, range);
}

Expr *expr_index(Parser *p, Expr *x, Expr *index, Loc at, Loc range)
{
    return with_operands(p, expr_new(p, EX_INDEX, at), x, index, range);
}

Expr *expr_tuple(Parser *p, ExprList list, bool single, Loc range)
{
    if (list.n == 1 && !single)
        return list.at[0];
    Expr *e = expr_new(p, EX_TUPLE, range);
    Arg *args = NEW_ARRAY(p->arena, Arg, list.n);
    for (int i = 0; i < list.n; i++)
        args[i].value = list.at[i];
    set_args(p, e, list.n, args);
    return e;
}

/* ---- statements, members, declarations ---- */

Stmt *stmt_new(Parser *p, StmtKind kind, Loc loc, Expr *value)
{
    Stmt *s = NEW(p->arena, Stmt);
    s->kind = kind;
    s->loc = loc;
    s->value = value;
    return s;
}

void stmt_target(Parser *p, Stmt *s, Ident name)
{
    s->target = arena_copy(p->arena, &name, sizeof name);
    s->ntargets = 1;
}

Member *member_new(Parser *p, MemberKind kind, Loc loc, Ident name, Expr *value)
{
    Member *m = NEW(p->arena, Member);
    m->kind = kind;
    m->loc = loc;
    m->name = name;
    m->value = value;
    return m;
}

void decl_add(Parser *p, Decl decl)
{
    Decl *d = arena_copy(p->arena, &decl, sizeof decl);
    vec_push(p->arena, &p->file->decl, d);
}

void plan_add(Parser *p, PlanDecl plan)
{
    PlanDecl *d = arena_copy(p->arena, &plan, sizeof plan);
    vec_push(p->arena, &p->file->plan, d);
}

void train_begin(Parser *p, Loc loc)
{
    if (p->file->has_train) {
        diag_twice(p->diag, loc, p->file->train_loc,
                   "a file has one train block: merge the two");
        return;
    }
    p->file->has_train = true;
    p->file->train_loc = loc;
}

/* ---- names in files ---- */

void files_begin(Parser *p, Ident name)
{
    p->names = (NamesDecl){.name = name};
}

void files_config(Parser *p, Ident word)
{
    if (p->names.config_word.name)
        diag_twice(p->diag, word.loc, p->names.config_word.loc,
                   "'%s' is given twice", word.name);
    p->names.config_word = word;
}

void files_end(Parser *p)
{
    NamesDecl *copy = arena_copy(p->arena, &p->names, sizeof p->names);
    vec_push(p->arena, &p->file->names, copy);
}

/* ---- plans ---- */

const char *name_join(Parser *p, const char *a, const char *b, Loc loc)
{
    if (strlen(a) + strlen(b) < MAX_PATH_LENGTH)
        return arena_printf(p->arena, "%s.%s", a, b);
    loc.len = 1; /* every error at one place: diag reports it once */
    diag_error(p->diag, loc, "this path is longer than %d characters",
               MAX_PATH_LENGTH);
    return a;
}

Path path_done(Path path)
{
    if (strcmp(path.text, "model") == 0)
        path.text = "";
    return path;
}

StyleArg style_arrow(Parser *p, StyleArg from, StyleArg to, Loc arrow)
{
    if (from.to || to.to) {
        diag_error(p->diag, arrow,
                   "the layout of a tensor changes once: "
                   "write one '->' for each tensor");
        return from;
    }
    from.to = to.from;
    return from;
}

/* A tuple of layouts. If any of them is a pair, the tuple becomes a pair of
 * tuples; a layout without an arrow is the same in both. */
StyleArg style_tuple(Parser *p, StyleArgList list, Loc range)
{
    ExprList from = {0}, to = {0};
    bool pairs = false;
    for (int i = 0; i < list.n; i++) {
        StyleArg *a = &list.at[i];
        pairs |= a->to != NULL;
        vec_push(p->arena, &from, a->from);
        vec_push(p->arena, &to, a->to ? a->to : a->from);
    }
    StyleArg tuple = {.from = expr_tuple(p, from, true, range)};
    if (pairs)
        tuple.to = expr_tuple(p, to, true, range);
    return tuple;
}

/* `name=value` as an item: min_params=N, or an option that follows a comma.
 * item_add appends such an option to the item before it. */
Item item_setting(Parser *p, Ident name, Expr *value)
{
    Item item = {.loc = name.loc};
    if (strcmp(name.name, option_name(OPTION_min_params)) == 0) {
        item.min_params = value;
        return item;
    }
    return item_option(p, item, (Arg){name.name, name.loc, value});
}

Item item_option(Parser *p, Item item, Arg option)
{
    bool stray = item.npaths == 0 && !item.class_name && !item.min_params;
    if (stray && item.noptions > 0) {
        diag_error(p->diag, option.name_loc,
                   "options follow a path, 'every Module' or 'min_params=N'");
        return item;
    }
    Arg *all = NEW_ARRAY(p->arena, Arg, item.noptions + 1);
    if (item.noptions)
        memcpy(all, item.option, sizeof *all * (size_t)item.noptions);
    all[item.noptions++] = option;
    item.option = all;
    return item;
}

void item_add(Parser *p, ItemList *items, Item item)
{
    bool stray = item.npaths == 0 && !item.class_name && !item.min_params;
    if (!stray) {
        vec_push(p->arena, &items->list, item);
        return;
    }
    Item *last = items->list.n ? &items->list.at[items->list.n - 1] : NULL;
    if (items->comma && last && last->noptions > 0) {
        *last = item_option(p, *last, item.option[0]);
        return;
    }
    diag_error(p->diag, item.loc, "the option '%s' follows no item",
               item.option[0].name);
    diag_help(p->diag, "write options after a colon: layers.*: %s=…",
              item.option[0].name);
}

Item pipeline_option(Parser *p, Arg option)
{
    Item item = {0};
    if (strcmp(option.name, option_name(OPTION_split)) != 0)
        return item_option(p, item, option);
    diag_error(p->diag, option.name_loc, "'%s' takes a list, the modules of each "
               "stage", option.name);
    diag_help(p->diag, "such as %s=%s", option.name,
              option_rows[OPTION_split].example);
    return item;
}

Item pipeline_stages(Parser *p, Ident name, StageList stages)
{
    Item item = {.loc = name.loc};
    if (strcmp(name.name, option_name(OPTION_split)) == 0) {
        item.stage = stages.at;
        item.nstages = stages.n;
        return item;
    }
    diag_error(p->diag, name.loc, "'%s' does not take a list of modules",
               name.name);
    return item;
}

Item pipeline_join(Parser *p, Item item, Item more)
{
    if (item.nstages && more.nstages)
        diag_twice(p->diag, more.loc, item.loc, "'%s' is given twice",
                   option_name(OPTION_split));
    if (more.nstages) {
        item.stage = more.stage;
        item.nstages = more.nstages;
        item.loc = more.loc;
    }
    Arg *all = NEW_ARRAY(p->arena, Arg, item.noptions + more.noptions + 1);
    for (int i = 0; i < item.noptions + more.noptions; i++)
        all[i] = i < item.noptions ? item.option[i]
                                   : more.option[i - item.noptions];
    item.option = all;
    item.noptions += more.noptions;
    return item;
}

/* ---- finding declarations ---- */

const Decl *file_find_decl(const File *f, const char *name, DeclKind kind)
{
    for (int i = 0; f && i < f->decl.n; i++)
        if (f->decl.at[i]->kind == kind &&
            strcmp(f->decl.at[i]->name.name, name) == 0)
            return f->decl.at[i];
    return NULL;
}

const Decl *file_model(const File *f)
{
    for (int i = 0; i < f->decl.n; i++)
        if (f->decl.at[i]->kind == DC_MODEL)
            return f->decl.at[i];
    return NULL;
}

const PlanDecl *file_find_plan(const File *f, const char *name)
{
    for (int i = 0; name && i < f->plan.n; i++)
        if (strcmp(f->plan.at[i]->name.name, name) == 0)
            return f->plan.at[i];
    return NULL;
}

const Member *members_find_forward(Member *const *member, int n, int *count)
{
    const Member *found = NULL;
    for (int i = 0; i < n; i++) {
        const Member *m = member[i];
        const Member *f = m->kind == MB_FORWARD ? m : NULL;
        *count += f != NULL;
        if (m->kind == MB_IF) {
            f = members_find_forward(m->body, m->nbody, count);
            if (!f)
                f = members_find_forward(m->other_body, m->nother, count);
        }
        found = found ? found : f;
    }
    return found;
}

/* ---- plans that are not selected ------------------------------------------ */

/* Syntax errors in a plan that --plan does not select are warnings, one for each
 * plan. The extent of such a plan is found in the text, by its braces. A plan
 * without a clear end, such as one with an unclosed brace, is not skipped: its
 * errors remain errors. */

/* The offset after the string or comment at `at`, or after one character. */
static size_t next_offset(const Parser *p, size_t at)
{
    char c = p->text[at++];
    if (c != '#' && c != '"')
        return at;
    while (at < p->size && p->text[at] != '\n') {
        char d = p->text[at];
        if (c == '"' && d == '"')
            return at + 1;
        at += c == '"' && d == '\\' && at + 1 < p->size &&
              p->text[at + 1] != '\n';
        at++;
    }
    return at;
}

/* The offset after the plan's '}'; 0 if the header has no '{', the '}' is
 * missing or another declaration begins before it. */
static size_t end_of_plan(const Parser *p, size_t at)
{
    int braces = 0, parens = 0;
    while (at < p->size) {
        char c = p->text[at];
        at = next_offset(p, at);
        parens += (c == '(') - (c == ')');
        bool header = braces == 0 && parens <= 0;
        while (c == '\n' && header && at < p->size &&
               isspace((unsigned char)p->text[at]))
            at++; /* the '{' may be on a later line */
        if (c == '\n' && (header ? at == p->size || p->text[at] != '{'
                                 : declaration_at(p, at) != NULL))
            return 0;
        braces += (c == '{') - (c == '}');
        if (c == '}' && braces <= 0)
            return braces == 0 ? at : 0;
    }
    return 0;
}

void other_plan_begin(Parser *p, const char *name, Loc loc)
{
    OtherPlan *o = &p->other;
    *o = (OtherPlan){.begin = p->plan_begin, .name = loc};
    if (!p->selected || strcmp(name, p->selected) == 0)
        return;
    o->text = name;
    o->end = end_of_plan(p, p->offset);
    o->warnings = diag_warning_count(p->diag);
    diag_demote(p->diag, o->end > 0);
}

bool other_plan_reported(const Parser *p)
{
    return p->other.end && diag_warning_count(p->diag) > p->other.warnings;
}

void other_plan_note(Parser *p)
{
    const OtherPlan *o = &p->other;
    if (o->text && p->in_plan && !o->end)
        diag_note(p->diag, o->name, "the error is in plan '%s', which --plan "
                  "does not select: without a clear end it cannot be skipped",
                  o->text);
}

void other_plan_end(Parser *p)
{
    OtherPlan *o = &p->other;
    if (!o->end)
        return;
    diag_demote(p->diag, false);
    if (other_plan_reported(p)) {
        diag_note(p->diag, o->name, "plan '%s' is ignored: --plan selects '%s'",
                  o->text, p->selected);
        vec_push(p->arena, &p->broken, *o);
    }
    *o = (OtherPlan){0};
}

const char *declaration_at(const Parser *p, size_t begin)
{
    static const char *const words[] = {"module ", "model ", "function ",
                                        "plan ", "train ", "names "};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        size_t n = strlen(words[i]);
        if (strncmp(p->text + begin, words[i], n) != 0)
            continue;
        char next = p->text[begin + n]; /* a name, or the block of train */
        if (isalpha((unsigned char)next) || next == '{')
            return arena_strndup(p->arena, words[i], n - 1);
    }
    return NULL;
}
