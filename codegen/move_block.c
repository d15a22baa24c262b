/* move_block.c: computes the sizes of the strided blocks that a collective
 * moves, from the types of its operand and result (example: move_block.h), and
 * the bytes of its staging buffer. */
#include "codegen/move_block.h"

#include "runtime/cuda/core/rt_staging.h"

int64_t move_product(const Program *p, const Type *t, int first, int last)
{
    int64_t n = 1;
    for (int d = first; d < last; d++)
        n *= type_local_dim(t, &p->mesh, d);
    return n;
}

/* The dim of a sharded value that is split over these axes; -1: it is flat. */
static int split_dim(const Type *t, uint32_t axes)
{
    for (int a = 0; a < MAX_AXES; a++)
        if (axes & 1u << a && t->place.ax[a].kind == AX_S)
            return t->place.ax[a].dim;
    return -1;
}

MoveBlock move_block_of(const Program *p, const Type *part, const Type *whole,
                        uint32_t axes)
{
    int d = split_dim(part, axes);
    int64_t stack = type_local_layers(part, &p->mesh);
    if (d >= 0)
        return (MoveBlock){.outer = stack * move_product(p, part, 0, d),
                           .inner = move_product(p, part, d, part->ndim),
                           .zigzag = (axes & p->mesh.zigzag) != 0};
    int64_t run = type_flat_run(part, &p->mesh);
    int64_t elements = type_local_elements(whole, &p->mesh) / stack;
    MoveBlock b = {.outer = stack, .inner = run};
    if (run * mesh_group(&p->mesh, axes) != elements)
        b.valid = elements; /* the last runs are padded */
    return b;
}

/* The block for parc_all_to_all: S(from) becomes S(to). */
static MoveBlock swap_block(const Program *p, const Type *src, const Type *dst,
                            uint32_t axes)
{
    int from = split_dim(src, axes), to = split_dim(dst, axes);
    int64_t stack = type_local_layers(src, &p->mesh);
    if (to < from)
        return (MoveBlock){.outer = stack * move_product(p, src, 0, to),
                           .middle = move_product(p, dst, to, from),
                           .inner = move_product(p, src, from, src->ndim)};
    return (MoveBlock){.outer = stack * move_product(p, src, 0, from),
                       .middle = move_product(p, src, from, to),
                       .inner = move_product(p, dst, to, dst->ndim), .minor = true};
}

MoveBlock move_block(const Program *p, const Op *op, int i)
{
    const Type *from = &op->arg[i]->type, *to = &op->out[i]->type;
    uint32_t axes = attr_axes(op);
    switch ((int)op->kind) {
    case OP_all_gather:
        return move_block_of(p, from, to, axes);
    case OP_reduce_scatter:
        return move_block_of(p, to, from, axes);
    case OP_all_to_all:
        return swap_block(p, from, to, axes);
    }
    return (MoveBlock){.outer = 1,
                       .inner = type_local_elements(from, &p->mesh)};
}

int64_t move_staging(const Program *p, const Op *op)
{
    int64_t most = 0, all = 0;
    int64_t ranks = mesh_group(&p->mesh, attr_axes(op));
    for (int i = 0; i < op->nargs; i++) {
        MoveBlock b = move_block(p, op, i);
        int64_t row = b.inner * dtype_size(op->arg[i]->type.dtype);
        int64_t bytes =
            op->kind == OP_all_reduce ? 0
            : op->kind == OP_all_to_all
                ? rt_staging_swap(ranks, b.outer, b.middle, row)
                : rt_staging_rows(ranks, b.outer, row, b.zigzag);
        most = bytes > most ? bytes : most;
        all += bytes;
    }
    return op->kind == OP_all_to_all ? all : most; /* whose messages are one group */
}
