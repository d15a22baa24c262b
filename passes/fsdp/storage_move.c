/* storage_move.c: makes one collective of a group of moves; see storage.h. */
#include "passes/fsdp/storage.h"

Type storage_type(Type t, uint32_t axes, AxisKind kind)
{
    for (int a = 0; a < MAX_AXES; a++)
        if (axes >> a & 1)
            t.place.ax[a] = (AxisPlace){.kind = (uint8_t)kind};
    return t;
}

bool storage_is_padded(const Program *p, const Type *flat, uint32_t axes)
{
    Type whole = storage_type(*flat, axes, AX_R);
    return type_flat_run(flat, &p->mesh) * mesh_group(&p->mesh, axes) !=
           type_flat_run(&whole, &p->mesh);
}

Op *storage_emit(Storage *s, Move *const *move, int n, Op *before,
                 const Attr *attr, const char *why)
{
    Program *p = s->p;
    const Move *first = move[0];
    Value **from = NEW_ARRAY(p->arena, Value *, n);
    Value **to = NEW_ARRAY(p->arena, Value *, n);
    for (int i = 0; i < n; i++) {
        from[i] = move[i]->from;
        to[i] = move[i]->to;
        move[i]->done = true;
    }
    Build b = {.p = p, .region = first->region, .phase = first->phase,
               .before = before, .loc = first->loc, .path = ""};
    Op *op = ir_op_typed(&b, first->kind, 0, NULL, attr, 0, NULL, NULL);
    ir_set_members(op, n, from, to);
    op->why = (Why){.text = arena_printf(p->arena, "%s", why),
                    .loc = first->loc,
                    .origin = first->kind == OP_all_gather ? ORIGIN_UNIT
                                                           : ORIGIN_GRADIENT};
    return op;
}
