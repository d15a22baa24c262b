/* kernel_online.c: rewrites a kernel so that one phase computes the maximum of
 * a row and the sums relative to it (online softmax: Milakov and Gimelshein,
 * "Online normalizer calculation for softmax", 2018).
 *
 *   phase 0   t0 = x                      r1 = max t0
 *   phase 1   t2 = t0 - r1, t3 = exp t2   r4 = sum t3
 *             t8 = onehot ? t2 : 0        r9 = sum t8
 *   phase 2   t0 - r1 …, recomputed       y
 *
 * becomes
 *
 *   phase 0   r12 = pick x                (x[label])
 *             t0 = x                      r1 = max t0
 *                                         r4 = online: sum exp(t0 - r1)
 *   phase 1   r9 = select(pick onehot, r12 - r1, 0)
 *             t0 - r1 …                   y
 *
 * The sum is rescaled for every new maximum: s' = s exp(m - m') + exp(x - m'),
 * and the sums of two threads are merged in the same way; the printers emit
 * this code. A sum of terms selected by or multiplied with a onehot has one
 * nonzero term, which is computed from the operands in the label's column;
 * values in other columns, including infinities, then have no effect.
 *
 * A phase is removed only if its whole loop can be moved, that is, each root is
 *
 *   sum exp(f - m), sum g * exp(f - m)    m = max f is computed in the previous
 *                                         phase, g in that phase or before
 *   sum select(v, exp(f - m), 0)          m = max select(v, f, the lowest number):
 *                                         padded columns (pass pad)
 *   sum of what a onehot selects          the columns are one contiguous axis
 *
 * An element is thus picked before the barrier after that phase, and before a
 * later phase writes in place. Each removed phase saves one read of the row if
 * every phase reads it from memory; a row that is kept in registers gains
 * nothing.
 */
#include "codegen/kernel/kernel.h"

#include <float.h>

typedef struct Online {
    const Program *p;
    Kernel *k;
    VEC(KernelInstr) instr;
    VEC(KernelRoot) root;
} Online;

/* ---- analysis of phases -------------------------------------------------- */

static bool is_element(const Kernel *k, int i)
{
    return kernel_is_element(k, k->instr[i].axes);
}

static bool is_op(const KernelInstr *instr, OpKind op)
{
    return instr->code == KERNEL_OP && instr->op == op;
}

static bool is_number(const KernelInstr *instr, double number)
{
    return instr->code == KERNEL_CONST && instr->number == number;
}

/* Whether a row's maximum is that of `from`: its operand, or what a mask leaves
 * of it, if there is one. The other columns have the lowest number, whose power
 * relative to the maximum is 0. */
static bool is_max_of(const Kernel *k, const KernelInstr *max, int from, int mask)
{
    const KernelInstr *masked = &k->instr[max->arg[0]];
    if (max->code != KERNEL_REDUCE || max->op != OP_max)
        return false;
    if (mask < 0)
        return max->arg[0] == from;
    return is_op(masked, OP_select) && masked->arg[0] == mask &&
           masked->arg[1] == from && is_number(&k->instr[masked->arg[2]], -FLT_MAX);
}

/* The maximum m if an instruction is exp(f - m) with m = max f, or
 * select(v, exp(f - m), 0) with m = max select(v, f, the lowest number); else
 * -1. */
static int max_of_power(const Kernel *k, int i)
{
    const KernelInstr *power = &k->instr[i];
    int mask = -1;
    if (is_op(power, OP_select) && is_number(&k->instr[power->arg[2]], 0)) {
        mask = power->arg[0];
        power = &k->instr[power->arg[1]];
    }
    if (!is_op(power, OP_exp))
        return -1;
    const KernelInstr *shifted = &k->instr[power->arg[0]];
    if (!is_op(shifted, OP_sub))
        return -1;
    const KernelInstr *max = &k->instr[shifted->arg[1]];
    return is_max_of(k, max, shifted->arg[0], mask) ? shifted->arg[1] : -1;
}

/* Whether a root sums exp(f - m), possibly times a factor; sets `to` to the
 * KERNEL_ONLINE instruction. */
