/* checkpoint.c: finds the ops that are recomputed; see checkpoint.h. */
#include "ir/plan/checkpoint.h"

#include <string.h>

/* ORDER Keep: row k is bit 1 << k. */
static const OpKind keep_ops[][3] = {{OP_attention, OP_attention, OP_attention},
                                     {OP_einsum, OP_einsum_bias, OP_conv},
                                     {OP_all_to_all, OP_all_to_all, OP_all_to_all}};
enum { KEEPS = sizeof keep_ops / sizeof *keep_ops };

bool path_is_below(const char *path, const char *module)
{
    size_t n = strlen(module);
    return n == 0 || (strncmp(path, module, n) == 0 &&
                      (path[n] == '\0' || path[n] == '.'));
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
        int item = m->checkpoint;
        if (item)
            return p->plan.checkpoint[item - 1].npaths > 1 ? -item : i + 1;
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
        if (m->checkpoint && path_is_below(path, m->path))
            found = m->checkpoint - 1;
    }
    return found;
}

bool checkpoint_keeps(const Program *p, const Op *op)
{
    int item = checkpoint_item(p, op->path);
    uint32_t keep = item < 0 ? 0 : p->plan.checkpoint[item].keep;
    for (int k = 0; k < KEEPS; k++)
        for (int i = 0; (keep >> k & 1) && i < 3; i++)
            if (keep_ops[k][i] == op->kind)
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
