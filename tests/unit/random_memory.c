/* random_memory.c: checks that the memory plan keeps every value until its
 * last read.
 *
 * The interpreter runs next to a copy of each rank's arena. The result of an op
 * is stored at its planned address; workspace is filled with NaN while an op
 * runs; and the operands of an op must be stored as they were computed. One
 * double stands for two bytes of the arena: an element fills as many doubles as
 * it has pairs of bytes.
 */
#include "tests/unit/random.h"

#include <math.h>
#include <string.h>

#include "ir/analysis/alias.h"
#include "ir/plan/pipeline.h"
#include "passes/memory/memory.h"

typedef struct Shadow {
    const Program *p;
    const MemoryPlan *plan;
    Arena *arena;
    int64_t ranks, words; /* number of ranks, words of one rank's arena */
    int stages, apart;    /* number of stages, and from one of a rank to its next; without
                           * a pipeline 1 */
    double *at;
    int64_t *entered;     /* by op id of a loop with a cut: the iteration in which
                           * carries were last received, plus 1 */
} Shadow;

enum { WORD = 2 };

/* The stage that runs op in this iteration; -1: all stages do. */
static int running_stage(const Shadow *s, const Interp *in, const Op *op)
{
    const Op *loop = op_loop(op);
    while (loop && !loop->cut)
        loop = op_loop(loop);
    return loop ? cut_stage(&s->p->mesh, loop->cut, interp_layer(in, loop))
                : op_stage(s->p, op);
}

/* Whether `stage`, one of the rank's, accesses its buffer of v, in the iteration of a
 * loop that is cut into stages, for an op that stage `running` runs; of a stack that is
 * cut that of `layer`. */
static bool is_accessed(const Shadow *s, const Value *v, int running, int64_t layer, int stage)
{
    int axis = pipeline_axis(s->p);
    if (axis < 0)
        return true;
    AxisPlace at = v->type.place.ax[axis];
    int of = at.kind == AX_AT    ? at.dim
             : at.kind == AX_CUT ? cut_stage(&s->p->mesh, at.order, layer)
                                 : running;
    return of < 0 || of == stage;
}

/* The number among the rank's layers, or in a buffer of one stage among those of the
 * stage, of one that the interpreter numbers among those of all stages. */
static int64_t own_layer(const Shadow *s, int cut, int64_t layer, bool rotates)
{
    if (!cut)
        return layer;
    int stage = cut_stage(&s->p->mesh, cut, layer);
    layer -= s->p->mesh.cut[cut - 1].begin[stage];
    return rotates ? layer : layer + stage_row(s->p, cut, stage);
}

/* The words of a layer of the outermost stack dim, or of the next. */
static int64_t layer_words(const Shadow *s, const Value *v, bool outermost)
{
    int64_t words = type_flat_run(&v->type, &s->p->mesh) *
                    dtype_size(v->type.dtype) / WORD;
    for (int d = 1; d < v->type.nstack && outermost; d++)
        words *= v->type.stack[d];
    return words;
}

/* The offset of word i of a value from its beginning: layers of a resident
 * parameter have gaps between them. */
static int64_t word_of(const Shadow *s, const Value *v, int64_t i)
{
    const Address *at = value_address((Value *)v);
    int cut = type_cut(&v->type);
    if (cut) {
        int64_t words = layer_words(s, v, true), layer = i / words;
        i += (own_layer(s, cut, layer, at->rotation > 0) - layer) * words;
    }
    int64_t layer = layer_words(s, v, false);
    return at->row ? i / layer * (at->row / WORD) + i % layer : i;
}

/* The first of the ranks that differ from `rank` only on axis a. */
static int64_t first_along(const Mesh *m, int64_t rank, int a)
{
    return rank - mesh_coord(m, rank, a) * mesh_step(m, a);
}

/* The address of word i of a value in the rank's arena, in the buffer of one of its
 * stages; NULL: no memory, or that stage does not access it for an op that stage `running`
 * runs. */
