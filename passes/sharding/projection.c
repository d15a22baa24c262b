/* projection.c: finds the projections that make queries, keys and values; see projection.h. */
#include "passes/sharding/projection.h"

#include "ir/analysis/producer.h"
#include "ir/path.h"
#include "ir/plan/styles.h"

int projection_param(const Value *v)
{
    for (;;) {
        v = value_outside(v);
        if (!v)
            return -1;
        const Op *op = v->def;
        if (op->kind == OP_einsum) {
            int i = value_param(op->arg[1]);
            return i >= 0 ? i : value_param(op->arg[0]);
        }
        bool on = op_is_elementwise(op->kind) || op->kind == OP_reshape ||
                  op->kind == OP_rotary || op->kind == OP_transpose;
        if (!on || op->nargs == 0)
            return -1;
        v = op->arg[0];
    }
}

const Style *projection_style(const Program *p, int param, int axis)
{
    const Style *s =
        param < 0 ? NULL : style_of_path(p, path_parent(p->arena, p->param.at[param].name), axis);
    return s && s->kind == STYLE_COLWISE ? s : NULL;
}
