/* names.c: finds the parameters that a name or pattern selects (--print-shards,
 * --export-only).
 *
 *   layers.0.attention          every parameter below this module
 *   layers.*.attention.wq       '*' is any text without a dot
 *   layers.*.*.lora_*
 *   model                       all parameters
 */
#include <string.h>

#include "common/message.h"
#include "params/params.h"

/* Whether a part of a name, of n characters, matches a part of a pattern. */
static bool matches_part(const char *pattern, size_t k, const char *name,
                         size_t n)
{
    while (k > 0 && *pattern != '*') {
        if (n == 0 || *pattern != *name)
            return false;
        pattern++, k--, name++, n--;
    }
    if (k == 0)
        return n == 0;
    for (;; name++, n--) {
        if (matches_part(pattern + 1, k - 1, name, n))
            return true;
        if (n == 0)
            return false;
    }
}

bool rt_name_matches(const char *pattern, const char *name)
{
    while (*pattern && *name) {
        size_t k = strcspn(pattern, "."), n = strcspn(name, ".");
        if (!matches_part(pattern, k, name, n))
            return false;
        pattern += k + (pattern[k] == '.');
        name += n + (name[n] == '.');
    }
    return *pattern == 0;
}

bool rt_param_matches(const char *pattern, const ParcParam *p, int64_t layer)
{
    char name[RT_NAME];
    rt_param_name(p->name, p, layer, name);
    if (rt_name_matches(pattern, p->name) || rt_name_matches(pattern, name))
        return true;
    for (int i = 0; i < p->nalias; i++) {
        rt_param_name(p->alias[i], p, layer, name);
        if (rt_name_matches(pattern, p->alias[i]) ||
            rt_name_matches(pattern, name))
            return true;
    }
    return false;
}

static bool is_found(const ParcModel *model, const char *pattern)
{
    for (int i = 0; i < model->nparams; i++) {
        const ParcParam *p = &model->param[i];
        for (int64_t l = 0; rt_param_is_weight(p) && l < rt_param_layers(p);
             l++)
            if (rt_param_matches(pattern, p, l))
                return true;
    }
    return false;
}

/* As in a plan, "model" is the model itself, unless a parameter's name begins
 * with it. */
const char *rt_pattern(const ParcModel *model, const char *text)
{
    bool whole = strcmp(text, "model") == 0 && !is_found(model, text);
    return whole ? "" : text;
}

bool rt_pattern_check(const ParcModel *model, const char *option,
                      const char *text)
{
    if (is_found(model, rt_pattern(model, text)))
        return true;
    RT_OWNED const char **names =
        rt_allocate(((size_t)model->nparams + 1) * sizeof *names);
    int n = 0;
    for (int i = 0; i < model->nparams; i++)
        if (rt_param_is_weight(&model->param[i]))
            names[n++] = model->param[i].name;
    const char *near = rt_near_miss(text, names, n);
    if (near)
        return rt_error("%s: no parameter '%s'; did you mean '%s'?", option,
                        text, near);
    return rt_error("%s: no parameter or module '%s'; the first parameter is "
                    "'%s', and 'model' is all of them",
                    option, text, n ? names[0] : "none");
}