static double *address(const Shadow *s, const Interp *in, const Value *v, int64_t i,
                       int64_t rank, int stage, int running)
{
    v = value_root((Value *)v);
    const Address *from = value_address((Value *)v);
    int64_t row = type_cut(&v->type) ? i / layer_words(s, v, true) : 0;
    if (from->block < 0 || !is_accessed(s, v, running, row, stage))
        return NULL;
    const Block *b = &s->plan->block[from->block];
    int64_t offset = b->offset, owner = rank, index = 0;
    for (int k = 0; k < from->nstrides; k++) {
        const Op *loop = from->loop[k];
        int64_t layer = own_layer(s, loop->cut, interp_layer(in, loop),
                                  from->rotation > 0);
        if (loop->staged && from->modulo[k] > 0)
            layer = stage_buffer(s->p, from, stage, layer);
        else if (from->modulo[k] > 0)
            layer %= from->modulo[k];
        offset += layer * from->stride[k];
    }
    for (int a = 0; a < s->p->mesh.n; a++)
        if (from->cut >> a & 1)
            index = index * s->p->mesh.size[a] +
                    mesh_coord(&s->p->mesh, rank, a);
    offset += index * from->run;
    /* Shared memory is part of the arena of the group's first rank. */
    for (int a = 0; a < s->p->mesh.n; a++)
        if (b->shared >> a & 1)
            owner = first_along(&s->p->mesh, owner, a);
    return s->at + owner * s->words + offset / WORD + word_of(s, v, i);
}

static int first_stage(const Shadow *s, int64_t rank)
{
    int axis = pipeline_axis(s->p);
    return axis < 0 ? 0 : (int)mesh_coord(&s->p->mesh, rank, axis);
}

static int words_of(const Value *v)
{
    return dtype_size(v->type.dtype) / WORD;
}

/* Stores the value, which op makes, in the buffers of all stages that run op. */
static void store(const Shadow *s, const Interp *in, const Op *op, const Value *v)
{
    int64_t n;
    int words = words_of(v), running = running_stage(s, in, op);
    const double *parts = interp_parts(in, v, &n);
    for (int64_t rank = 0; rank < s->ranks && parts; rank++)
        for (int stage = first_stage(s, rank); stage < s->stages; stage += s->apart)
            for (int64_t i = 0; i < n * words; i++) {
                double x = parts[rank * n + i / words];
                double *to = isnan(x) ? NULL : address(s, in, v, i, rank, stage, running);
                if (to) /* else the rank does not have it */
                    *to = x;
            }
}

/* Checks that the memory at the address of `where` holds `v` as computed, for a rank's
 * stage that runs op. */
static const char *check_on_stage(const Shadow *s, const Interp *in, const Op *op,
                                  const Value *v, const Value *where, int64_t rank,
                                  int stage)
{
    int64_t n;
    int words = words_of(v), running = running_stage(s, in, op);
    const double *parts = interp_parts(in, v, &n);
    for (int64_t i = 0; parts && i < n * words; i++) {
        double x = parts[rank * n + i / words];
        const double *is = isnan(x) ? NULL : address(s, in, where, i, rank, stage, running);
        double y = is ? *is : x;
        if (is && y != x)
            return arena_printf(s->arena,
                                "%%%s has been overwritten in the arena: element %lld of "
                                "rank %lld is %g, not %g",
                                v->name, (long long)(i / words), (long long)rank, y, x);
    }
    return NULL;
}

static const char *check_there(const Shadow *s, const Interp *in, const Op *op,
                               const Value *v, const Value *where)
{
    const char *fault = NULL;
    for (int64_t rank = 0; rank < s->ranks && !fault; rank++)
        for (int stage = first_stage(s, rank); stage < s->stages && !fault;
             stage += s->apart)
            fault = check_on_stage(s, in, op, v, where, rank, stage);
    return fault;
}

static void scribble(const Shadow *s, const Op *op)
{
    int block = op->workspace;
    if (block < 0)
        return;
    const Block *b = &s->plan->block[block];
    int stage = op_stage(s->p, op);
    for (int64_t rank = 0; rank < s->ranks; rank++)
        for (int64_t i = 0; i < b->bytes / WORD &&
                            (stage < 0 || coordinate_of(s->p, stage) ==
                                              mesh_coord(&s->p->mesh, rank,
                                                         pipeline_axis(s->p)));
             i++)
            s->at[rank * s->words + b->offset / WORD + i] = NAN;
}

