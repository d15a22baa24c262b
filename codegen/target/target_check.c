/* target_check.c: checks that a program resumed from a dump fits its target,
 * and that its fused ops are legal.
 *
 * Passes query the target, and a dump contains the results: an epilogue of a
 * library call, or a parameter that all ranks read from shared memory, so that
 * its gather moves no data. Another target may lack the call or the shared
 * memory. A dump may also have been edited.
 */
#include "codegen/kernel/kernel.h"
#include "codegen/numbers.h"
#include "codegen/target/target.h"

typedef struct Check {
    const Program *p;
    const TargetInfo *t;
} Check;

static bool can_do(const Check *c, const Op *op)
{
    const TargetInfo *t = c->t;
    switch ((int)op->kind) {
    case OP_embedding_add: return t->adds_rows;
    case OP_fetch:
    case OP_store: return t->target == TARGET_CUDA;
    }
    if (!op_is_einsum(op->kind))
        return true;
    if (!t->is_matmul(c->p, op)) /* a dump that skips the pass matmul */
        return false;
    return t->multiplies ? t->multiplies(c->p, op) : op->kind == OP_einsum;
}

static bool refuse(const Check *c, Loc loc, const char *what)
{
    static const char *const name[] = {[TARGET_CPU] = "cpu",
                                       [TARGET_CUDA] = "cuda"};
    Target other = c->t->target == TARGET_CPU ? TARGET_CUDA : TARGET_CPU;
    diag_error(c->p->diag, loc, "the target %s has no %s",
               name[c->t->target], what);
    diag_help(c->p->diag, "the dump was made for --target %s: continue it with "
                          "that target", name[other]);
    return false;
}

static bool can_run(const Check *c, const Region *r)
{
    for (const Op *op = r->first; op; op = op->next)
        if (!can_do(c, op))
            return refuse(c, op->loc, op_info(op->kind)->name);
        else if (op->body && !can_run(c, op->body))
            return false;
    return true;
}

bool target_can_run(const Program *p, const TargetInfo *t)
{
    bool good = true;
    for (Check c = {p, t}; c.p && good; c.p = program_next(c.p)) {
        for (int i = 0; i < c.p->param.n; i++)
            if (c.p->param.at[i].shared && !t->shares_memory)
                return refuse(&c, c.p->param.at[i].loc,
                              "memory that ranks share, and the parameter is "
                              "'gathered shared'");
        good = can_run(&c, c.p->step);
    }
    return good;
}

static bool takes_kernel(const Check *c, const Op *op)
{
    const char *fault = kernel_fault(c->p, op);
    if (!fault)
        return true;
    diag_error(c->p->diag, op->loc, "fused '%s' is no kernel: %s",
               attr_name(op) ? attr_name(op) : "", fault);
    diag_help(c->p->diag, "repeat the dump: the pass fuse makes only kernels");
    return false;
}

static bool takes(const Check *c, const Region *r)
{
    for (const Op *op = r->first; op; op = op->next) {
        bool good = op->kind == OP_fused ? takes_kernel(c, op)
                                         : !op->body || takes(c, op->body);
        if (!good)
            return false;
    }
    return true;
}

bool target_takes_dump(const Program *p, const TargetInfo *t)
{
    bool good = true;
    for (Check c = {p, t}; c.p && good; c.p = program_next(c.p))
        good = takes(&c, c.p->step);
    return good;
}
