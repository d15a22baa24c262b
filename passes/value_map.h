/* value_map.h: a growing map from values to values, indexed by value id. */
#ifndef PARC_PASSES_VALUE_MAP_H
#define PARC_PASSES_VALUE_MAP_H

#include "ir/ir.h"

#include <string.h>

typedef struct ValueMap {
    Value **at;
    uint32_t n;
} ValueMap;

/* NULL: v has no entry. */
static inline Value *value_map_get(const ValueMap *m, const Value *v)
{
    return v->id < m->n ? m->at[v->id] : NULL;
}

static inline void value_map_set(Program *p, ValueMap *m, const Value *v,
                                 Value *to)
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

#endif
