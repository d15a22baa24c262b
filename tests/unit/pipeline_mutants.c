/* pipeline_mutants.c: programs with a pipeline, after the last pass, are accepted
 * as they are, and rejected after any one change to what the stages exchange or to
 * the buffers of microbatches.
 */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "codegen/target/target.h"
#include "ir/memory.h"
#include "ir/plan/pipeline.h"
#include "passes/sync/sync.h"
#include "tests/unit/check.h"
#include "tests/unit/pdl_program.h"

typedef struct Row {
    const char *example, *mesh, *pipeline;
    const char *define[12];
} Row;

#define SMALL "dim=16", "n_layers=4", "n_heads=2", "batch=16", "seq=4"
static const Row rows[] = {
    {"llama", "2x1x1", "schedule=1f1b",
     {"vocab=32", "n_kv_heads=2", "hidden=16", SMALL, "accumulate=4"}},
    {"llama", "4x1x1", "schedule=1f1b",
     {"vocab=32", "n_kv_heads=2", "hidden=16", SMALL, "accumulate=8"}},
    {"llama", "2x2x1", "schedule=gpipe",
     {"vocab=32", "n_kv_heads=2", "hidden=16", SMALL, "accumulate=4",
      "precision=bf16"}},
    {"gpt2", "2x1x1", "schedule=1f1b",
     {"vocab=32", "n_positions=4", SMALL, "accumulate=4"}},
    {"llama", "2x1x1", "split=[layers.0, layers.1-3]",
     {"vocab=32", "n_kv_heads=2", "hidden=16", SMALL}},
    {"llama", "2x1x1", "schedule=interleaved",
     {"vocab=32", "n_kv_heads=2", "hidden=16", SMALL, "accumulate=4"}},
    {"llama", "3x1x1", "schedule=zero_bubble",
     {"vocab=32", "n_kv_heads=2", "hidden=16", SMALL, "accumulate=8"}},
    /* The last stage has no layer. */
    {"llama", "2x1x1", "stages_per_rank=2",
     {"vocab=4096", "n_kv_heads=2", "hidden=16", SMALL, "accumulate=4"}},
};

/* The example with the clause in its plan for tp and dp. */
static const char *with_pipeline(Arena *a, const char *text, const char *words)
{
    const char *plan = strstr(text, "\nplan tp_fsdp("), *line = plan;
    if (!plan)
        return NULL;
    line = strchr(plan + 1, '\n');
    return arena_printf(a, "%.*s\nplan tp_fsdp(pp, dp, tp) {\n pipeline pp { %s }%s",
                        (int)(plan - text), text, words, line);
}

static Program *build(Arena *a, const Row *row, Target target)
{
    size_t size;
    const char *path = arena_printf(a, "examples/%s.pdl", row->example);
    const char *text = file_read(a, path, &size);
    text = text ? with_pipeline(a, text, row->pipeline) : NULL;
    Diag *d = diag_new(a, COLOR_NEVER);
    Program *p = text ? pdl_program(a, d, text, row->mesh, NULL, row->define)
                      : NULL;
    TargetInfo t = target_info(target, 1);
    const char *fault = p ? run_all_passes(p, &t) : "it cannot be read";
    diag_flush(d, stdout);
    if (fault)
        printf("%s: %s\n", row->example, fault);
    return fault ? NULL : p;
}

/* ---- changes ------------------------------------------------------------- */

typedef struct Mutant {
    Check *c;
    Program *p;
    int n;
} Mutant;

static const char *check(const Program *p)
{
    const char *fault = stages_check(p);
    return fault ? fault : transfers_check(p);
}

static void expect_fault(Mutant *m, const char *change, const Value *v)
{
    const char *fault = check(m->p);
    m->n++;
    if (!fault)
        printf("%s of %%%s is accepted\n", change, v ? v->name : "a block");
    CHECK(m->c, fault);
}

