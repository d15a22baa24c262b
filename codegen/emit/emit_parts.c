/* emit_parts.c: divides the statements of a phase into functions, the parts, so
 * that the function of the phase shows its structure:
 *
 *   void forward(ParcRt *rt)
 *   {
 *       forward_tok_embeddings(rt);
 *       for (int64_t layer = 0; layer <= 31; layer++) {
 *           forward_attention_norm(rt, layer);
 *           forward_attention(rt, layer);
 *           …
 *
 * A part has the statements of one module: outside of loops a direct child of the
 * model, in a loop a direct child of the loop's module. Between two loops a module
 * has one part: statements of other modules that are between two of its own are in
 * its part too, unless another stage of a pipeline runs them. Statements of the
 * loop's module itself, and of none, belong to the
 * part before them; those that end the forward pass are the part "loss". What
 * precedes a statement (wait, barrier, early) is in its part. Each part has a
 * statement with a mark, so that it uses the variables of the loops around it,
 * its parameters.
 */
#include "codegen/emit/emitter.h"
#include "ir/plan/pipeline.h"

#include <string.h>

struct Part {
    Part *outer;        /* of the loop around this one; NULL: none */
    const Op *loop;     /* around its statements; NULL: none */
    const char *inside; /* path of the loop's module; "": the model */
    const char *name;   /* "forward_attention"; NULL: no part is open */
    const char *path;   /* of its module */
    int at;             /* the stage that runs it; -1: all do */
    int around;         /* that which runs the loop */
    int before;         /* that of the guard that is open outside of the function */
    uint32_t until;     /* id of the last op of the modules in the part */
    TextMap last;       /* by path: the last op of a module before the next loop
                         * or phase; empty: not known yet */
    uint32_t end;       /* id of the last of these ops */
    Function function;
};

/* ---- modules ------------------------------------------------------------- */

/* The length of the first name of a path: "layers.*" of "layers.*.attention". */
static size_t first_name(const char *path)
{
    size_t n = strcspn(path, ".");
    size_t index = path[n] ? strspn(path + n + 1, "*0123456789") : 0;
    return index && (!path[n + 1 + index] || path[n + 1 + index] == '.')
               ? n + 1 + index
               : n;
}

/* Where the path continues below module `inside`; NULL: it is not in it. */
static const char *below(const char *path, const char *inside)
{
    size_t n = strlen(inside);
    if (strncmp(path, inside, n) != 0 || (n && path[n] && path[n] != '.'))
        return NULL;
    return path + n + (n && path[n]);
}

/* The module that contains all of a region's ops that have one. */
static const char *common_module(const Emitter *e, const Region *r,
                                 const char *module)
{
    for (const Op *op = r->first; op; op = op->next) {
        if (op->kind == OP_loop)
            module = common_module(e, op->body, module);
        if (!*op->path || e->statement_of[op->id] < 0)
            continue;
        if (!module)
            module = op->path;
        size_t n = 0;
        for (size_t end = 0; module[n]; n = end) {
            end = n + (n && module[n] == '.');
            end += first_name(module + end);
            if (!below(op->path, arena_strndup(e->p->arena, module, end)))
                break;
        }
        module = arena_strndup(e->p->arena, module, n);
    }
    return module;
}

/* The path of the module whose part an op belongs to; NULL: none of its own. */
static const char *module_of(const Emitter *e, const Part *p, const Op *op)
{
    const char *rest = below(op->path, p->inside);
    if (!rest)
        rest = op->path; /* of a module outside of the loop's */
    size_t name = first_name(rest);
    return name ? arena_strndup(e->p->arena, op->path,
                                (size_t)(rest - op->path) + name)
                : NULL;
}

static bool has_mark(const Emitter *e, const Op *op)
{
    return !op_is_schedule(op->kind) && !op->done && emits(e, op) &&
           e->statement_of[op->id] >= 0;
}

