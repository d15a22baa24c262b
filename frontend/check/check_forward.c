/* check_forward.c: checks the statements of a forward or a function.
 *
 * An `if` is decided at compile time: a name that only one branch assigns may
 * be used after the `if`. A name that a loop's body assigns first is local to
 * the body.
 */
#include <string.h>

#include "frontend/check/check.h"

static bool all_return(Stmt *const *stmt, int n)
{
    for (int i = 0; i < n; i++) {
        const Stmt *s = stmt[i];
        if (s->kind == ST_RETURN)
            return true;
        if (s->kind == ST_IF && all_return(s->body, s->nbody) &&
            all_return(s->other, s->nother))
            return true;
    }
    return false;
}

void check_returns(Sight *s, Stmt *const *stmt, int n, Loc loc,
                   const char *name)
{
    if (!all_return(stmt, n))
        diag_error(s->check->diag, loc, "'%s' can end without a return",
                   name);
}

static void add_local(Sight *s, const Ident *name)
{
    sight_add(s, (Known){name->name, KNOWN_LOCAL, name->loc, NULL, false});
}

static void check_for(Sight *s, const Stmt *st, int depth)
{
    Known element = {st->target[0].name, KNOWN_LOCAL, st->target[0].loc, NULL,
                     false};
    check_expr(s, st->value);
    const Known *k =
        st->value->kind == EX_NAME ? sight_find(s, st->value->name) : NULL;
    if (k && k->kind == KNOWN_CHILD) {
        int errors = diag_error_count(s->check->diag);
        if (!k->member->count && !k->optional)
            diag_error(s->check->diag, st->value->range,
                       "a loop runs over an array of modules, not a module");
        check_refuse(s->check, st->value, errors);
        element.kind = KNOWN_ELEMENT;
        element.member = k->member;
        element.optional = k->optional;
    }
    int before = s->known.n;
    sight_add(s, element);
    check_stmts(s, st->body, st->nbody, depth + 1);
    s->known.n = before;
}

/* Only a state of the module itself can be updated. */
static void check_update(Sight *s, const Stmt *st)
{
    const Ident *name = &st->target[0];
    const Known *k = sight_find(s, name->name);
    Diag *d = s->check->diag;
    check_expr(s, st->value);
    if (k && k->kind == KNOWN_STATE)
        return;
    int errors = diag_error_count(d);
    if (s->decl->kind == DC_FUNCTION)
        diag_error(d, name->loc, "a function has no state: '%s' cannot be updated here",
                   name->name);
    else if (k)
        diag_error(d, name->loc, "'%s' is not a state: it cannot be updated", name->name);
    else
        diag_error(d, name->loc, "unknown state '%s'", name->name);
    diag_help(d, "a module declares a state among its members, such as: state %s[dim] = zeros",
              name->name);
    check_refuse(s->check, st->value, errors);
}

static void check_stmt(Sight *s, const Stmt *st, int depth)
{
    switch (st->kind) {
    case ST_UPDATE:
        check_update(s, st);
        break;
    case ST_ASSIGN:
        check_expr(s, st->value);
        for (int i = 0; i < st->ntargets; i++)
            add_local(s, &st->target[i]);
        break;
    case ST_RETURN:
        check_expr(s, st->value);
        if (depth > 0)
            diag_error(s->check->diag, st->loc, "a loop cannot return: "
                       "return after it");
        break;
    case ST_FOR:
        check_for(s, st, depth);
        break;
    case ST_IF:
        check_expr(s, st->value);
        check_stmts(s, st->body, st->nbody, depth);
        check_stmts(s, st->other, st->nother, depth);
        break;
    }
}

void check_stmts(Sight *s, Stmt *const *stmt, int n, int depth)
{
    for (int i = 0; i < n; i++) {
        check_stmt(s, stmt[i], depth);
        if (stmt[i]->kind == ST_RETURN && i + 1 < n)
            diag_error(s->check->diag, stmt[i + 1]->loc,
                       "a statement after 'return' is never executed");
    }
}

/* An unknown name in a shape is bound to that dim. The shapes of the model's
 * own inputs bind no names: the sizes of the data come from `train`. */
static void check_input_dim(Sight *s, const Expr *dim)
{
    bool binds = s->decl->kind != DC_MODEL && dim->kind == EX_NAME &&
                 !sight_find(s, dim->name) && !option_is_readable(dim->name);
    if (binds)
        sight_add(s, (Known){dim->name, KNOWN_LOCAL, dim->loc, NULL, false});
    else
        check_expr(s, dim);
}

static void check_ignored(Sight *s, const InputDecl *in)
{
    if (strcmp(in->ignored_name.name, "ignore") != 0)
        diag_error(s->check->diag, in->ignored_name.loc,
                   "int() has no argument '%s', only a bound and ignore=, such "
                   "as int(classes, ignore=-100)", in->ignored_name.name);
    check_expr(s, in->ignored);
}

void check_forward(Sight *s, const Member *forward)
{
    int before = s->known.n;
    for (int i = 0; i < forward->ninputs; i++) {
        const InputDecl *in = &forward->input[i];
        names_check_new(s->check->diag, forward->input, i, "declared");
        if (in->below)
            check_expr(s, in->below);
        if (in->ignored)
            check_ignored(s, in);
        for (int j = 0; j < in->ndims; j++)
            check_input_dim(s, in->dim[j]);
        add_local(s, &in->name);
    }
    if (forward->ninputs > MAX_FORMALS)
        diag_error(s->check->diag, forward->loc,
                   "a forward has at most %d inputs", MAX_FORMALS);
    check_stmts(s, forward->stmt, forward->nstmts, 0);
    check_returns(s, forward->stmt, forward->nstmts, forward->loc, "forward");
    s->known.n = before;
}