/* Readers use the operand. */
static void leave_out(Mutant *m, Op *op, int i)
{
    Value *out = op->out[i], *arg = op->arg[i];
    ir_replace_uses(op->region, out, arg);
    op->arg[i] = op->kind == OP_send ? out : arg; /* it sends nothing of a loop */
    expect_fault(m, "a transfer left out", out);
    op->arg[i] = arg;
    ir_replace_uses(op->region, arg, out);
    op->arg[i] = arg;
}

static void send_twice(Mutant *m, Op *op)
{
    Build b = {.p = m->p, .region = op->region, .before = op->next, .phase = op->phase,
               .loc = op->loc, .path = op->path};
    Op *again = ir_clone(&b, op, NULL);
    again->cut = op->cut;
    expect_fault(m, "a second send", op->out[0]);
    ir_remove(again);
}

static void redirect(Mutant *m, Op *op)
{
    set_attr_reverse(op, !attr_reverse(op));
    expect_fault(m, "another direction", op->out[0]);
    set_attr_reverse(op, !attr_reverse(op));
    op->cut++;
    expect_fault(m, "the transfer of another loop", op->out[0]);
    op->cut--;
}

/* The move is to a stage that is no neighbor. */
static void move_farther(Mutant *m, Op *op)
{
    int axis = pipeline_axis(m->p);
    AxisPlace *to = &op->out[0]->type.place.ax[axis], was = *to;
    to->dim = (uint8_t)(was.dim + (op->phase == PH_BACKWARD ? -1 : 1));
    expect_fault(m, "a move to another stage", op->out[0]);
    *to = was;
}

/* The transfer, and the one before it between the same stages, in another order on one
 * of them. */
static void swap(Mutant *m, Op *op)
{
    Op *next = op->next;
    ir_move(op, op->region, op->region->first);
    bool alone = true;
    for (const Op *other = op->next; other != next; other = other->next)
        alone &= !op_transfers(other) || other->kind != op->kind ||
                 other->phase != op->phase || other->cut == op->cut;
    if (!alone)
        expect_fault(m, "a transfer before others", op->out[0]);
    ir_move(op, op->region, next);
}

static void change_transfers(Mutant *m)
{
    const Op *loop = pipeline_loop(m->p);
    for_ops(op, m->p->step) {
        if (loop && op_loop(op) == loop && op->kind == OP_move && op_transfers(op))
            move_farther(m, op);
        if (op->kind != OP_receive && op->kind != OP_send)
            continue;
        swap(m, op);
        redirect(m, op);
        if (op->kind == OP_send)
            send_twice(m, op);
    }
}

/* All values in the block get `modulo` buffers. */
static void set_buffers(Program *p, int block, int64_t modulo)
{
    for_ops(op, p->step)
        for (int i = 0; i < op->nouts; i++) {
            Address *at = (Address *)op->out[i]->address;
            for (int k = 0; at && at->block == block && k < at->nstrides; k++)
                if (at->loop[k]->staged && at->modulo[k] > 0)
                    at->modulo[k] = modulo;
        }
}

static void change_buffers(Mutant *m)
{
    bool *tried = calloc((size_t)m->p->memory->nblocks, sizeof *tried);
    for_ops(op, m->p->step)
        for (int i = 0; i < op->nouts; i++) {
            const Address *at = op->out[i]->address;
            for (int k = 0; at && k < at->nstrides; k++) {
                int64_t modulo = at->modulo[k];
                if (!at->loop[k]->staged || modulo < 2 || at->rotation ||
                    tried[at->block])
                    continue;
                tried[at->block] = true;
                set_buffers(m->p, at->block, modulo - 1);
                expect_fault(m, "one buffer less", op->out[i]);
                set_buffers(m->p, at->block, modulo);
            }
        }
    free(tried);
}

/* Whether carries of both passes have the rotation: the plan counts their buffers from
 * the first access to the last, though in between fewer may do. */
static bool is_of_both_passes(const Program *p, int rotation)
{
    bool forward = false, backward = false;
    for_ops(op, p->step)
        for (int i = 0; i < op->nouts && op->kind == OP_receive; i++)
            if (op->out[i]->address->rotation == rotation)
                *(op->phase == PH_BACKWARD ? &backward : &forward) = true;
    return forward && backward;
}

