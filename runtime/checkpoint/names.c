/* names.c: the names that parameters have in Hugging Face's files.
 *
 * ParcFileTensor.name has a '*' for each stack dim. The number that replaces it
 * is that of the layer in the model, which may differ from its index in a
 * stack: the parameter "layers.4-7.w" stacks the layers 4 to 7.
 *
 *   "model.layers.*.up.weight", index 1 of "layers.4-7.w" ->
 *   "model.layers.5.up.weight"
 */
#include "checkpoint/names.h"
#include "params/params.h"

#include <stdio.h>
#include <string.h>

bool rt_has_file_names(const ParcModel *m)
{
    for (int i = 0; i < m->nparams; i++) {
        if (m->param[i].nfile > 0)
            return true;
    }
    return false;
}

void rt_file_name(const ParcFileTensor *f, const ParcParam *p, int64_t layer,
                  char text[RT_NAME])
{
    int64_t number[PARC_MAX_STACK];
    int stack = 0;
    size_t n = 0;
    rt_param_numbers(p, layer, number);
    for (const char *c = f->name; *c && n < RT_NAME - 24; c++) {
        if (*c == '*' && stack < p->nstack)
            n += (size_t)snprintf(text + n, RT_NAME - n, "%lld",
                                  (long long)number[stack++]);
        else
            text[n++] = *c;
    }
    text[n] = 0;
}

const char *rt_without_prefix(const ParcModel *m, const char *name)
{
    size_t n = m->file_prefix ? strlen(m->file_prefix) : 0;
    return n > 0 && strncmp(name, m->file_prefix, n) == 0 ? name + n : NULL;
}