static const char *check_values(const Shadow *s, const Interp *in, const Op *op, int n,
                                Value *const *values)
{
    const char *fault = NULL;
    for (int i = 0; i < n && !fault; i++)
        fault = check_there(s, in, op, values[i], values[i]);
    return fault;
}

/* In the first iteration of its stage a rank receives the carries of a loop, which
 * the interpreter passes on. */
static void receive_carries(Shadow *s, const Interp *in, const Op *loop)
{
    if (!loop || loop->kind != OP_loop || !loop->cut)
        return;
    const Mesh *m = &s->p->mesh;
    int64_t layer = interp_layer(in, loop);
    const int64_t *begin =
        &m->cut[loop->cut - 1].begin[cut_stage(m, loop->cut, layer)];
    int64_t first = attr_reverse(loop) ? begin[1] - 1 : begin[0];
    if (layer == first && s->entered[loop->id] != layer + 1)
        for (int i = 0; i < loop->ncarry; i++)
            store(s, in, loop->body->first, loop->body->arg[i]);
    s->entered[loop->id] = layer + 1;
}

static bool is_preset(const Op *op)
{
    return op->kind == OP_param || op->kind == OP_input ||
           op->kind == OP_scalar;
}

static const char *watch(void *context, Interp *in, const Op *op, bool done)
{
    Shadow *s = context;
    const Op *owner = op->region->owner;
    if ((owner && owner->kind == OP_fused) || is_preset(op))
        return NULL;
    if (op_is_view(op->kind))
        return NULL;
    if (!done) {
        receive_carries(s, in, owner);
        scribble(s, op);
        return check_values(s, in, op, op->nargs, op->arg);
    }
    s->entered[op->id] = 0;
    /* A gather in place makes no copy: the bytes must be stored already. */
    for (int i = 0; op->kind != OP_loop && i < op->nouts; i++)
        if (op->kind != OP_all_gather || !value_in_place(op->out[i]))
            store(s, in, op, op->out[i]);
    scribble(s, op);
    return check_values(s, in, op, op->nouts, op->out);
}

/* Stores inputs, parameters and constants before the step. */
static void preset(const Shadow *s, const Interp *in)
{
    for (int64_t i = 0; i < s->ranks * s->words; i++)
        s->at[i] = NAN;
    for (const Op *op = s->p->step->first; op; op = op->next)
        if (is_preset(op))
            store(s, in, op, op->out[0]);
}

/* After the step: new parameters must have replaced the old ones, and outputs
 * must be stored. */
static const char *check_end(const Shadow *s, const Interp *in)
{
    const char *fault = NULL;
    for (const Op *op = s->p->step->first; op && !fault; op = op->next) {
        const Value *where = op->nargs > 0 ? op->arg[0] : NULL;
        if (op->kind == OP_assign)
            where = s->p->param.at[attr_param(op)].value;
        else if (op->kind != OP_output)
            continue;
        fault = check_there(s, in, op, op->arg[0], where);
    }
    return fault;
}

const char *check_memory(const Program *p, Interp *in)
{
    const MemoryPlan *plan = p->memory;
    Shadow s = {.p = p,
                .plan = plan,
                .arena = p->arena,
                .ranks = mesh_ranks(&p->mesh),
                .stages = pipeline_stage_count(p),
                .apart = pipeline_ranks(p),
                .words = (plan->extent + plan->host) / WORD + 1};
    if (pipeline_axis(p) < 0)
        s.stages = s.apart = 1;
    for (int i = 0; i < plan->nblocks; i++)
        if (plan->block[i].offset + plan->block[i].bytes >
            plan->extent + (plan->block[i].host ? plan->host : 0))
            return arena_printf(p->arena, "block '%s' ends beyond the arena",
                                plan->block[i].name);
    s.at = NEW_ARRAY(p->arena, double, s.ranks *s.words);
    s.entered = NEW_ARRAY(p->arena, int64_t, p->nops);
    preset(&s, in);
    interp_watch(in, watch, &s);
    const char *fault = interp_run(in);
    interp_watch(in, NULL, NULL);
    return fault ? fault : check_end(&s, in);
}
