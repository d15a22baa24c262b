/* cuda_columns.c: lowers a phase's work on the columns that a thread processes,
 * and the reductions across the threads of the row.
 *
 * A vector's loads come first, then one statement for each op and element, then
 * its stores; therefore a thread that writes to memory that it also reads does
 * so after all loads of the vector. A load does not move across a store that
 * precedes it. Therefore in a phase that stores, the vectors of all strips that
 * are kept in registers are read first, and in a loop that is not unrolled
 * those of two strips.
 */
#include "codegen/cuda/cuda_lower.h"

/* Bytes that a phase reads for one vector of columns. */
static int64_t loads_of(const CudaPlan *p, const KernelPhase *phase)
{
    int64_t bytes = 0;
    for (int i = 0; i < phase->nelement; i++) {
        const KernelStep *step = &phase->element[i];
        const KernelBuffer *b = cuda_loaded_buffer(p, step->instr);
        if (b && !step->reused && cuda_is_vector(p, b))
            bytes += (int64_t)dtype_size(b->dtype) * p->vector *
                     kernel_lanes(p->k, b->axes);
    }
    return bytes;
}

static bool stores_vectors(const Lowering *c, int phase)
{
    bool any = false;
    for (int r = 0; r < c->k->nroots; r++)
        any |= c->k->root[r].kind == ROOT_STORE && !c->k->root[r].epilogue &&
               c->k->root[r].element && c->k->root[r].phase == phase &&
               cuda_stores_vector(c, c->k->root[r].target);
    return any;
}

static void each_step(Lowering *c, const KernelPhase *phase,
                      void (*visit)(Lowering *, const KernelStep *))
{
    for (int i = 0; i < phase->nelement; i++)
        visit(c, &phase->element[i]);
}

/* Reads the vectors that come before any store: those of a pair of strips, or
 * those of all strips that are kept in registers; returns whether it did so.
 * Then opens the loop over strips. */
static bool read_first(Lowering *c, const KernelPhase *phase, int64_t loads,
                       bool stores)
{
    Stmt *outer = c->at;
    bool kept = false;
    for (int i = 0; i < phase->nelement; i++)
        kept |= cuda_reads_kept(c->plan, &phase->element[i]);
    c->pairs = stores && cuda_open_pairs(c, loads);
    if (c->pairs) {
        outer = c->at;
        each_step(c, phase, cuda_declare_in);
        cuda_open_pair(c);
        each_step(c, phase, cuda_stage_in);
        c->at = outer;
        cuda_open_pair(c);
        return true;
    }
    if (kept && stores && c->plan->strips > 1) {
        cuda_open_strips(c, loads);
        each_step(c, phase, cuda_read_kept);
        c->at = outer;
        cuda_open_strips(c, loads);
        return true;
    }
    cuda_open_strips(c, loads);
    return false;
}

static void strips(Lowering *c, int number)
{
    const KernelPhase *phase = &c->phase[number];
    bool *staged = NEW_ARRAY(c->arena, bool, c->k->ninstrs + 1);
    Stmt *outer = c->at;
    for (int i = 0; i < phase->nelement; i++)
        staged[phase->element[i].instr] =
            cuda_is_staged(c->plan, &phase->element[i]);
    if (!read_first(c, phase, loads_of(c->plan, phase),
                    stores_vectors(c, number)))
        each_step(c, phase, cuda_read_kept);
    if (!c->pairs)
        each_step(c, phase, cuda_stage_in);
    Stmt *strip = c->at;
    cuda_stage_out(c, number, false);
    cuda_online_begin(c, number);
    c->staged = staged;
    cuda_open_vector(c);
    lower_elements(c, number);
    cuda_close(c, strip);
    c->staged = NULL;
    cuda_online_end(c, number);
    each_step(c, phase, cuda_stage_kept);
    cuda_stage_out(c, number, true);
    c->pairs = false;
    c->at = outer;
}

void cuda_columns(Lowering *c, int phase)
{
    const CudaPlan *whole = c->plan;
    Stmt *outer = c->at;
    strips(c, phase);
    if (!whole->edge || whole->form != CUDA_ROWS)
        return;
    lower_block(c);
    cuda_open_edge(c, "t");
    c->plan = whole->edge;
    strips(c, phase);
    c->plan = whole;
    c->at = outer;
}

/* ---- reductions of a row ------------------------------------------------- */

static void finish(Lowering *c, int phase, FinishPart part)
{
    for (int r = 0; r < c->k->nroots; r++) {
        const KernelRoot *root = &c->k->root[r];
        const KernelInstr *to = &c->k->instr[root->target];
        if (root->kind != ROOT_REDUCE || root->phase != phase)
            continue;
        const char *top = NULL;
        if (to->code == KERNEL_ONLINE)
            top = part == FINISH_GET ? cuda_sum_array(c, to->arg[0])
                                     : kernel_value(c, to->arg[0], 0);
        lower_add(c, (Stmt){.code = STMT_FINISH,
                            .part = part,
                            .op = to->op,
                            .name = kernel_value(c, root->target, 0),
                            .array = cuda_sum_array(c, root->target),
                            .top = top});
    }
}

void cuda_finish(Lowering *c, int phase)
{
    if (!c->phase[phase].reductions)
        return;
    if (c->plan->row_threads == CUDA_WARP) {
        finish(c, phase, FINISH_WARP);
        return;
    }
    finish(c, phase, FINISH_PUT);
    lower_add(c, (Stmt){.code = STMT_BARRIER});
    finish(c, phase, FINISH_GET);
}
