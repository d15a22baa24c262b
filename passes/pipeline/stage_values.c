/* stage_values.c: converts values between the stages of a pipeline.
 *
 * before   %w : f32[512, 64]@pp=0            read by stage 1
 *          %a : f32[]@pp=0, %b : f32[]@pp=1  added to a sum over all ranks
 * after    %w.2 = move{axes={pp}} %w : f32[512, 64]@pp=1
 *          %a.2 = mask_to_partial{axes={pp}} %a : f32[]+pp
 *          %b.2 = mask_to_partial{axes={pp}} %b : f32[]+pp
 *
 * A value that every rank has needs no conversion to be read by one stage. An op
 * runs where its operands are.
 */
#include "passes/pipeline/stages.h"

Known *stages_known(Stages *s, const Value *v)
{
    while ((uint32_t)s->known.n <= v->id)
        vec_push(s->p->arena, &s->known, ((Known){.stage = EVERYWHERE}));
    return &s->known.at[v->id];
}

AxisPlace stages_at(int stage)
{
    return stage == EVERYWHERE ? (AxisPlace){0}
                               : (AxisPlace){AX_AT, (uint8_t)stage, 0};
}

void stages_put(Stages *s, Value *v, int stage)
{
    v->type.place.ax[s->axis] = stages_at(stage);
    stages_known(s, v)->stage = stage;
    if (stage != EVERYWHERE)
        v->why[s->axis] =
            why_is(arena_printf(s->p->arena, "stage %d", stage),
                   s->p->plan.pipeline.loc);
}

void stages_put_at(Stages *s, Value *v, AxisPlace at)
{
    static const char *const words[] = {
        [AX_AT] = "the stage that runs the loop",
        [AX_HERE] = "the coordinate that runs the iteration",
        [AX_CUT] = "the layers of a coordinate's stages"};
    v->type.place.ax[s->axis] = at;
    if (axis_place_is_held(at))
        v->why[s->axis] = why_is(words[at.kind], s->p->plan.pipeline.loc);
}

/* v, or a copy that the stage has; NULL: there is none. */
static Value *find_copy(Stages *s, Value *v, int stage)
{
    const Known *k = stages_known(s, v);
    AxisPlace is = stages_place(s, v);
    if (is.kind == AX_R || (is.kind == AX_AT && is.dim == stage))
        return v;
    for (int i = 0; i < k->copy.n; i++)
        if (k->copy.at[i].stage == stage)
            return k->copy.at[i].value;
    return NULL;
}

bool stages_has(Stages *s, const Value *v, int stage)
{
    return find_copy(s, (Value *)v, stage) != NULL;
}

void stages_add_copy(Stages *s, const Value *v, Value *copy, int stage)
{
    stages_known(s, copy)->stage = stage;
    vec_push(s->p->arena, &stages_known(s, v)->copy, ((Copy){copy, stage}));
}

Value *stages_convert(Stages *s, OpKind kind, Value *v, AxisPlace to,
                      const char *why, Region *r, Op *before)
{
    Program *p = s->p;
    const Op *like = before ? before : r->owner;
    Build b = {.p = p, .region = r, .before = before, .phase = like->phase,
               .loc = like->loc, .path = like->path};
    Attr attr[MAX_ATTRS] = {{.i = 1u << s->axis}};
    Type t = v->type;
    t.place.ax[s->axis] = to;
    Op *op = ir_op_typed(&b, kind, 1, &v, attr, 1, &t, &v->name);
    op->why = why_is(why, p->plan.pipeline.loc);
    op->why.origin = ORIGIN_PIPELINE;
    for (int a = 0; a < p->mesh.n; a++)
        op->out[0]->why[a] = a == s->axis ? op->why : v->why[a];
    return op->out[0];
}

Value *stages_move(Stages *s, Value *v, int stage, Op *before)
{
    Value *copy = find_copy(s, v, stage);
    if (copy)
        return copy;
    if (stages_place(s, v).kind != AX_AT)
        v = stages_replicate(s, v, before);
    if (stages_place(s, v).kind == AX_R)
        return v;
    const char *why = arena_printf(s->p->arena, "stage %d needs what stage %d "
                                   "has", stage, stages_known(s, v)->stage);
    copy = stages_convert(s, OP_move, v, stages_at(stage), why,
                          before->region, before);
    stages_add_copy(s, v, copy, stage);
    return copy;
}

Value *stages_to(Stages *s, Value *v, AxisPlace at, Op *before)
{
    return stages_move(s, v, at.dim, before);
}

Value *stages_partial(Stages *s, Value *v, Op *before)
{
    if (stages_place(s, v).kind == AX_P)
        return v;
    return stages_convert(s, OP_mask_to_partial, v, (AxisPlace){AX_P, 0, 0},
                          "summed over all stages", before->region, before);
}

Value *stages_replicate(Stages *s, Value *v, Op *before)
{
    if (stages_place(s, v).kind == AX_R)
        return v;
    v = stages_partial(s, v, before);
    return stages_convert(s, OP_all_reduce, v, (AxisPlace){0},
                          "all stages need it", before->region, before);
}

/* ---- where an op runs ---------------------------------------------------- */

static bool has_all(Stages *s, const Op *op, int stage)
{
    bool all = true;
    for (int i = 0; i < op->nargs && all; i++)
        all = stages_has(s, op->arg[i], stage);
    return all;
}

/* A backward op runs on the last stage that has all operands, else on the first
 * that has one: where its forward op has run. */
int stages_choose(Stages *s, const Op *op)
{
    int first = EVERYWHERE;
    for (int i = 0; i < op->nargs; i++) {
        int stage = stages_known(s, op->arg[i])->stage;
        if (stages_held(s, op->arg[i]) && (first == EVERYWHERE || stage < first))
            first = stage;
    }
    if (first == EVERYWHERE)
        return EVERYWHERE;
    if (op->phase == PH_FORWARD && op->id < s->nops &&
        s->stage_of[op->id] != EVERYWHERE)
        return s->stage_of[op->id];
    for (int stage = s->nstages - 1; stage >= 0; stage--)
        if (has_all(s, op, stage))
            return stage;
    return first;
}
