/* value_numbers.c: finds equal values of two programs, by value numbering.
 *
 * The number of a value identifies the op that computes it, the op's attributes
 * and the numbers of its operands. Two ops with the same text have the same
 * number:
 *
 *   training step   %q, %m = fused %x { … %s = exp %x  %y = mul %s, %x … }
 *   evaluation      %v = fused %w { … %t = exp %w  %u = mul %t, %w … }
 *   numbers         x, w: 1 "input tokens …"    s, t: 2 "exp 1 …"
 *                   y, u, q, v: 3 "mul 2 1 …"
 *
 * A value that kernels exchange has the number that it has inside of them, so
 * that the programs may be divided into kernels differently. Copies and
 * transfers have their operand's number. A loop of the second program is paired
 * with one of the first with the same iterations and carries that start equal;
 * the carries get the same numbers, and the loops agree if the next values of
 * these carries have the same numbers too. Where several carries start equal, such
 * as sums that start with 0, other pairs of them are tried.
 */
#include <stdint.h>
#include <string.h>

#include "passes/forward/forward.h"

/* A loop of the first program. */
typedef struct PairedLoop {
    const Op *op;
    int parent;        /* the loop around it; -1: none */
    bool paired;       /* a loop of the second program is equal */
    int *start, *next; /* by carry: the number of its start, of its yield */
} PairedLoop;

typedef struct Numbering {
    const Program *p;
    bool second;       /* p is the second program */
    TextMap known;     /* texts of values; TextEntry.value is the number */
    int n;
    int *of;           /* by value id of p */
    VEC(PairedLoop) loop;
    int inside;        /* the loop around the ops; -1: none */
    bool differs;
} Numbering;

static int number_of(Numbering *s, const char *text)
{
    TextEntry *e = text_map_find(&s->known, text);
    if (!e) {
        e = text_map_add(&s->known, text);
        e->value = (void *)(intptr_t)++s->n;
    }
    return (int)(intptr_t)e->value;
}

/* ---- ops ----------------------------------------------------------------- */

/* "mul 2 1 : f32[8, 64] 0" */
static const char *result_text(const Numbering *s, const Op *op, int result)
{
    Out o;
    out_init(&o, s->p->arena);
    out(&o, "%s", op_info(op->kind)->name);
    const AttrName *name = op_info(op->kind)->attr;
    for (int i = 0; name[i]; i++) {
        if (name[i] == ATTR_unit || name[i] == ATTR_prefetch)
            continue; /* they do not change the value */
        out(&o, " ");
        ir_print_attr(&o, s->p, attr_type_of(name[i]), &op->attr[i]);
    }
    bool grouped = op_is_conversion(op->kind);
    for (int i = 0; i < op->nargs; i++)
        if (!grouped || i == result)
            out(&o, " %%%d", s->of[op->arg[i]->id]);
    out(&o, " : %s %d",
        type_text(s->p->arena, &op->out[result]->type, &s->p->mesh),
        grouped ? 0 : result);
    return o.text;
}

static void number_region(Numbering *s, const Region *r);

static void number_fused(Numbering *s, const Op *op)
{
    const Region *body = op->body;
    for (int i = 0; i < body->nargs; i++)
        s->of[body->arg[i]->id] = s->of[op->arg[i]->id];
    number_region(s, body);
    for (int i = 0; i < op->nouts; i++)
        s->of[op->out[i]->id] = s->of[body->yield[i]->id];
}

/* ---- loops --------------------------------------------------------------- */

/* Pairs each carry of `op` with the first one of `l`, from carry `from` on and then from
 * the first, that starts with the same number and is not paired yet: carry[i]. */
static bool pair_carries(const Numbering *s, const Op *op, const PairedLoop *l, int from,
                         int *carry)
{
    int n = l->op->ncarry;
    bool *used = NEW_ARRAY(s->p->arena, bool, n + 1);
    for (int i = 0; i < op->ncarry; i++) {
        int k = -1;
        for (int at = 0; at < n && k < 0; at++) {
            int next = (from + at) % n;
            if (!used[next] && l->start[next] == s->of[op->arg[i]->id] && l->next[next])
                k = next;
        }
        if (k < 0)
            return false;
        carry[i] = k;
        used[k] = true;
    }
    return true;
}

/* The loop of the first program that `op` is paired with; -1: none. */
static int paired_loop(Numbering *s, const Op *op, int *carry)
{
    for (int k = 0; k < s->loop.n; k++) {
        PairedLoop *l = &s->loop.at[k];
        if (l->paired || l->parent != s->inside ||
            loop_trips(l->op) != loop_trips(op) ||
            attr_reverse(l->op) != attr_reverse(op) ||
            !pair_carries(s, op, l, 0, carry))
            continue;
        l->paired = true;
        return k;
    }
    return -1;
}

