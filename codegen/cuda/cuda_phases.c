/* cuda_phases.c: lists what each phase of a CUDA kernel computes, and which
 * values are kept on the chip between phases, in registers or shared memory.
 *
 *   phase 0: load x, square, reduce
 *   phase 1: kept x, mul, load w, mul
 *
 * x is kept on the chip. Phase 1 reads only w, which is the same for all rows.
 *
 * A value of an earlier phase is kept if that avoids reading a row again
 * (loads), or if it is costly to recompute: an exponential, a random number, or
 * a value computed from several loads that are not kept. Everything else is
 * recomputed from kept values, which needs no registers.
 *
 * A vector that a phase after reductions is the first to read is read before the
 * first of them, so that the threads do not wait for it after a barrier:
 *
 *   phase 0: load x, square, reduce; load z
 *   phase 1: kept x, kept z, add
 *
 * That takes registers, and is not done if the row would no longer fit in them.
 */
#include "codegen/cuda/cuda_kernel.h"

typedef struct PhaseLists {
    CudaPlan *c;
    bool streamed;
    int *early;  /* by instruction: the phase that reads it for a later one; -1 */
    int *first;  /* by instruction: 1 + the first phase that computes it */
    int *listed; /* by instruction: 1 + the last phase that lists it */
    bool *row;   /* by instruction: it is a row value and used */
    KernelPhase *phase;
    int number;
} PhaseLists;

/* Whether an operand differs between rows. One that does not is read from the
 * cache, so that keeping it saves nothing. */
static bool differs_by_row(const CudaPlan *c, uint32_t axes)
{
    uint32_t rows = c->kept_axes | c->summed;
    return (axes & rows) || !rows;
}

static bool is_element(const PhaseLists *s, int i)
{
    return kernel_is_element(s->c->k, s->c->k->instr[i].axes);
}

/* The cost of recomputing a value of one element; 1 is the cost of reading one
 * float from memory. */
static double recompute_cost(const PhaseLists *s, int i, int depth)
{
    const KernelInstr *instr = &s->c->k->instr[i];
    if (!is_element(s, i) || s->c->on_chip[i] || !s->first[i] ||
        s->first[i] > s->number)
        return 0;
    if (instr->code == KERNEL_LOAD)
        return differs_by_row(s->c, instr->axes)
                   ? (dtype_size(instr->dtype) == 2 ? 0.5 : 1)
                   : 0;
    if (depth == 0 || instr->code == KERNEL_RANDOM ||
        (instr->code == KERNEL_OP && fuse_is_expensive(instr->op)))
        return 2;
    double floats = 0;
    for (int a = 0; a < instr->nargs; a++)
        floats += recompute_cost(s, instr->arg[a], depth - 1);
    return floats;
}

/* Whether a value of an earlier phase is kept. */
static bool is_worth_keeping(const PhaseLists *s, int i)
{
    enum { DEPTH = 8 };
    const KernelInstr *instr = &s->c->k->instr[i];
    double floats = recompute_cost(s, i, DEPTH);
    return instr->code == KERNEL_LOAD ? floats > 0 : floats > 1;
}

static void need(PhaseLists *s, int i);

/* Marks the operands of an instruction as needed; a PICK computes its own
 * arguments. */
static void need_args(PhaseLists *s, const KernelInstr *instr)
{
    const Kernel *k = s->c->k;
    if (instr->code == KERNEL_REDUCE || instr->code == KERNEL_ONLINE)
        return;
    for (int a = 0; a < instr->nargs; a++)
        if (instr->code == KERNEL_PICK)
            need_args(s, &k->instr[instr->arg[a]]);
        else
            need(s, instr->arg[a]);
}

static void need(PhaseLists *s, int i)
{
    CudaPlan *c = s->c;
    const KernelInstr *instr = &c->k->instr[i];
    if (instr->code == KERNEL_CONST || s->listed[i] == s->number + 1)
        return;
    if (!is_element(s, i)) {
        s->row[i] = true;
        s->listed[i] = s->number + 1;
        need_args(s, instr);
        return;
    }
    s->listed[i] = s->number + 1;
    bool earlier = s->first[i] && s->first[i] <= s->number;
    if (earlier && !s->streamed && !c->on_chip[i])
        c->on_chip[i] = is_worth_keeping(s, i);
    bool kept = earlier && c->on_chip[i];
    for (int a = 0; a < instr->nargs && !kept; a++)
        need(s, instr->arg[a]);
    if (!s->first[i])
        s->first[i] = s->number + 1;
    s->phase->element[s->phase->nelement++] = (KernelStep){.instr = i, .reused = kept, .buffer = -1};
}

