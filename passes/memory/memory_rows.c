/* memory_rows.c: finds how many rows of a stack each coordinate of a pipeline uses.
 *
 * before   block "layers.w" of f32[8/pp x 64]: 1280 bytes, the five rows of the
 *          coordinate that has the most
 * after    with the cut [0, 5, 8], coordinate 1 uses 768 bytes, the first three rows
 *
 * That holds if the block has nothing else, the slices of the stack are read and written
 * by loops over the stage's rows, and each op that accesses the whole stack accesses
 * only the rank's rows (op_follows_rows).
 */
#include "ir/plan/pipeline.h"
#include "passes/side_program.h"
#include "passes/memory/memory.h"

typedef struct Rows {
    Memory *m;
    int *cut;       /* by block: that of its stacks; 0: none yet */
    int64_t *bytes; /* by block: of the most rows */
    bool *other;    /* by block: there are other accesses */
} Rows;

static bool is_whole(const Value *v)
{
    return type_cut(&v->type) != 0 && v->address->nstrides == 0;
}

/* The loop over a stage's rows that makes or takes slices at the address; NULL. */
static const Op *slicing_loop(const Address *at)
{
    const Op *loop = NULL;
    for (int i = 0; i < at->nstrides; i++) {
        if (at->loop[i]->staged)
            return NULL;
        if (at->loop[i]->cut)
            loop = at->loop[i];
    }
    return loop;
}

static void add_stack(Rows *r, const Value *v)
{
    const Mesh *mesh = &r->m->p->mesh;
    const Address *at = v->address;
    int b = at->block, cut = type_cut(&v->type);
    int64_t bytes = at->row ? type_local_layers(&v->type, mesh) * at->row
                            : type_local_bytes(&v->type, mesh);
    r->other[b] |= r->bytes[b] && (r->bytes[b] != bytes || r->cut[b] != cut);
    r->cut[b] = cut;
    r->bytes[b] = bytes;
}

static void add_value(Rows *r, const Value *v)
{
    if (!v->address || v->address->block < 0)
        return;
    if (is_whole(v))
        add_stack(r, v);
    else if (!slicing_loop(v->address))
        r->other[v->address->block] = true;
}

static void add_access(Rows *r, const Op *op, const Value *v)
{
    if (v->address && v->address->block >= 0 && is_whole(v))
        r->other[v->address->block] |= !op_follows_rows(op);
}

static void add_region(Rows *r, const Region *region)
{
    for (int i = 0; i < region->nargs; i++)
        add_value(r, region->arg[i]);
    for (const Op *op = region->first; op; op = op->next) {
        for (int i = 0; i < op->nargs; i++)
            add_access(r, op, op->arg[i]);
        for (int i = 0; i < op->nouts; i++) {
            add_value(r, op->out[i]);
            add_access(r, op, op->out[i]);
        }
        if (op->workspace >= 0)
            r->other[op->workspace] = true;
        if (op->kind == OP_loop)
            add_region(r, op->body);
    }
}

/* A side program reads parameters in the blocks of the training step. */
static void add_side(Rows *r, const Program *f)
{
    for (const Op *op = NULL; (op = ir_next(f->step, op));)
        for (int i = 0; i < op->nargs; i++) {
            const Op *from = op->arg[i]->def;
            const Param *of = from && from->kind == OP_param
                                  ? side_param(f, &f->param.at[attr_param(from)])
                                  : NULL;
            if (of)
                r->other[of - r->m->p->param.at] |= !op_follows_rows(op);
        }
}

static void set_block(Rows *r, int block)
{
    const Program *p = r->m->p;
    Block *b = &r->m->block.at[block];
    int n = pipeline_ranks(p), cut = r->cut[block];
    if (!cut || r->other[block] || b->on || b->host)
        return;
    int64_t *on = NEW_ARRAY(p->arena, int64_t, n);
    int64_t row = r->bytes[block] / cut_most(&p->mesh, cut, pipeline_axis(p));
    bool equal = true;
    for (int c = 0; c < n; c++) {
        on[c] = memory_align(r->m, rank_rows(p, cut, c) * row);
        equal &= on[c] == on[0];
    }
    b->on = equal ? NULL : on;
}

void memory_limit_rows(Memory *m)
{
    Arena *a = m->p->arena;
    int n = m->block.n;
    Rows r = {m, NEW_ARRAY(a, int, n), NEW_ARRAY(a, int64_t, n),
              NEW_ARRAY(a, bool, n)};
    if (pipeline_axis(m->p) < 0)
        return;
    add_region(&r, m->p->step);
    for (int k = 0; k < PURPOSES; k++)
        if (m->p->side[k])
            add_side(&r, m->p->side[k]);
    for (int i = 0; i < n; i++)
        if (!m->block.at[i].training)
            set_block(&r, i);
        else
            m->block.at[i].on =
                m->p->training->memory->block[m->block.at[i].training - 1].on;
}