static bool is_online(const Kernel *k, const KernelRoot *root, KernelInstr *to)
{
    const KernelInstr *term = &k->instr[root->instr];
    int power = root->instr, factor = -1;
    for (int a = 0; a < term->nargs; a++)
        if (is_op(term, OP_mul) && max_of_power(k, term->arg[a]) >= 0) {
            power = term->arg[a];
            factor = term->arg[!a];
        }
    int max = max_of_power(k, power);
    if (k->instr[root->target].op != OP_sum || max < 0 ||
        k->instr[max].phase != root->phase ||
        (factor >= 0 && k->instr[factor].phase >= root->phase))
        return false;
    to->code = KERNEL_ONLINE;
    to->nargs = factor < 0 ? 1 : 2;
    to->arg[0] = max;
    to->arg[1] = factor;
    return true;
}

/* The onehot over the columns that makes a term 0 in all other columns: a
 * factor of a product, or the condition of a select with 0; else -1. (A onehot
 * with a base belongs to a rank's part of the columns; a maximum over that is
 * partial and is combined elsewhere.) */
static int onehot_of(const Kernel *k, int i)
{
    const KernelInstr *instr = &k->instr[i];
    uint32_t columns = k->space.column;
    if (is_op(instr, OP_select) && is_number(&k->instr[instr->arg[2]], 0))
        return onehot_of(k, instr->arg[0]);
    if (is_op(instr, OP_mul)) {
        int found = onehot_of(k, instr->arg[0]);
        return found >= 0 ? found : onehot_of(k, instr->arg[1]);
    }
    if (instr->code != KERNEL_ONEHOT || instr->nargs > 1 ||
        (instr->axes & columns) != columns)
        return -1;
    for (int a = 0; a < k->space.naxes; a++)
        if (columns >> a & 1 && (columns != 1u << a || instr->stride[a] != 1))
            return -1;
    return i;
}

/* Whether a term can be computed for a single column: from instructions that
 * are not ops, and from values known before the phase. */
static bool is_pickable(const Kernel *k, int i, int phase)
{
    const KernelInstr *instr = &k->instr[i];
    if (!is_element(k, i))
        return true;
    if (instr->code != KERNEL_OP)
        return instr->code != KERNEL_ROTARY && instr->phase < phase;
    for (int a = 0; a < instr->nargs; a++)
        if (!is_pickable(k, instr->arg[a], phase))
            return false;
    return true;
}

static bool is_picked(const Kernel *k, const KernelRoot *root)
{
    return k->instr[root->target].op == OP_sum &&
           onehot_of(k, root->instr) >= 0 &&
           is_pickable(k, root->instr, root->phase);
}

/* Whether everything in a phase's loop can be moved to the previous phase. */
static bool can_go(const Kernel *k, int phase)
{
    bool any = false;
    for (int r = 0; r < k->nroots; r++) {
        const KernelRoot *root = &k->root[r];
        KernelInstr to;
        if (root->epilogue || !root->element || root->phase != phase)
            continue;
        if (root->kind != ROOT_REDUCE ||
            !(is_online(k, root, &to) || is_picked(k, root)))
            return false;
        any = true;
    }
    return any;
}

/* ---- rewriting ----------------------------------------------------------- */

static int push_instr(Online *o, KernelInstr instr)
{
    for (int a = 0; a < instr.nargs; a++)
        instr.axes |= o->instr.at[instr.arg[a]].axes & ~o->k->space.column;
    vec_push(o->p->arena, &o->instr, instr);
    return o->instr.n - 1;
}

static int add_const(Online *o, double number)
{
    return push_instr(
        o,
        (KernelInstr){.code = KERNEL_CONST, .dtype = DT_F32, .number = number});
}

static int add_pick(Online *o, int from, int onehot)
{
    const KernelInstr *of = &o->instr.at[from];
    return push_instr(o, (KernelInstr){.code = KERNEL_PICK,
                                       .source = of->source,
                                       .dtype = of->dtype,
                                       .nargs = 2,
                                       .arg = {from, onehot}});
}

/* A term's value in the onehot's column, as a row value. `row`: by instruction,
 * the row value already created; 0: none. */
