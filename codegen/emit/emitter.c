/* emitter.c: prepares the writing of train.c: assigns C names to values, blocks
 * of memory, mesh axes and loops, and numbers to kernels and matmuls. It also
 * prints the addresses of values as C expressions: "AT_wq + layer * 4096". */
#include "codegen/emit/emitter.h"

#include "base/bug.h"
#include "ir/analysis/expert_rows.h"
#include "ir/plan/pipeline.h"

#include <string.h>

/* The name of an element of the array at a star of a path, the outermost or, if
 * `star` is 1, the next: "layer" for "decoder.layers.*.norm". An array without
 * the plural's s has layers too: "h.*". NULL: the path has fewer stars. */
static const char *element_name(Arena *a, const char *path, int star)
{
    const char *begin = path, *end = path;
    for (const char *at = path; star >= 0 && *at; at += *at == '.') {
        size_t n = strcspn(at, ".");
        if (*at == '*') {
            star--;
        } else {
            begin = at;
            end = at + n;
        }
        at += n;
    }
    size_t n = (size_t)(end - begin);
    return star >= 0                    ? NULL
           : n > 2 && end[-1] == 's' ? c_identifier(a, arena_strndup(a, begin, n - 1))
                                        : "layer";
}

/* The name of an element of the array that a loop is over, by the modules of its
 * ops. */
static const char *layer_name(Arena *a, const Op *loop, int star)
{
    const char *name = element_name(a, loop->path, star);
    for (const Op *op = NULL; !name && (op = ir_next(loop->body, op));)
        name = element_name(a, op->path, star);
    return name ? name : "layer";
}

const char *loop_kind(const Program *p, const Op *loop)
{
    return loop_is_microbatches(p, loop)         ? "micro"
           : loop_has_forward_and_backward(loop) ? "chunk"
           : loop->rounds                        ? "round"
           : loop->phase == PH_OPTIMIZER && loop->nstack == 0 ? "iteration"
                                                 : "layer";
}

/* Names the variables of loops. A loop inside another has another name. `star`:
 * the number of arrays around the region. */
static void name_loops(Emitter *e, const Region *r, const TextMap *around,
                       int star)
{
    for (const Op *op = r->first; op; op = op->next) {
        if (op->kind != OP_loop)
            continue;
        TextMap names = text_map_copy(around);
        const char *name = loop_kind(e->p, op);
        bool layers = !strcmp(name, "layer");
        if (layers)
            name = layer_name(e->p->arena, op, star);
        e->loop_name[op->id] = text_map_unique(&names, name, '_');
        e->next_name[op->id] = text_map_unique(&names, "next", '_');
        text_map_add(e->loop_names, e->loop_name[op->id]);
        name_loops(e, op->body, &names, star + layers);
    }
}

static void number_ops(Emitter *e)
{
    Numbers next = e->first;
    for_ops(op, e->p->step) {
        e->collective_of[op->id] = e->statement_of[op->id] = -1;
        if (op->kind == OP_fused)
            e->number[op->id] = next.kernels++;
        else if (op_is_einsum(op->kind))
            e->number[op->id] = next.matmuls++;
        else if (op_is_conv(op->kind))
            e->number[op->id] = next.convs++;
    }
}

const char *emitter_own(const Emitter *e)
{
    return e->p->training ? arena_printf(e->p->arena, "%s_", program_word(e->p)) : "";
}

/* A block of a side program that is a block of the training step has its
 * name; the others have the program's word before it. */
static void name_blocks(Emitter *e, const Emitter *training)
{
    Arena *a = e->p->arena;
    for (int i = 0; i < e->memory->nblocks; i++) {
        const Block *b = &e->memory->block[i];
        if (training && b->training)
            e->block_name[i] = training->block_name[b->training - 1];
        else if (training)
            e->block_name[i] = c_name(
                e->block_names,
                arena_printf(a, "%s%s", emitter_own(e), b->name));
        else
            e->block_name[i] = c_name(e->block_names, b->name);
    }
}

