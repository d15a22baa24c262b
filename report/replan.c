/* replan.c: plans the program of a compilation with changes; see replan.h. */
#include "report/replan.h"

#include "passes/side_program.h"

#include <string.h>

struct Replan {
    Arena *arena;
    Diag *diag; /* a separate one: its errors are not reported */
    const Program *p;
    const PlanSource *from;
    File file;
    PlanDecl plan;
    VEC(Clause) clause;
    VEC(Setting *) define;
    const char *mesh;
    bool side;     /* the program has its side programs */
    bool fine;     /* every change could be parsed */
    Program *made; /* NULL before lowering and after an error */
};

static uint16_t new_source(Replan *r, const char *text)
{
    return diag_source(r->diag, "change", text, strlen(text));
}

/* ---- the plan ---- */

/* Copies the file's plan; without one, begins an empty plan. */
static void begin_plan(Replan *r)
{
    const File *f = r->from->file;
    const PlanDecl *plan = file_find_plan(f, r->p->plan.name);

    r->file = *f;
    if (plan) {
        r->plan = *plan;
        for (int i = 0; i < plan->nclauses; i++)
            vec_push(r->arena, &r->clause, plan->clause[i]);
        return;
    }
    Ident *axis = NEW(r->arena, Ident);
    *axis = (Ident){mesh_user_name(r->arena, &r->p->mesh, 0),
                     r->p->plan.loc};
    r->plan = (PlanDecl){.name = {"p", r->p->plan.loc}, .axis = axis,
                         .naxes = 1};
}

/* The clause of this text; NULL, and !r->fine, after a syntax error. */
static const Clause *parse_clause(Replan *r, const char *text)
{
    uint16_t source = new_source(
        r, arena_printf(r->arena, "plan p(a) {\n%s\n}\n", text));
    const File *f = pdl_parse(r->arena, r->diag, source);

    r->fine = r->fine && f;
    return f ? &f->plan.at[0]->clause[0] : NULL;
}

void replan_clause(Replan *r, const char *text)
{
    const Clause *clause = parse_clause(r, text);
    int kept = 0;

    if (!clause)
        return;
    for (int i = 0; i < r->clause.n; i++)
        if (r->clause.at[i].kind != clause->kind)
            r->clause.at[kept++] = r->clause.at[i];
    r->clause.n = kept;
    vec_push(r->arena, &r->clause, *clause);
}

/* Removes the paths that are equal to `path` from the clause's items. */
static void remove_path(Replan *r, Clause *c, const char *path)
{
    int nitems = 0;

    c->item = arena_copy(r->arena, c->item,
                         (size_t)c->nitems * sizeof *c->item);
    for (int i = 0; i < c->nitems; i++) {
        Item item = c->item[i];
        Path *left = NEW_ARRAY(r->arena, Path, item.npaths + 1);
        int n = 0;
        for (int k = 0; k < item.npaths; k++)
            if (strcmp(item.path[k].text, path) != 0)
                left[n++] = item.path[k];
        bool stays = n > 0 || item.npaths == 0;
        item.path = left;
        item.npaths = n;
        if (stays)
            c->item[nitems++] = item;
    }
    c->nitems = nitems;
}

void replan_style(Replan *r, const PlanLine *line)
{
    const Clause *clause = parse_clause(
        r, arena_printf(r->arena, "parallelize %s { %s: %s }", line->axis,
                        *line->path ? line->path : "model", line->style));

    if (!clause)
        return;
    for (int i = 0; i < r->clause.n; i++) {
        Clause *c = &r->clause.at[i];
        if (c->kind == CL_PARALLELIZE &&
            strcmp(c->axis[0].name, line->axis) == 0)
            remove_path(r, c, line->path);
    }
    vec_push(r->arena, &r->clause, *clause);
}

