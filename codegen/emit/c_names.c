/* c_names.c: see c_names.h. */
#include "codegen/emit/c_names.h"

#include "base/hash.h"
#include "codegen/c_text.h"

#include <string.h>

/* "layer", "layer_2", "i0": the variables of loops. */
static bool is_loop_variable(const char *name)
{
    static const char *const word[] = {"layer", "micro", "chunk", "next"};
    for (size_t i = 0; i < sizeof word / sizeof *word; i++) {
        size_t n = strlen(word[i]);
        if (!strncmp(name, word[i], n) && (!name[n] || name[n] == '_'))
            return true;
    }
    return name[0] == 'i' && name[1] >= '0' && name[1] <= '9';
}

/* Names that emitted code or the C library uses. */
static bool is_taken(const char *name)
{
    static const char *const word[] = {
        "A",          "rt",         "init_constants", "forward", "backward",
        "optimizer",  "step",       "param",          "input",   "model",
        "matmul",     "collective", "info",           "errno",
        "work",       "kernel",     "image",          "images",
        "eval_init",  "eval_begin", "eval_run",       "outputs_init",
        "outputs_begin", "outputs_run",
        "exp",        "log",        "sqrt",           "tanh",    "erf",
        "sin",        "cos",        "pow",            "abs",     "index",
        "y0",         "y1",         "j0",             "j1",      "stdin",
        "stdout",     "stderr",     "signal",         "time",    "read",
        "write",
    };
    for (size_t i = 0; i < sizeof word / sizeof *word; i++)
        if (!strcmp(name, word[i]))
            return true;
    return !strncmp(name, "AT_", 3) || !strncmp(name, "AXIS_", 5) ||
           !strncmp(name, "SHARED_", 7) || name[0] == '_' ||
           (name[0] == 'k' && name[1] >= '0' && name[1] <= '9');
}

/* The slot that has the name, or the empty one where it belongs. */
static const char **find(const CNames *s, const char *name)
{
    size_t i = hash_text(name) % s->room;
    while (s->slot[i] && strcmp(s->slot[i], name) != 0)
        i = (i + 1) % s->room;
    return &s->slot[i];
}

static void grow(CNames *s)
{
    const CNames old = *s;
    s->room = 2 * old.room;
    s->slot = NEW_ARRAY(s->arena, const char *, s->room);
    for (size_t i = 0; i < old.room; i++)
        if (old.slot[i])
            *find(s, old.slot[i]) = old.slot[i];
}

static bool add(CNames *s, const char *name)
{
    if (2 * s->n >= s->room)
        grow(s);
    const char **slot = find(s, name);
    if (*slot)
        return false;
    *slot = name;
    s->n++;
    return true;
}

CNames c_names(Arena *a)
{
    CNames s = {.arena = a, .room = 64};
    s.slot = NEW_ARRAY(a, const char *, s.room);
    return s;
}

const char *c_name_unique(CNames *s, const char *base)
{
    const char *name = base;
    for (int i = 2; !add(s, name); i++)
        name = arena_printf(s->arena, "%s_%d", base, i);
    return name;
}

/* "v_" is prefixed to a reserved name. */
const char *c_name(CNames *s, const char *text)
{
    const char *name = c_clean(s->arena, text);
    if (c_is_keyword(name) || is_taken(name) || is_loop_variable(name))
        name = arena_printf(s->arena, "v_%s", name);
    return c_name_unique(s, name);
}
