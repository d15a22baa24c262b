/* c_names.c: chooses C identifiers for values, buffers and mesh axes: a name of
 * the model without its dots, with a number if it is in use: wq_weight,
 * wq_weight_2. Names that emitted code uses get the prefix "v_". */
#include "codegen/emit/emitter.h"

#include "base/text.h"

#include <string.h>

/* Names that loop variables have: "layer", "micro_2", "next", "i0". */
static bool is_loop_variable(const char *name)
{
    static const char *const word[] = {"layer", "micro", "chunk", "round", "next",
                                       "stage", "cut", "iteration"};
    for (size_t i = 0; i < sizeof word / sizeof *word; i++) {
        size_t n = strlen(word[i]);
        if (!strncmp(name, word[i], n) && (!name[n] || name[n] == '_'))
            return true;
    }
    return name[0] == 'i' && name[1] >= '0' && name[1] <= '9';
}

/* Names that emitted code or the C library uses. */
static bool is_used_by_emitted_code(const char *name)
{
    static const char *const word[] = {
        "A",          "rt",         "init_constants", "forward", "backward",
        "optimizer",  "step",       "param",          "input",   "model",
        "matmul",     "matmul_spec", "conv", "conv_spec", "collective", "info",           "errno",
        "work",       "kernel",     "image",          "images",
        "eval_init",  "eval_begin", "eval_run",       "outputs_init",
        "outputs_begin", "outputs_run",
        "exp",        "log",        "sqrt",           "tanh",    "erf",
        "sin",        "cos",        "pow",            "abs",     "index",
        "pipeline",   "action",     "order",
        "y0",         "y1",         "j0",             "j1",      "stdin",
        "stdout",     "stderr",     "signal",         "time",    "read",
        "write",
    };
    return table_find(word, name) || starts_with(name, "AT_") ||
           starts_with(name, "AXIS_") || starts_with(name, "SHARED_") ||
           name[0] == '_' ||
           (name[0] == 'k' && name[1] >= '0' && name[1] <= '9');
}

const char *c_name(TextMap *s, const char *text)
{
    const char *name = c_identifier(s->arena, text);
    if (c_is_reserved(name) || is_used_by_emitted_code(name) ||
        is_loop_variable(name))
        name = arena_printf(s->arena, "v_%s", name);
    return text_map_unique(s, name, '_');
}
