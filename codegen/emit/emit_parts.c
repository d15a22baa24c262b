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
 * A part has consecutive statements of one module: outside of loops a direct
 * child of the model, in a loop a direct child of the loop's module. Statements
 * of the loop's module itself, and of none, belong to the part before them. What
 * precedes a statement (wait, barrier, early) is in its part. Each part has a
 * statement with a mark, so that it uses the variables of the loops around it,
 * its parameters.
 */
#include "codegen/emit/emitter.h"

#include <string.h>

struct Part {
    Part *outer;        /* of the loop around this one; NULL: none */
    const Op *loop;     /* around its statements; NULL: none */
    const char *inside; /* path of the loop's module; "": the model */
    const char *name;   /* "forward_attention"; NULL: no part is open */
    const char *path;   /* of its module */
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

/* The op whose module decides the part of `op`: the next one with a mark, from
 * `op` on, before a loop and the next phase's function; if no part is open, the
 * next one with a mark and a module, if there is one. NULL: none. */
static const Op *deciding(const Emitter *e, const Op *op)
{
    Phase phase = op->phase;
    bool split = !op_loop(op);
    const Op *first = NULL;
    for (; op && op->kind != OP_loop && (!split || op->phase == phase);
         op = op->next) {
        if (op_is_schedule(op->kind) || op->done || e->statement_of[op->id] < 0)
            continue;
        if (e->part->name || module_of(e, e->part, op))
            return op;
        if (!first)
            first = op;
    }
    return first;
}

/* ---- parts --------------------------------------------------------------- */

static const char *phase_word(const Emitter *e, const Op *op)
{
    if (e->p->purpose != FOR_TRAINING)
        return forward_word(e->p);
    return op->phase == PH_OPTIMIZER  ? "optimizer"
           : op->phase == PH_BACKWARD ? "backward"
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

static void close_part(Emitter *e)
{
    Part *p = e->part;
    if (!p->name)
        return;
    const char *name = text_map_unique(e->function_names, p->name, '_');
    const char *head =
        arena_printf(e->p->arena, "void %s(ParcRt *rt%s)", name,
                     loop_variables(e, p->loop, "int64_t "));
    out_line(e->parts, "\n/* %s */", c_comment(e->p->arena, p->path));
    function_end(e, &p->function, head, e->parts);
    out_line(&e->files->model_h, "%s;", head);
    out_line(e->o, "%s(rt%s);", name, loop_variables(e, p->loop, ""));
    p->name = NULL;
}

static void open_part(Emitter *e, const char *name, const char *path)
{
    close_part(e);
    e->part->name = name;
    e->part->path = path;
    function_begin(e, &e->part->function);
}

void parts_begin(Emitter *e, const Op *loop)
{
    if (!e->parts)
        return;
    Part *p = NEW(e->p->arena, Part);
    p->outer = e->part;
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
    e->part = e->part->outer;
}

/* A record follows its statement, whose part it belongs to. */
void parts_at(Emitter *e, const Op *op)
{
    if (!e->parts)
        return;
    if (op->kind == OP_loop)
        close_part(e);
    const Op *of = op->kind == OP_record ? NULL : deciding(e, op);
    if (!of)
        return;
    Part *p = e->part;
    const char *path = module_of(e, p, of);
    if (!path)
        path = p->name ? p->path : *p->inside ? p->inside : e->p->model;
    const char *name = part_name(e, of, path);
    if (!p->name || strcmp(name, p->name) != 0 || strcmp(path, p->path) != 0)
        open_part(e, name, path);
}
