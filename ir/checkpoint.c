/* checkpoint.c: matches the plan's `checkpoint` items with modules; see
 * checkpoint.h. */
#include "ir/checkpoint.h"

#include <string.h>

#include "ir/units.h"

/* ORDER Keep: word k is bit 1 << k. */
const char *const keep_words[] = {"attention", "matmul", NULL};
static const OpKind keep_ops[][2] = {{OP_attention, OP_attention_dropout},
                                     {OP_einsum, OP_einsum_bias}};

bool path_is_below(const char *path, const char *module)
{
    size_t n = strlen(module);
    return n == 0 || (strncmp(path, module, n) == 0 &&
                      (path[n] == '\0' || path[n] == '.'));
}

/* The segment of a path whose index `every` counts: where the pattern has its
 * last '*', or the last segment; -1: none. */
static int counted_segment(const char *pattern, const char *path)
{
    int depth = path_depth(path), found = pattern ? -1 : depth - 1;

    for (int i = 0; pattern && i < depth; i++) {
        size_t size;
        const char *segment = path_segment(pattern, i, &size);
        if (size == 1 && *segment == '*')
            found = i;
    }
    return found;
}

/* Whether the module's index is a multiple of `every`. Lowering splits arrays
 * so that a range has one remainder; an array that was not split has one
 * element. */
static bool is_counted(const Checkpoint *c, const char *pattern,
                       const char *path)
{
    if (c->every <= 1)
        return true;
    int i = counted_segment(pattern, path);
    PathRange r = {0, 0, 1};
    size_t size = 0;
    const char *segment = i < 0 ? "" : path_segment(path, i, &size);
    return (path_range(segment, size, &r) || *segment == '*') &&
           r.first % c->every == 0;
}

/* How specifically an item names the module: the number of indices in its path;
 * -1: it does not. */
static int names_module(const Checkpoint *c, const Module *m)
{
    int most = -1;

    if (c->class)
        return strcmp(c->class, m->class) == 0 && is_counted(c, NULL, m->path)
                   ? 0 : -1;
    for (int i = 0; i < c->npaths; i++)
        if (path_matches(c->path[i], m->path) &&
            is_counted(c, c->path[i], m->path) &&
            path_index_rank(c->path[i]) > most)
            most = path_index_rank(c->path[i]);
    return most;
}

/* The item that names the module most specifically, the first of several; -1:
 * none. */
static int item_of(const Program *p, const Module *m)
{
    int item = -1, most = -1;

    for (int i = 0; i < p->plan.ncheckpoints; i++) {
        int names = names_module(&p->plan.checkpoint[i], m);
        if (names <= most)
            continue;
        most = names;
        item = i;
    }
    return item;
}

/* Modules precede their children, so that the outermost is found first. */
int checkpoint_stretch(const Program *p, const char *path, const char *loop)
{
    if (p->plan.ncheckpoints == 0)
        return 0;
    for (int i = 0; i < p->module.n; i++) {
        const Module *m = &p->module.at[i];
        if (!path_is_below(path, m->path) ||
            (loop && path_is_below(loop, m->path)))
            continue;
        int item = item_of(p, m);
        if (item >= 0)
            return p->plan.checkpoint[item].npaths > 1 ? -(item + 1) : i + 1;
    }
    return 0;
}

int checkpoint_item(const Program *p, const char *path)
{
    int found = -1;
    if (p->plan.ncheckpoints == 0)
        return -1;
    for (int i = 0; i < p->module.n; i++) {
        const Module *m = &p->module.at[i];
        int item = path_is_below(path, m->path) ? item_of(p, m) : -1;
        if (item >= 0)
            found = item;
    }
    return found;
}

bool checkpoint_keeps(const Program *p, const Op *op)
{
    int item = checkpoint_item(p, op->path);
    uint32_t keep = item < 0 ? 0 : p->plan.checkpoint[item].keep;
    for (int k = 0; keep_words[k]; k++)
        if ((keep >> k & 1) &&
            (keep_ops[k][0] == op->kind || keep_ops[k][1] == op->kind))
            return true;
    return false;
}

const char *checkpoint_text(Arena *a, const Checkpoint *c)
{
    if (c->class)
        return arena_printf(a, "every %s", c->class);
    const char *text = "";
    for (int i = 0; i < c->npaths; i++)
        text = arena_printf(a, "%s%s%s", text, i ? ", " : "",
                            c->path[i][0] ? c->path[i] : "model");
    return c->npaths > 1 ? arena_printf(a, "[%s]", text) : text;
}
