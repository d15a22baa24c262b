/* copy_engine.c: which collectives take no multiprocessors of a GPU; see copy_engine.h. */
#include "ir/analysis/copy_engine.h"

uint32_t copy_engine_axes(const Program *p)
{
    uint32_t all = (1u << (p->mesh.n - p->mesh.nloop)) - 1;
    bool windows = !p->plan.pipeline.axes;
    return p->train.copy_engines && windows ? all & ~mesh_between_nodes(&p->mesh) : 0;
}

bool op_uses_copy_engines(const Program *p, const Op *op)
{
    return op->kind == OP_all_gather && !(attr_axes(op) & ~copy_engine_axes(p));
}