static int add_loop(Numbering *s, const Op *op, int *carry)
{
    Arena *a = s->p->arena;
    PairedLoop l = {.op = op, .parent = s->inside,
                    .start = NEW_ARRAY(a, int, op->ncarry + 1),
                    .next = NEW_ARRAY(a, int, op->ncarry + 1)};
    for (int i = 0; i < op->ncarry; i++) {
        l.start[i] = s->of[op->arg[i]->id];
        carry[i] = i;
    }
    vec_push(a, &s->loop, l);
    return s->loop.n - 1;
}

static int loop_number(Numbering *s, const char *what, int loop, int of)
{
    return number_of(s, arena_printf(s->p->arena, "%s %d %d", what, loop, of));
}

/* Numbers the body of a loop that is, or is paired with, loop k of the first program. */
static void number_body(Numbering *s, const Op *op, int k, const int *carry)
{
    const Region *body = op->body;
    for (int i = 0; i < op->nargs; i++) {
        int outside = s->of[op->arg[i]->id];
        s->of[body->arg[i]->id] =
            i < op->ncarry           ? loop_number(s, "carry", k, carry[i])
            : loop_is_stack(op, i) ? loop_number(s, "slice", k, outside)
                                     : outside;
    }
    int around = s->inside;
    s->inside = k;
    number_region(s, body);
    s->inside = around;
    for (int i = 0; i < op->nouts; i++) {
        int yield = s->of[body->yield[i]->id];
        bool is_carry = i < op->ncarry;
        if (is_carry && !s->second)
            s->loop.at[k].next[i] = yield;
        else if (is_carry)
            s->differs |= s->loop.at[k].next[carry[i]] != yield;
        s->of[op->out[i]->id] =
            is_carry ? loop_number(s, "last", k, carry[i])
            : yield  ? loop_number(s, "stack", k, yield)
                     : 0;
    }
}

/* Loops inside of loop k of the first program are not paired. */
static void forget_pairs(Numbering *s, int k)
{
    for (int i = k + 1; i < s->loop.n; i++)
        if (s->loop.at[i].parent == k) {
            s->loop.at[i].paired = false;
            forget_pairs(s, i);
        }
}

/* Numbers the body again with other pairs of carries, until it agrees. */
static void pair_again(Numbering *s, const Op *op, int k, int *carry)
{
    const PairedLoop *l = &s->loop.at[k];
    size_t size = (size_t)op->ncarry * sizeof *carry;
    int *last = NEW_ARRAY(s->p->arena, int, op->ncarry + 1);
    for (int from = 1; from < l->op->ncarry && s->differs; from++) {
        memcpy(last, carry, size);
        if (!pair_carries(s, op, l, from, carry) || memcmp(last, carry, size) == 0)
            continue;
        s->differs = false;
        forget_pairs(s, k);
        number_body(s, op, k, carry);
    }
}

static void number_loop(Numbering *s, const Op *op)
{
    int *carry = NEW_ARRAY(s->p->arena, int, op->ncarry + 1);
    int k = s->second ? paired_loop(s, op, carry) : add_loop(s, op, carry);
    s->differs |= k < 0;
    if (k < 0)
        return;
    number_body(s, op, k, carry);
    if (s->second && s->differs)
        pair_again(s, op, k, carry);
}

/* ---- programs ------------------------------------------------------------ */

static void number_op(Numbering *s, const Op *op)
{
    if (op->kind == OP_loop) {
        number_loop(s, op);
    } else if (op->kind == OP_fused) {
        number_fused(s, op);
    } else if (op->kind == OP_copy || op->kind == OP_fetch ||
               op->kind == OP_store) {
        s->of[op->out[0]->id] = s->of[op->arg[0]->id];
    } else {
        for (int i = 0; i < op->nouts; i++)
            s->of[op->out[i]->id] = number_of(s, result_text(s, op, i));
    }
}

/* Values of the backward pass and the optimizer have no number. */
static void number_region(Numbering *s, const Region *r)
{
    for (const Op *op = r->first; op && !s->differs; op = op->next)
        if (op->phase <= PH_FORWARD)
            number_op(s, op);
}

bool value_numbers(const Program *first, const Program *second,
                   ValueNumbers *numbers)
{
    Numbering s = {.p = first, .known.arena = first->arena, .inside = -1};
    s.of = NEW_ARRAY(first->arena, int, first->nvalues);
    number_region(&s, first->step);
    numbers->first = s.of;
    s.p = second;
    s.second = true;
    s.of = NEW_ARRAY(second->arena, int, second->nvalues);
    number_region(&s, second->step);
    numbers->second = s.of;
    numbers->n = s.n;
    return !s.differs;
}