/* Marks the ops of a loop's body that add to a carry which every rank has. */
static void mark_once(Emitter *e, const Region *r)
{
    bool *carried = NEW_ARRAY(e->p->arena, bool, e->p->nvalues);
    int axis = pipeline_axis(e->p);
    for (int i = 0; i < r->owner->ncarry; i++)
        carried[r->arg[i]->id] = r->arg[i]->type.place.ax[axis].kind == AX_R;
    for (const Op *op = r->first; op; op = op->next) {
        bool carries = op_reads_any(op, carried);
        if (!carries || op_stage(e->p, op) >= 0 || op_transfers(op) || op->cut)
            continue;
        e->once[op->id] = true;
        for (int i = 0; i < op->nouts; i++)
            carried[op->out[i]->id] = true;
    }
}

/* Finds the ops that a rank must run once for a microbatch, not for each of its
 * stages. */
static void find_once(Emitter *e)
{
    e->once = NEW_ARRAY(e->p->arena, bool, e->p->nops);
    const Region *r = pipeline_forward_region(e->p);
    if (rank_stages(e->p) > 1 && r->owner)
        mark_once(e, r);
}

static void init_one(Emitter *e, const Emitter *training)
{
    const Program *p = e->p;
    Arena *a = p->arena;
    e->memory = p->memory;
    e->at = -1;
    e->first = numbers_first(p);
    e->rows = expert_rows_find(p);
    e->collective = collectives_of(p, &e->ncollectives);
    e->block_name = NEW_ARRAY(a, const char *, e->memory->nblocks + 1);
    e->loop_name = NEW_ARRAY(a, const char *, p->nops);
    e->next_name = NEW_ARRAY(a, const char *, p->nops);
    e->collective_of = NEW_ARRAY(a, int, p->nops);
    e->statement_of = NEW_ARRAY(a, int, p->nops);
    e->number = NEW_ARRAY(a, int, p->nops);
    e->variable = NEW_ARRAY(a, const char *, p->nvalues);
    e->scope_of = NEW_ARRAY(a, int, p->nvalues);
    TextMap loops = {.arena = a};
    name_loops(e, p->step, &loops, 0);
    name_blocks(e, training);
    TextMap axes = {.arena = a};
    e->axis_name = NEW_ARRAY(a, const char *, MAX_AXES);
    for (int i = 0; i < p->mesh.n; i++)
        e->axis_name[i] = c_name(&axes, p->mesh.name[i]);
    number_ops(e);
    find_once(e);
    for (int i = 0; i < e->ncollectives; i++)
        e->collective_of[e->collective[i].op->id] = i;
    e->statement = statements_of(p, &e->nstatements);
    for (int i = 0; i < e->nstatements; i++)
        e->statement_of[e->statement[i].op->id] = i;
}

/* Names the blocks of a program that repeats another one like the other's. */
static void init_repeating(Emitter *f)
{
    const Program *p = f->p;
    const Emitter *of = f->of;
    Arena *a = p->arena;
    f->memory = p->memory;
    f->rows = expert_rows_find(p);
    f->axis_name = of->axis_name;
    f->block_name = NEW_ARRAY(a, const char *, f->memory->nblocks + 1);
    TextMap block = {.arena = a}; /* the block's name, by that of a value */
    for_ops(op, of->p->step)
        for (int i = 0; i < op->nouts; i++)
            if (op->out[i]->address)
                text_map_add(&block, op->out[i]->name)->value =
                    (void *)of->block_name[op->out[i]->address->block];
    for_ops(op, p->step)
        for (int i = 0; i < op->nouts; i++)
            if (op->out[i]->address)
                f->block_name[op->out[i]->address->block] =
                    text_map_find(&block, op->out[i]->name)->value;
}

/* The names of functions and tables that every program has. */
static void reserve_names(TextMap *names)
{
    static const char *const word[] = {
        "forward",       "backward",       "optimizer",
        "step",          "init_constants", "eval_input",
        "eval_output",   "outputs_input",  "outputs_output",
    };
    for (size_t i = 0; i < sizeof word / sizeof *word; i++)
        text_map_add(names, word[i]);
}

