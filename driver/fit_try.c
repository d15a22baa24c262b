/* fit_try.c: plans a program with changes, to get its peak memory.
 *
 * The changes are applied to a copy of the syntax tree, the -D options and the
 * mesh. The copy is lowered and runs through the passes up to the memory plan.
 * Its errors are not reported: the peak is then -1.
 */
#include <string.h>

#include "driver/fit.h"
#include "ir/analysis/flops.h"
#include "ir/memory.h"

typedef struct Try {
    Arena *arena;
    Diag *diag; /* a separate one: its errors are not reported */
    const Program *p;
    const FitSource *from;
    File file;
    PlanDecl plan;
    VEC(Clause) clause;
    VEC(Setting *) define;
    const char *mesh;
    bool fine;
    Program *made; /* NULL before lowering and after an error */
} Try;

/* A Diag with the same sources, under the numbers that the tree's locations
 * have. */
static Diag *quiet_diag(Arena *a, const Diag *like)
{
    Diag *d = diag_new(a, COLOR_NEVER);
    const Source *s;

    for (int i = 1; (s = diag_source_at(like, (uint16_t)i)) != NULL; i++)
        diag_source(d, s->name, s->text, s->size);
    return d;
}

static uint16_t new_source(Try *t, const char *text)
{
    return diag_source(t->diag, "change", text, strlen(text));
}

/* ---- the plan ---- */

/* Copies the file's plan; without one, begins an empty plan. */
static void begin_plan(Try *t)
{
    const File *f = t->from->file;
    const PlanDecl *plan = file_find_plan(f, t->p->plan.name);

    t->file = *f;
    if (plan) {
        t->plan = *plan;
        for (int i = 0; i < plan->nclauses; i++)
            vec_push(t->arena, &t->clause, plan->clause[i]);
        return;
    }
    Ident *axis = NEW(t->arena, Ident);
    *axis = (Ident){t->p->mesh.name[0], t->p->plan.loc};
    t->plan = (PlanDecl){.name = {"p", t->p->plan.loc}, .axis = axis,
                         .naxes = 1};
}

static void set_clause(Try *t, const char *text)
{
    uint16_t source = new_source(
        t, arena_printf(t->arena, "plan p(a) {\n%s\n}\n", text));
    const File *f = pdl_parse(t->arena, t->diag, source);
    int kept = 0;

    if (!f) {
        t->fine = false;
        return;
    }
    Clause clause = f->plan[0]->clause[0];
    for (int i = 0; i < t->clause.n; i++)
        if (t->clause.at[i].kind != clause.kind)
            t->clause.at[kept++] = t->clause.at[i];
    t->clause.n = kept;
    vec_push(t->arena, &t->clause, clause);
}

/* Removes the options that make a unit something other than full_shard. */
static void shard_fully(Try *t)
{
    for (int i = 0; i < t->clause.n; i++) {
        Clause *c = &t->clause.at[i];
        if (c->kind != CL_FULLY_SHARD)
            continue;
        c->item = arena_copy(t->arena, c->item,
                             (size_t)c->nitems * sizeof *c->item);
        for (int k = 0; k < c->nitems; k++) {
            Item *item = &c->item[k];
            Arg *option = NEW_ARRAY(t->arena, Arg, item->noptions + 1);
            int n = 0;
            for (int j = 0; j < item->noptions; j++)
                if (strcmp(item->option[j].name, "reshard") != 0 &&
                    strcmp(item->option[j].name, "strategy") != 0)
                    option[n++] = item->option[j];
            item->option = option;
            item->noptions = n;
        }
    }
}

static void add_definition(Try *t, const char *text)
{
    Setting *s = pdl_parse_define(t->arena, t->diag, new_source(t, text));

    t->fine = t->fine && s;
    if (s)
        vec_push(t->arena, &t->define, s);
}

static void apply_change(Try *t, const FitChange *c)
{
    if (c->clause)
        set_clause(t, c->clause);
    if (c->full_shard)
        shard_fully(t);
    if (c->define)
        add_definition(t, c->define);
    if (c->mesh)
        t->mesh = c->mesh;
}

/* ---- planning ---- */

static Program *lower_changed(Try *t)
{
    const PlanDecl **plan = NEW_ARRAY(t->arena, const PlanDecl *, 1);

    t->plan.clause = t->clause.at;
    t->plan.nclauses = t->clause.n;
    plan[0] = &t->plan;
    /* Without changed clauses, a file without a plan has the default plan. */
    if (t->file.nplans > 0 || t->clause.n > 0) {
        t->file.plan = (PlanDecl **)plan;
        t->file.nplans = 1;
    }
    FrontendOptions options = {.mesh = t->mesh,
                               .define = t->define.at,
                               .ndefines = t->define.n};
    return lower(t->arena, t->diag, t->from->prelude, &t->file, &options);
}

/* Runs the passes until the memory plan exists. */
static void plan_changed(Try *t)
{
    jmp_buf stop;
    diag_set_stop(t->diag, &stop);
    if (setjmp(stop) != 0)
        return; /* after an error */
    Program *q = t->made = lower_changed(t);
    for (int i = 0; q && !q->memory && !diag_error_count(t->diag); i++) {
        ir_renumber(q);
        pass_table[i].run(q, t->from->t);
    }
}

FitResult fit_try(const Program *p, const FitSource *from,
                  const FitChange *const *change, int n)
{
    FitResult r = {.peak = -1};
    Try t = {.arena = p->arena, .p = p, .from = from,
             .diag = quiet_diag(p->arena, p->diag),
             .mesh = from->o->mesh.text, .fine = true};

    for (int i = 0; i < from->ndefines; i++)
        vec_push(t.arena, &t.define, from->define[i]);
    begin_plan(&t);
    for (int i = 0; i < n && t.fine; i++)
        apply_change(&t, change[i]);
    if (t.fine)
        plan_changed(&t);
    const Program *q = t.made;
    if (!q || diag_error_count(t.diag) > 0 || !q->memory)
        return r;
    double recomputed = program_flops_recomputed(q);
    double own = program_flops(q, PH_FORWARD) + program_flops(q, PH_BACKWARD) -
                 recomputed;
    r.peak = q->memory->peak;
    r.recomputed = own > 0 ? recomputed / own : 0;
    return r;
}
