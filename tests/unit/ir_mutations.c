/* ir_mutations.c: no program with a wrong collective has types.
 *
 * Every example is compiled for a mesh up to its stored form. Then each
 * collective in turn is left out, done twice, or sent over another axis, and
 * the placements behind it are derived as if a compiler with that fault had
 * done it. The verifier must refuse every one of these programs.
 */
#include "base/file.h"
#include "check.h"
#include "frontend/frontend.h"
#include "ir/rules.h"
#include "passes/pass.h"

/* ---- a compiler with a fault: placements as they would come out ---------- */

static Type without_stack(Type t)
{
    for (int i = 1; i < t.nstack; i++)
        t.stack[i - 1] = t.stack[i];
    t.nstack--;
    return t;
}

static bool derive_region(Program *p, Region *r);

static bool derive_body(Program *p, Op *op)
{
    for (int i = 0; i < op->nargs; i++) {
        bool stack = i >= op->ncarry && i < op->ncarry + op->nstack;
        op->body->arg[i]->type =
            stack ? without_stack(op->arg[i]->type) : op->arg[i]->type;
    }
    if (!derive_region(p, op->body))
        return false;
    for (int i = 0; i < op->nouts; i++)
        op->out[i]->type.place = op->body->yield[i]->type.place;
    return true;
}

/* A conversion changes the axes that it names and keeps the others. */
static void derive_conversion(const Program *p, Op *op)
{
    int64_t axes = op_attr(op, "axes").i;
    for (int i = 0; i < op->nargs; i++)
        for (int a = 0; a < p->mesh.n; a++)
            if (!(axes >> a & 1))
                op->out[i]->type.place.ax[a] = op->arg[i]->type.place.ax[a];
}

/* False where an op has no placement at all on its operands. */
static bool derive_op(Program *p, Op *op)
{
    if (op->body)
        return derive_body(p, op);
    if (op_is_conversion(op->kind))
        derive_conversion(p, op);
    if (op->kind == OP_finish_grad)
        op->out[0]->type = op->arg[0]->type;
    if (!op_info(op->kind)->rule)
        return true;
    Rule r;
    Placement place[MAX_RULE_TENSORS];
    rule_of(p, op, &r);
    for (int i = 0; i < op->nouts; i++)
        place[i] = op->out[i]->type.place;
    if (rule_derive(p, op, &r, place, NULL))
        return false;
    for (int i = 0; i < op->nouts; i++)
        op->out[i]->type.place = place[i];
    return true;
}

static bool derive_region(Program *p, Region *r)
{
    for (Op *op = r->first; op; op = op->next)
        if (!derive_op(p, op))
            return false;
    return true;
}

/* ---- faults ---------------------------------------------------------------
 */

typedef enum Fault { LEFT_OUT, TWICE, ASTRAY, FAULTS } Fault;

/* False where the fault is none: another axis on which nothing happens. */
static bool inject(Program *p, Op *op, Fault fault)
{
    Attr *axes = &op_attr(op, "axes");
    if (fault == LEFT_OUT) {
        for (int i = 0; i < op->nouts; i++)
            ir_replace_uses(p->step, op->out[i], op->arg[i]);
        ir_remove(op);
    } else if (fault == TWICE) {
        Value **map = NEW_ARRAY(p->arena, Value *, p->nvalues);
        Build b = {.p = p,
                   .region = op->region,
                   .before = op->next,
                   .phase = op->phase,
                   .path = ""};
        Op *second = ir_clone(&b, op, map);
        for (int i = 0; i < op->nouts; i++) {
            ir_replace_uses(op->region, op->out[i], second->out[i]);
            second->arg[i] = op->out[i];
        }
    } else {
        int64_t all = (1 << p->mesh.n) - 1;
        axes->i = all & ~axes->i;
        return axes->i != 0;
    }
    return true;
}

typedef struct Find {
    int number;
    Op *op;
} Find;

static void find_nth(Op *op, void *context)
{
    Find *f = context;
    if (op_is_conversion(op->kind) && f->number-- == 0)
        f->op = op;
}

static void test_program(Check *c, const Program *whole, const char *what)
{
    CHECK_TEXT(c, ir_verify(whole), NULL);
    for (int n = 0;; n++)
        for (int fault = LEFT_OUT; fault < FAULTS; fault++) {
            Program *p = ir_copy(whole);
            Find f = {n, NULL};
            ir_walk(p->step, find_nth, &f);
            if (!f.op)
                return;
            const char *name = op_info(f.op->kind)->name;
            const char *value = f.op->out[0]->name;
            if (!inject(p, f.op, (Fault)fault))
                continue;
            bool refused = !derive_region(p, p->step) || ir_verify(p);
            if (!refused)
                printf("%s: %s %%%s, fault %d\n", what, name, value, fault);
            CHECK(c, refused);
        }
}

/* ---- programs -------------------------------------------------------------
 */

static Program *compile(Arena *a, const char *path, const char *mesh,
                        const char *const *defines)
{
    Diag *d = diag_new(a, COLOR_NEVER);
    size_t size;
    char *text = file_read(a, path, &size);
    FrontendOptions o = {.mesh = mesh};
    Setting *setting[8];
    for (; defines[o.ndefines]; o.ndefines++) {
        const char *s = defines[o.ndefines];
        setting[o.ndefines] =
            pdl_parse_define(a, d, diag_source(d, "-D", s, strlen(s)));
    }
    o.define = setting;
    File *prelude =
        pdl_parse(a, d, diag_source(d, "prelude", prelude_text, prelude_size));
    File *file =
        text ? pdl_parse(a, d, diag_source(d, path, text, size)) : NULL;
    Program *p = file ? lower(a, d, prelude, file, &o) : NULL;
    TargetInfo t = {.target = TARGET_CPU, .threads = 1, .alignment = 64};
    static void (*const passes[])(Program *, const TargetInfo *) = {
        pass_autodiff, pass_plan,    pass_propagate, pass_partition,
        pass_simplify, pass_storage, pass_optimizer};
    for (size_t i = 0; p && i < sizeof passes / sizeof *passes; i++)
        passes[i](p, &t);
    diag_flush(d, stdout);
    return p;
}

int main(void)
{
    static const struct {
        const char *path, *mesh;
        const char *defines[8];
    } rows[] = {
        {"examples/toy.pdl", "2x3", {NULL}},
        {"examples/feedforward.pdl", "2x2", {NULL}},
        {"examples/llama.pdl",
         "2x2",
         {"vocab=64", "dim=16", "n_layers=2", "n_heads=4", "n_kv_heads=2",
          "hidden=32", "precision=f32", NULL}},
    };
    Check c = {0};
    Arena *a = arena_new();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        Program *p = compile(a, rows[i].path, rows[i].mesh, rows[i].defines);
        CHECK(&c, p != NULL);
        if (p)
            test_program(&c, p, rows[i].path);
    }
    arena_free(a);
    return check_end(&c);
}