/* Whether op is before the next loop and the next phase's function. */
static bool is_before_end(const Op *op, Phase phase)
{
    return op && op->kind != OP_loop && (op_loop(op) || op->phase == phase);
}

/* The op whose module decides the part of `op`: the next one with a mark; if no
 * part is open, the next one with a mark and a module, if there is one on the same
 * stage. NULL: none. */
static const Op *deciding(const Emitter *e, const Op *op)
{
    Phase phase = op->phase;
    const Op *first = NULL;
    for (; is_before_end(op, phase); op = op->next) {
        if (!has_mark(e, op))
            continue;
        if (first && emitted_stage(e, op) != emitted_stage(e, first))
            break;
        if (e->part->name || module_of(e, e->part, op))
            return op;
        if (!first)
            first = op;
    }
    return first;
}

/* Finds the last op of each module, from op on. */
static void find_last(const Emitter *e, Part *p, const Op *op)
{
    Phase phase = op->phase;
    for (; is_before_end(op, phase); op = op->next) {
        const char *path = has_mark(e, op) ? module_of(e, p, op) : NULL;
        if (!path)
            continue;
        TextEntry *entry = text_map_find(&p->last, path);
        if (!entry)
            entry = text_map_add(&p->last, path);
        entry->value = (void *)op;
        p->end = op->id;
    }
}

static uint32_t last_of(const Part *p, const char *path)
{
    const TextEntry *entry = text_map_find(&p->last, path);
    return entry ? ((const Op *)entry->value)->id : 0;
}

/* ---- parts --------------------------------------------------------------- */

static const char *phase_word(const Emitter *e, const Op *op)
{
    if (e->word)
        return e->word;
    return op->phase == PH_OPTIMIZER  ? "optimizer"
           : op->phase == PH_BACKWARD ? "backward"
           : op->phase == PH_WEIGHTS  ? "weights"
                                      : "forward";
}

/* "forward_attention": the last name of the path. */
static const char *part_name(const Emitter *e, const Op *op, const char *path)
{
    size_t n;
    while (n = first_name(path), path[n])
        path += n + 1;
    if (n > 2 && !strcmp(path + n - 2, ".*"))
        n -= 2; /* one of the modules of a loop */
    path = arena_strndup(e->p->arena, path, n);
    return arena_printf(e->p->arena, "%s_%s", phase_word(e, op),
                        c_identifier(e->p->arena, path));
}

/* ", int64_t micro, int64_t layer"; without a type: ", micro, layer". */
static const char *loop_variables(const Emitter *e, const Op *loop,
                                  const char *type)
{
    if (!loop)
        return "";
    return arena_printf(e->p->arena, "%s, %s%s",
                        loop_variables(e, op_loop(loop), type), type,
                        e->loop_name[loop->id]);
}

/* Lets the following calls run on one stage only; -1: on all. */
static void guard_by(Emitter *e, Part *p, int stage)
{
    if (stage == e->at || (stage < 0 && e->at == p->around))
        return;
    stage_end(e, p->around);
    stage_begin(e, stage);
}

static void close_part(Emitter *e)
{
    Part *p = e->part;
    if (!p->name)
        return;
    e->at = p->before;
    const char *parameters = arena_printf(
        e->p->arena, "ParcRt *rt%s", loop_variables(e, p->loop, "int64_t "));
    const char *name =
        function_share(e, &p->function, p->name, parameters,
                       c_comment(e->p->arena, p->path), e->parts);
    p->name = NULL;
    if (!strcmp(name, "NULL"))
        return; /* no statement */
    guard_by(e, p, p->at);
    out_line(e->o, "%s(rt%s%s);", name, loop_variables(e, p->loop, ""),
             p->function.takes_stage ? ", stage" : "");
}

static void open_part(Emitter *e, const char *name, const char *path, int at)
{
    close_part(e);
    e->part->name = name;
    e->part->path = path;
    e->part->at = at;
    e->part->until = 0;
    function_begin(e, &e->part->function);
    e->part->before = e->at;
    e->at = at < 0 ? e->part->around : at;
}