static int in_column(Online *o, int i, int onehot, int *row)
{
    KernelInstr instr = o->instr.at[i];
    if (!is_element(o->k, i))
        return i;
    if (row[i])
        return row[i];
    if (i == onehot)
        return row[i] = add_const(o, 1);
    if (instr.code != KERNEL_OP)
        return row[i] = add_pick(o, i, onehot);
    for (int a = 0; a < instr.nargs; a++)
        instr.arg[a] = in_column(o, instr.arg[a], onehot, row);
    instr.axes = 0;
    return row[i] = push_instr(o, instr);
}

static void pick(Online *o, const KernelRoot *root)
{
    int onehot = onehot_of(o->k, root->instr);
    int *row = NEW_ARRAY(o->p->arena, int, o->k->ninstrs + 1);
    int there = add_pick(o, onehot, onehot);
    int value = in_column(o, root->instr, onehot, row);
    int none = add_const(o, 0);
    KernelInstr *sum = &o->instr.at[root->target];
    sum->code = KERNEL_OP;
    sum->op = OP_select;
    sum->nargs = 3;
    sum->arg[0] = there;
    sum->arg[1] = value;
    sum->arg[2] = none;
}

/* The first phase in which an instruction's value is available; arguments may
 * come after their users in the list. */
static int phase_of(Kernel *k, int i, bool *known)
{
    KernelInstr *instr = &k->instr[i];
    if (known[i] || instr->code == KERNEL_TOTAL)
        return instr->phase;
    known[i] = true;
    instr->phase = 0;
    for (int a = 0; a < instr->nargs; a++) {
        int phase = phase_of(k, instr->arg[a], known) +
                    (instr->code == KERNEL_REDUCE);
        if (phase > instr->phase)
            instr->phase = phase;
    }
    return instr->phase;
}

static void set_phases(Online *o)
{
    Kernel *k = o->k;
    bool *known = NEW_ARRAY(o->p->arena, bool, k->ninstrs + 1);
    for (int i = 0; i < k->ninstrs; i++)
        phase_of(k, i, known);
    for (int r = 0; r < k->nroots; r++) {
        KernelRoot *root = &k->root[r];
        if (root->kind == ROOT_REDUCE)
            root->phase = k->instr[root->target].phase - 1;
        else if (!root->epilogue)
            root->phase = k->instr[root->instr].phase;
    }
    kernel_order(o->p, k, false);
}

/* The term that the maximum's loop adds to a sum. */
static int in_loop(const Online *o, const KernelInstr *sum)
{
    return sum->nargs > 1 ? sum->arg[1] : o->instr.at[sum->arg[0]].arg[0];
}

/* Removes a phase: moves its online sums to the loop of the maximum, and
 * replaces its other sums by picked elements. */
static void go(Online *o, int phase)
{
    Kernel *k = o->k;
    o->instr.n = o->root.n = 0;
    for (int i = 0; i < k->ninstrs; i++)
        vec_push(o->p->arena, &o->instr, k->instr[i]);
    for (int r = 0; r < k->nroots; r++) {
        KernelRoot root = k->root[r];
        bool goes = !root.epilogue && root.element && root.phase == phase;
        if (goes && !is_online(k, &root, &o->instr.at[root.target])) {
            pick(o, &root);
            continue;
        }
        if (goes)
            root.instr = in_loop(o, &o->instr.at[root.target]);
        vec_push(o->p->arena, &o->root, root);
    }
    k->ninstrs = o->instr.n;
    k->instr = o->instr.at;
    k->nroots = o->root.n;
    k->root = o->root.at;
    o->instr.at = NULL;
    o->root.at = NULL;
    o->instr.capacity = o->root.capacity = 0;
    set_phases(o);
}

bool kernel_online(const Program *p, Kernel *k)
{
    Online o = {.p = p, .k = k};
    bool any = false;
    if (k->space.pair >= 0 || k->space.block >= 0)
        return false;
    for (int phase = 1; phase < k->nphases; phase++)
        if (can_go(k, phase)) {
            go(&o, phase--);
            any = true;
        }
    return any;
}