/* One buffer less on a stage, and a block that has only that many there. */
static void change_rotations(Mutant *m)
{
    MemoryPlan *plan = m->p->memory;
    int nstages = pipeline_stage_count(m->p);
    for (int i = 0; i < plan->nrotations; i++)
        for (int s = 0; s < nstages; s++) {
            int64_t *buffers = (int64_t *)&plan->rotation[i].buffers[s];
            if (*buffers < 2 || is_of_both_passes(m->p, i + 1))
                continue;
            --*buffers;
            expect_fault(m, "one buffer less on a stage", NULL);
            ++*buffers;
        }
    for (int i = 0; i < plan->nblocks; i++)
        for (int c = 0; plan->block[i].on && c < pipeline_ranks(m->p); c++) {
            int64_t *bytes = (int64_t *)&plan->block[i].on[c];
            if (*bytes == 0 || !block_bytes_on(&plan->block[i], c))
                continue;
            *bytes -= plan->alignment;
            expect_fault(m, "a few bytes less on a rank", NULL);
            *bytes += plan->alignment;
        }
}

/* A transfer, or what computes, awaits an earlier microbatch; a post is
 * too early. */
static void change_events(Mutant *m)
{
    const Op *loop = pipeline_loop(m->p);
    int awaits = 0;
    for (Op *op = loop ? loop->body->first : NULL; op; op = op->next) {
        if (op->kind != OP_await)
            continue;
        int64_t back = attr_back(op), rotation = attr_rotation(op);
        awaits++;
        if (!rotation && back + 1 == attr_slots(op))
            continue;
        set_attr_back(op, rotation ? attr_slots(op) - 1 : back + 1);
        set_attr_rotation(op, 0);
        expect_fault(m, "an await of an earlier microbatch", NULL);
        set_attr_back(op, back);
        set_attr_rotation(op, rotation);
    }
    for (Op *op = loop ? loop->body->first : NULL; op; op = op->next) {
        Op *next = op->next;
        if (op->kind != OP_post)
            continue;
        ir_move(op, op->region, loop->body->first);
        if (op->stream != STREAM_TRANSFER)
            expect_fault(m, "a post before its op", NULL);
        ir_move(op, op->region, next);
    }
    CHECK(m->c, !loop || awaits > 0);
}

/* Every block that values use becomes one of another coordinate. */
static void change_stages(Mutant *m)
{
    MemoryPlan *plan = m->p->memory;
    bool *tried = calloc((size_t)plan->nblocks, sizeof *tried);
    for_ops(op, m->p->step)
        for (int i = 0; i < op->nouts; i++) {
            const Address *at = op->out[i]->address;
            if (!at || at->block < 0 || tried[at->block])
                continue;
            Block *b = &plan->block[at->block];
            int coordinate = b->coordinate;
            tried[at->block] = true;
            b->coordinate =
                coordinate_of(m->p, value_stage(m->p, op->out[i])) == 0 ? 2 : 1;
            expect_fault(m, "another coordinate", op->out[i]);
            b->coordinate = coordinate;
        }
    free(tried);
}

static int test_row(Check *c, const Row *row, Target target)
{
    Arena *a = arena_new();
    Mutant m = {.c = c, .p = build(a, row, target)};
    CHECK(c, m.p);
    if (m.p) {
        CHECK_TEXT(c, check(m.p), NULL);
        change_transfers(&m);
        change_buffers(&m);
        change_rotations(&m);
        change_events(&m);
        change_stages(&m);
        for_ops(op, m.p->step)
            for (int i = 0; i < op->nouts; i++)
                if (op->kind == OP_receive || op->kind == OP_send)
                    leave_out(&m, op, i);
        CHECK_TEXT(c, check(m.p), NULL);
    }
    arena_free(a);
    return m.n;
}

int main(void)
{
    Check c = {0};
    int n = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        n += test_row(&c, &rows[i], TARGET_CPU) +
             test_row(&c, &rows[i], TARGET_CUDA);
    CHECK(&c, n > 60);
    printf("%d mutants\n", n);
    return check_end(&c);
}
