/* value_map.c: a growing map from values to values, indexed by value id. */
#include "passes/value_map.h"

#include <string.h>

void value_map_set(Program *p, ValueMap *m, const Value *v, Value *to)
{
    if (v->id >= m->n) {
        uint32_t n = p->nvalues + p->nvalues / 4 + 64;
        Value **grown = NEW_ARRAY(p->arena, Value *, n);
        if (m->n > 0)
            memcpy(grown, m->at, m->n * sizeof *grown);
        m->at = grown;
        m->n = n;
    }
    m->at[v->id] = to;
}