/* Removes the options that make a unit something other than full_shard. */
void replan_shard_fully(Replan *r)
{
    for (int i = 0; i < r->clause.n; i++) {
        Clause *c = &r->clause.at[i];
        if (c->kind != CL_FULLY_SHARD)
            continue;
        c->item = arena_copy(r->arena, c->item,
                             (size_t)c->nitems * sizeof *c->item);
        for (int k = 0; k < c->nitems; k++) {
            Item *item = &c->item[k];
            Arg *option = NEW_ARRAY(r->arena, Arg, item->noptions + 1);
            int n = 0;
            for (int j = 0; j < item->noptions; j++)
                if (strcmp(item->option[j].name,
                           option_name(OPTION_reshard)) != 0 &&
                    strcmp(item->option[j].name,
                           option_name(OPTION_strategy)) != 0)
                    option[n++] = item->option[j];
            item->option = option;
            item->noptions = n;
        }
    }
}

void replan_define(Replan *r, const char *text)
{
    Setting *s = pdl_parse_define(r->arena, r->diag, new_source(r, text));

    r->fine = r->fine && s;
    if (s)
        vec_push(r->arena, &r->define, s);
}

/* ---- planning ---- */

static Program *lower_changed(Replan *r)
{
    PlanDecl **plan = NEW_ARRAY(r->arena, PlanDecl *, 1);

    r->plan.clause = r->clause.at;
    r->plan.nclauses = r->clause.n;
    plan[0] = &r->plan;
    /* Without changed clauses, a file without a plan has the default plan. */
    if (r->file.plan.n > 0 || r->clause.n > 0) {
        r->file.plan.at = plan;
        r->file.plan.n = 1;
    }
    FrontendOptions options = {.mesh = r->mesh,
                               .node_size = r->from->node_size,
                               .define = r->define.at,
                               .ndefines = r->define.n,
                               .defaults = r->from->defaults,
                               .side = r->side};
    return lower(r->arena, r->diag, r->from->prelude, &r->file, &options);
}

void replan_mesh(Replan *r, const char *mesh)
{
    r->mesh = mesh;
}

static void run_pass(Replan *r, const PassInfo *pass, Program *q)
{
    if (!diag_error_count(r->diag)) {
        ir_renumber(q);
        pass->run(q, r->from->t);
    }
}

/* The last pass that side programs take part in is memory. */
static void run_passes(Replan *r, const char *until)
{
    bool done = false;
    jmp_buf stop;
    diag_set_stop(r->diag, &stop);
    if (setjmp(stop) != 0)
        return; /* after an error */
    Program *q = r->made = lower_changed(r);
    for (int i = 0; q && !done && !diag_error_count(r->diag); i++) {
        const PassInfo *pass = &r->from->pass[i];
        done = strcmp(pass->name, until) == 0;
        run_pass(r, pass, q);
        if (done)
            side_drop(q);
        for (int k = 0; k < PURPOSES; k++)
            if (q->side[k])
                run_pass(r, pass, q->side[k]);
    }
}

Program *replan_run(Replan *r, const char *until)
{
    if (r->fine)
        run_passes(r, until);
    return diag_error_count(r->diag) ? NULL : r->made;
}

Program *replan_memory(Replan *r)
{
    r->side = r->from->side;
    return replan_run(r, "memory");
}

bool replan_schedule(const PlanSource *source, Program *q)
{
    jmp_buf stop;
    diag_set_stop(q->diag, &stop);
    if (setjmp(stop) != 0)
        return false;
    const PassInfo *pass = source->pass;
    while (strcmp(pass->name, "memory") != 0)
        pass++;
    do { /* the passes after sync change side programs only */
        pass++;
        ir_renumber(q);
        pass->run(q, source->t);
    } while (strcmp(pass->name, "sync") != 0);
    return diag_error_count(q->diag) == 0;
}

const char *replan_error(const Replan *r)
{
    return diag_first_error(r->diag);
}

Replan *replan_new(Arena *a, const Program *p, const PlanSource *source)
{
    Replan *r = NEW(a, Replan);

    *r = (Replan){.arena = a, .p = p, .from = source,
                  .diag = diag_quiet(a, p->diag),
                  .mesh = source->mesh, .fine = true};
    for (int i = 0; i < source->ndefines; i++)
        vec_push(a, &r->define, source->define[i]);
    begin_plan(r);
    return r;
}