void emitter_init(Emitter *e, SourceFiles *files, const Program *p,
                  const TargetInfo *t, const EmitOptions *options,
                  const CudaProgram *cuda)
{
    TextMap *names = NEW_ARRAY(p->arena, TextMap, 4);
    for (int i = 0; i < 4; i++)
        names[i].arena = p->arena;
    reserve_names(&names[1]);
    *e = (Emitter){.files = files, .p = p, .t = t, .options = options,
                   .cuda = cuda, .block_names = &names[0],
                   .function_names = &names[1], .functions = &names[2],
                   .loop_names = &names[3]};
    const Emitter shared = *e;
    init_one(e, NULL);
    Emitter **next = &e->next;
    for (int k = 0; k < PURPOSES; k++) {
        if (!p->side[k])
            continue;
        Emitter *f = *next = NEW(p->arena, Emitter);
        *f = shared;
        f->p = p->side[k];
        for (Emitter *of = e; of != f && f->p->repeats; of = of->next)
            if (of->p == f->p->repeats)
                f->of = of;
        if (f->of)
            init_repeating(f);
        else
            init_one(f, e);
        next = &f->next;
    }
}

/* ---- addresses ----------------------------------------------------------- */

const char *stage_first_row(Emitter *e, int cut)
{
    if (!cut || !e->in_stage)
        return NULL;
    e->uses_stage = true;
    return arena_printf(e->p->arena, "row_%d[stage]", cut);
}

const char *value_row_offset(Emitter *e, Value *v)
{
    Arena *a = e->p->arena;
    v = value_root(v);
    const Address *at = value_address(v);
    if (at->block < 0)
        bug("emit: %%%s has no memory", v->name);
    const char *text = arena_printf(a, "AT_%s", e->block_name[at->block]);
    for (int i = 0; i < at->nstrides; i++) {
        const char *iteration = e->loop_name[at->loop[i]->id];
        if (at->rotation && at->loop[i]->staged) {
            e->uses_stage = true;
            iteration = arena_printf(a, "%s %% %sbuffers_%d[stage]", iteration,
                                     emitter_own(e), at->rotation);
            if (rank_stages(e->p) > 1)
                iteration = arena_printf(a, "(%sfirst_%d[stage] + %s)", emitter_own(e),
                                         at->rotation, iteration);
        } else if (at->rotation && stage_first_row(e, at->loop[i]->cut)) {
            iteration = arena_printf(a, "(%s - %s)", iteration,
                                     stage_first_row(e, at->loop[i]->cut));
        } else if (at->modulo[i]) {
            iteration = arena_printf(a, "%s %% %lld", iteration,
                                     (long long)at->modulo[i]);
        }
        text = arena_printf(a, "%s + %s * %lld", text, iteration,
                            (long long)at->stride[i]);
    }
    return text;
}

bool value_is_inside(const Value *v)
{
    return value_address(v)->cut != 0;
}

const char *value_offset(Emitter *e, Value *v)
{
    const char *row = value_row_offset(e, v);
    const Address *at = value_address(v);
    if (!at->cut)
        return row;
    return arena_printf(e->p->arena, "%s + parc_index(rt, %s) * %lld", row,
                        axes_expression(e, at->cut), (long long)at->run);
}

const Segment *emitter_segment(const Emitter *e, const Block *b)
{
    for (int i = 0; i < e->memory->nsegments; i++)
        if (b->shared && e->memory->segment[i].axes == b->shared)
            return &e->memory->segment[i];
    return NULL;
}

const char *emitter_segment_name(const Emitter *e, const Segment *s)
{
    const char *text = "SHARED";
    for (int i = 0; i < e->p->mesh.n; i++)
        if (s->axes & 1u << i)
            text = arena_printf(e->p->arena, "%s_%s", text, e->axis_name[i]);
    return text;
}

const char *axes_expression(const Emitter *e, uint32_t axes)
{
    const char *text = "";
    for (int i = 0; i < e->p->mesh.n; i++)
        if (axes & 1u << i)
            text = arena_printf(e->p->arena, "%s%sAXIS_%s", text,
                                *text ? " | " : "", e->axis_name[i]);
    return *text ? text : "0";
}

void emit_comment(Emitter *e, const Op *op, const char *detail)
{
    Arena *a = e->p->arena;
    const char *where = diag_where(e->p->diag, a, op->loc);
    out_line(e->o, "/* %s%s%s%s%s (%s)", c_comment(a, op->path),
             op->path[0] ? ": " : "", op_info(op->kind)->name,
             *detail ? " " : "", c_comment(a, detail), c_comment(a, where));
    out_line(e->o, " * %s */",
             c_comment(a, op->nouts ? type_text(a, &op->out[0]->type, &e->p->mesh)
                                    : ""));
}