void parts_begin(Emitter *e, const Op *loop)
{
    if (!e->parts)
        return;
    Part *p = NEW(e->p->arena, Part);
    p->outer = e->part;
    p->around = e->at;
    p->loop = loop;
    p->inside = loop ? common_module(e, loop->body, NULL) : "";
    if (!p->inside)
        p->inside = "";
    e->part = p;
}

void parts_end(Emitter *e)
{
    if (!e->parts)
        return;
    close_part(e);
    guard_by(e, e->part, -1);
    e->part = e->part->outer;
}

/* Whether op is among the last statements of the forward pass, after those of
 * the modules: it computes the loss. */
static bool is_of_loss(const Emitter *e, const Part *p, const Op *op)
{
    if (p->loop || op->phase != PH_FORWARD || op->id <= p->end ||
        p->end == 0 || e->p->purpose == FOR_OUTPUTS)
        return false;
    while (op && !(op->kind == OP_loop && op->phase == PH_FORWARD))
        op = op->next;
    return !op;
}

/* The path of the part that a statement without a module of its own belongs to
 * or begins. */
static const char *path_without_module(const Emitter *e, const Part *p,
                                       const Op *op)
{
    return is_of_loss(e, p, op) ? "loss"
           : p->name            ? p->path
           : *p->inside         ? p->inside
                                : e->p->model;
}

/* Whether all stages run an op of the schedule, although only one runs what is
 * around it: what a stream waits for may also order its later statements. */
static bool is_of_all_stages(const Emitter *e, const Op *op)
{
    if (pipeline_axis(e->p) < 0 || !op_is_schedule(op->kind) ||
        op->kind == OP_barrier)
        return false;
    if (op->kind == OP_join || op->kind == OP_post || op->kind == OP_await)
        return true;
    const Op *in = op->kind == OP_early ? op->body->first : op;
    while (in && op->kind == OP_early && in->kind != OP_start)
        in = in->next;
    if (in && in->kind == OP_start && emitted_stage(e, attr_op(in)) >= 0)
        return true;
    if (e->part->name && e->part->at >= 0)
        return true;
    /* In a part of all stages, only a record stays: what follows may belong to a
     * part of one stage. */
    const Op *of = e->part->name && op->kind == OP_record ? NULL : deciding(e, op);
    return of && emitted_stage(e, of) >= 0;
}

/* A record follows its statement, whose part it belongs to. */
void parts_at(Emitter *e, const Op *op)
{
    if (!e->parts)
        return;
    Part *p = e->part;
    if (op && is_of_all_stages(e, op))
        op = NULL;
    if (!op || op->kind == OP_loop) {
        close_part(e);
        guard_by(e, p, -1);
        p->last = (TextMap){.arena = e->p->arena};
    }
    const Op *of =
        !op || op->kind == OP_record ? NULL : deciding(e, op);
    if (!of)
        return;
    if (op->kind == OP_barrier && emitted_stage(e, of) != emitted_stage(e, op))
        of = attr_op(op); /* other stages wait at the barrier than run the next op */
    if (p->last.n == 0) {
        p->last.arena = e->p->arena;
        find_last(e, p, op);
    }
    const char *path = op_is_hand_over(of->kind) ? op_info(of->kind)->name
                                                 : module_of(e, p, of);
    if (!path)
        path = path_without_module(e, p, of);
    const char *name = part_name(e, of, path);
    int at = emitted_stage(e, of);
    bool same = p->name && !strcmp(name, p->name) && !strcmp(path, p->path);
    bool until = of->id <= p->until && !op_is_hand_over(of->kind);
    if (!p->name || at != p->at || (!same && !until))
        open_part(e, name, path, at);
    if (p->until < last_of(p, path))
        p->until = last_of(p, path);
}
