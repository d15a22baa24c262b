/* ir_mutations.c: no program with a wrong collective has types.
 *
 * Every example is compiled for a mesh up to its stored form, llama.pdl under
 * every sharding strategy. Then each collective in turn is left out, done
 * twice, or sent over every other set of axes, and the placements behind it are derived as if a compiler with that fault had
 * done it. The verifier must refuse every one of these programs.
 */
#include "base/file.h"
#include "check.h"
#include "frontend/frontend.h"
#include "ir/rules.h"
#include "passes/pass.h"

#include <string.h>

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

/* From ASTRAY on: over the axes of the set fault - ASTRAY instead. */
typedef enum Fault { LEFT_OUT, TWICE, ASTRAY } Fault;

/* False where the fault is none. */
static bool inject(Program *p, Op *op, int fault)
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
        int64_t own = axes->i;
        axes->i = fault - ASTRAY;
        return axes->i != 0 && axes->i != own;
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
        for (int fault = LEFT_OUT; fault < ASTRAY + (1 << whole->mesh.n);
             fault++) {
            Program *p = ir_copy(whole);
            Find f = {n, NULL};
            ir_walk(p->step, find_nth, &f);
            if (!f.op)
                return;
            const char *name = op_info(f.op->kind)->name;
            const char *value = f.op->out[0]->name;
            if (!inject(p, f.op, fault))
                continue;
            bool refused = !derive_region(p, p->step) || ir_verify(p);
            if (!refused)
                printf("%s: %s %%%s, fault %d\n", what, name, value, fault);
            CHECK(c, refused);
        }
}

/* ---- programs -------------------------------------------------------------
 */

/* The text with `from … to` replaced once; as it is where it lacks them. */
static char *replace(Arena *a, const char *text, const char *from,
                     const char *to, const char *with)
{
    const char *begin = strstr(text, from);
    const char *end = begin ? strstr(begin, to) : NULL;
    if (!end)
        return arena_printf(a, "%s", text);
    return arena_printf(a, "%.*s%s%s", (int)(begin - text), text, with,
                        end + strlen(to));
}

/* llama.pdl under another strategy: its axes, and one clause for its own. */
static char *with_strategy(Arena *a, const char *text, const char *axes,
                           const char *clause)
{
    text = replace(a, text, "plan tp_fsdp(", ")",
                   arena_printf(a, "plan p(%s)", axes));
    return replace(a, text, "fully_shard dp", "}", clause);
}

static Program *compile(Arena *a, const char *path, const char *plan,
                        const char *mesh, const char *const *defines,
                        const char *axes, const char *clause)
{
    Diag *d = diag_new(a, COLOR_NEVER);
    size_t size;
    char *text = file_read(a, path, &size);
    if (text && clause)
        text = with_strategy(a, text, axes, clause);
    FrontendOptions o = {.mesh = mesh, .plan = plan};
    Setting *setting[12];
    for (; defines[o.ndefines]; o.ndefines++) {
        const char *s = defines[o.ndefines];
        setting[o.ndefines] =
            pdl_parse_define(a, d, diag_source(d, "-D", s, strlen(s)));
    }
    o.define = setting;
    File *prelude =
        pdl_parse(a, d, diag_source(d, "prelude", prelude_text, prelude_size));
    File *file =
        text ? pdl_parse(a, d, diag_source(d, path, text, strlen(text))) : NULL;
    Program *p = file ? lower(a, d, prelude, file, &o) : NULL;
    TargetInfo t = {.target = TARGET_CPU, .threads = 1, .alignment = 64};
    static void (*const passes[])(Program *, const TargetInfo *) = {
        pass_autodiff, pass_plan,    pass_propagate, pass_partition,
        pass_simplify, pass_storage};
    for (size_t i = 0; p && i < sizeof passes / sizeof *passes; i++)
        passes[i](p, &t);
    diag_flush(d, stdout);
    return p;
}

#define LLAMA(mesh, axes, clause)                                             \
    {"examples/llama.pdl", NULL, mesh,                                        \
     {"vocab=32", "dim=8", "n_layers=2", "n_heads=2", "n_kv_heads=2",         \
      "hidden=16", "precision=f32", "batch=8", "seq=4", NULL},                \
     axes, clause}

int main(void)
{
    static const struct {
        const char *path, *plan, *mesh;
        const char *defines[12];
        const char *axes, *clause;
    } rows[] = {
        {"examples/toy.pdl", NULL, "2x3", {NULL}, NULL, NULL},
        {"examples/feedforward.pdl", NULL, "2x2", {NULL}, NULL, NULL},
        {"examples/gpt2.pdl",
         NULL,
         "2x2",
         {"vocab=16", "dim=8", "n_layers=2", "n_heads=2", "n_positions=4",
          "dropout=0.1", "batch=4", "seq=4", "precision=f32", NULL}, NULL, NULL},
        {"examples/transformer.pdl",
         "tensor_parallel",
         "2x2",
         {"vocab=16", "dim=8", "n_layers=2", "n_heads=2", "hidden=16",
          "batch=4", "seq=3", NULL}, NULL, NULL},
        {"examples/llama.pdl",
         NULL,
         "2x2",
         {"vocab=64", "dim=16", "n_layers=2", "n_heads=4", "n_kv_heads=2",
          "hidden=32", "precision=f32", NULL}, NULL, NULL},
        {"examples/llama.pdl",
         NULL,
         "2x2",
         {"vocab=64", "dim=16", "n_layers=2", "n_heads=4", "n_kv_heads=2",
          "hidden=32", "precision=f32", "batch=8", "accumulate=2", NULL}, NULL, NULL},
        {"examples/hsdp.pdl",
         NULL,
         "2x2x2",
         {"vocab=16", "dim=8", "n_layers=2", "n_heads=2", "batch=4", "seq=4",
          "precision=f32", NULL}, NULL, NULL},
        LLAMA("2x2", "dp, tp", "fully_shard dp { layers.*: reshard=true }"),
        LLAMA("2x2", "dp, tp", "fully_shard dp { model, layers.*: "
              "strategy=shard_grad_op }"),
        LLAMA("2x2", "dp, tp", "fully_shard dp { tok_embeddings, layers.*: "
              "strategy=no_shard }"),
        LLAMA("2x2", "dp, tp", ""),
        LLAMA("2x2x2", "rep, dp, tp", "fully_shard (rep, dp) { layers.* }"),
        LLAMA("2x2x2", "rep, dp, tp", "fully_shard (rep, dp) { model, "
              "layers.*: reshard=false }"),
    };
    TargetInfo t = {.target = TARGET_CPU, .threads = 1, .alignment = 64};
    Check c = {0};
    Arena *a = arena_new();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        Program *p = compile(a, rows[i].path, rows[i].plan, rows[i].mesh,
                             rows[i].defines, rows[i].axes,
                             rows[i].clause);
        CHECK(&c, p != NULL);
        if (!p)
            continue;
        if (p->mesh.ntime > 0)
            test_program(&c, p, "microbatches as an axis");
        pass_accumulate(p, &t);
        pass_chunk(p, &t);
        pass_optimizer(p, &t);
        test_program(&c, p, rows[i].path);
    }
    arena_free(a);
    return check_end(&c);
}
