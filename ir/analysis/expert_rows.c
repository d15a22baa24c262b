/* expert_rows.c: finds the values that hold rows of experts; see expert_rows.h. */
#include "ir/analysis/expert_rows.h"

enum { ROW_DIMS = 4 }; /* g, h, x, r */

static bool makes_rows(OpKind kind)
{
    return kind == OP_gather_rows || kind == OP_gather_pairs || kind == OP_grouped_matmul ||
           kind == OP_grouped_matmul_grad_rows;
}

static bool ends_rows(OpKind kind)
{
    return kind == OP_combine_rows || kind == OP_scatter_pairs ||
           kind == OP_grouped_matmul_grad_weight;
}

/* Whether v was not marked before. */
static bool mark(bool *rows, const Value *v)
{
    bool new = !rows[v->id];
    rows[v->id] = true;
    return new;
}

static bool mark_region(bool *rows, const Region *r);

/* Operands and yields of a body have the marks of arguments, carries and results. */
static bool mark_body(bool *rows, const Op *op)
{
    const Region *body = op->body;
    bool new = false;
    for (int i = 0; i < op->nargs && i < body->nargs; i++)
        new |= rows[op->arg[i]->id] && mark(rows, body->arg[i]);
    new |= mark_region(rows, body);
    for (int i = 0; i < body->nyields && i < op->nouts; i++) {
        if (!rows[body->yield[i]->id])
            continue;
        new |= mark(rows, op->out[i]);
        new |= op->kind == OP_loop && i < op->ncarry && mark(rows, body->arg[i]);
    }
    return new;
}

static bool mark_region(bool *rows, const Region *r)
{
    bool new = false;
    for (const Op *op = r->first; op; op = op->next) {
        if (op->body) {
            new |= mark_body(rows, op);
            continue;
        }
        bool has = makes_rows(op->kind) || (op_reads_any(op, rows) && !ends_rows(op->kind));
        for (int i = 0; i < op->nouts && has; i++)
            new |= mark(rows, op->out[i]);
    }
    return new;
}

bool *expert_rows_find(const Program *p)
{
    bool *rows = NEW_ARRAY(p->arena, bool, p->nvalues + 1);
    while (mark_region(rows, p->step))
        ;
    return rows;
}

static bool keeps_rows(const Type *rows, const Type *t)
{
    bool keeps = t->ndim >= ROW_DIMS;
    for (int d = 0; d < ROW_DIMS && keeps; d++)
        keeps = t->dim[d] == rows->dim[d];
    return keeps;
}

const Op *expert_rows_mixed(const Program *p)
{
    const bool *rows = expert_rows_find(p);
    for_ops(op, p->step)
        for (int i = 0; i < op->nargs && !op->body && !ends_rows(op->kind); i++)
            for (int k = 0; k < op->nouts && rows[op->arg[i]->id]; k++)
                if (!keeps_rows(&op->arg[i]->type, &op->out[k]->type))
                    return op;
    return NULL;
}