static void list_phase(PhaseLists *s, int number)
{
    const Kernel *k = s->c->k;
    s->number = number;
    s->phase = &s->c->phase[number];
    *s->phase =
        (KernelPhase){.element = NEW_ARRAY(s->c->p->arena, KernelStep, k->ninstrs + 1),
                    .row = NEW_ARRAY(s->c->p->arena, int, k->ninstrs + 1)};
    for (int i = 0; i < k->ninstrs; i++) {
        if (s->early[i] != number)
            continue;
        s->first[i] = number + 1;
        s->phase->element[s->phase->nelement++] =
            (KernelStep){.instr = i, .early = true, .buffer = -1};
    }
    for (int r = 0; r < k->nroots; r++) {
        const KernelRoot *root = &k->root[r];
        if (root->epilogue || root->phase != number)
            continue;
        s->phase->loop |= root->element;
        s->phase->reductions += root->kind == ROOT_REDUCE;
        need(s, root->instr);
    }
}

static bool reduces(const KernelPhase *phase)
{
    return phase->loop && phase->reductions;
}

/* Finds the vectors that can be read before the reductions of earlier phases. */
static void find_early(PhaseLists *s)
{
    CudaPlan *c = s->c;
    for (int p = 1; p < c->nphases; p++)
        for (int i = 0; i < c->phase[p].nelement; i++) {
            const KernelStep *step = &c->phase[p].element[i];
            const KernelInstr *instr = &c->k->instr[step->instr];
            const KernelBuffer *b = &c->k->buffer[instr->buffer];
            if (step->reused || instr->code != KERNEL_LOAD ||
                !reduces(&c->phase[p - 1]) ||
                !differs_by_row(c, instr->axes) || !cuda_is_vector(c, b) ||
                (cuda_is_interleaved(c, b) && dtype_size(b->dtype) != 2))
                continue;
            int first = p - 1;
            while (first > 0 && reduces(&c->phase[first - 1]))
                first--;
            s->early[step->instr] = first;
            c->on_chip[step->instr] = true;
        }
}

static void list_phases(PhaseLists *s)
{
    const Kernel *k = s->c->k;
    Arena *a = s->c->p->arena;
    s->first = NEW_ARRAY(a, int, k->ninstrs + 1);
    s->listed = NEW_ARRAY(a, int, k->ninstrs + 1);
    s->row = NEW_ARRAY(a, bool, k->ninstrs + 1);
    for (int p = 0; p < s->c->nphases; p++)
        list_phase(s, p);
}

void cuda_plan_phases(CudaPlan *c, CudaKeeping keeping)
{
    const Kernel *k = c->k;
    PhaseLists s = {.c = c, .streamed = keeping == CUDA_KEEP_NOTHING};
    s.early = NEW_ARRAY(c->p->arena, int, k->ninstrs + 1);
    for (int i = 0; i < k->ninstrs; i++)
        s.early[i] = -1;
    c->phase = NEW_ARRAY(c->p->arena, KernelPhase, c->nphases + 1);
    c->on_chip = NEW_ARRAY(c->p->arena, bool, k->ninstrs + 1);
    c->on_chip_at = NEW_ARRAY(c->p->arena, int64_t, k->ninstrs + 1);
    if (!s.streamed)
        list_phases(&s); /* the first call chooses on_chip, the second lists the
                            steps with it */
    if (keeping == CUDA_READ_EARLY)
        find_early(&s);
    list_phases(&s);
    for (int p = 0; p < c->nphases; p++)
        for (int i = 0; i < k->phase[p].nrow; i++)
            if (s.row[k->phase[p].row[i]])
                c->phase[p].row[c->phase[p].nrow++] = k->phase[p].row[i];
}
