/* target_check.c: checks that a program resumed from a dump fits its target,
 * computes a loss, and that its fused ops are legal.
 *
 * Passes query the target, and a dump contains the results: an epilogue of a
 * library call, or a parameter that all ranks read from shared memory, so that
 * its gather moves no data. Another target may lack the call or the shared
 * memory. A dump may also have been edited.
 */
#include "codegen/kernel/kernel.h"
#include "codegen/numbers.h"
#include "codegen/target/target.h"

static bool can_do(const Program *p, const TargetInfo *t, const Op *op)
{
    switch ((int)op->kind) {
    case OP_embedding_add: return t->adds_rows;
    case OP_fetch:
    case OP_store: return t->target == TARGET_CUDA;
    }
    return !op_is_einsum(op->kind) || t->multiplies(p, op);
}

/* A dump may skip the pass matmul. */
static bool is_matmul(const Program *p, const TargetInfo *t, const Op *op)
{
    if (!op_is_einsum(op->kind) || t->is_matmul(p, op))
        return true;
    diag_error(p->diag, op->loc, "no matmul computes the einsum '%s'",
               attr_spec(op));
    diag_help(p->diag, "continue the dump before the pass matmul, which "
                       "transposes operands of such einsums");
    return false;
}

static bool refuse(const Program *p, const TargetInfo *t, Loc loc,
                   const char *what)
{
    static const char *const name[] = {[TARGET_CPU] = "cpu",
                                       [TARGET_CUDA] = "cuda"};
    Target other = t->target == TARGET_CPU ? TARGET_CUDA : TARGET_CPU;
    diag_error(p->diag, loc, "the target %s has no %s",
               name[t->target], what);
    diag_help(p->diag, "the dump was made for --target %s: continue it with "
                          "that target", name[other]);
    return false;
}

/* A training program logs the loss, and stops if it is not finite; IR that
 * continues after the pass autodiff may have none. */
static bool has_loss(const Program *p)
{
    const Value *loss = program_output(p, "loss");
    if (!program_trains(p) || (loss && loss->type.ndim == 0 && loss->type.nstack == 0 &&
                               loss->type.dtype == DT_F32))
        return true;
    diag_error(p->diag, (Loc){0}, "the training step has no output 'loss' in f32 without "
                                  "dims");
    diag_help(p->diag, "add the op output{name=\"loss\"} to the IR; a program is made of a "
                       "model that returns a loss");
    return false;
}

bool target_can_run(const Program *p, const TargetInfo *t)
{
    for (; p; p = program_next(p)) {
        if (!has_loss(p))
            return false;
        for (int i = 0; i < p->param.n; i++)
            if (p->param.at[i].shared && !t->shares_memory)
                return refuse(p, t, p->param.at[i].loc,
                              "memory that ranks share, and the parameter is "
                              "'gathered shared'");
        for_ops(op, p->step) {
            if (!can_do(p, t, op))
                return refuse(p, t, op->loc, op_info(op->kind)->name);
            if (!is_matmul(p, t, op))
                return false;
        }
    }
    return true;
}

bool target_takes_dump(const Program *p)
{
    for (; p; p = program_next(p))
        for_ops(op, p->step) {
            const char *fault =
                op->kind == OP_fused ? kernel_fault(p, op) : NULL;
            if (!fault)
                continue;
            diag_error(p->diag, op->loc, "fused '%s' is no kernel: %s",
                       attr_name(op) ? attr_name(op) : "", fault);
            diag_help(p->diag,
                      "repeat the dump: the pass fuse makes only kernels");
            return false;
        }
    return true;
}
