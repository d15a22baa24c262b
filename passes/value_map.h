/* value_map.h: a growing map from values to values, indexed by value id. */
#ifndef PARC_PASSES_VALUE_MAP_H
#define PARC_PASSES_VALUE_MAP_H

#include "ir/ir.h"

typedef struct ValueMap {
    Value **at;
    uint32_t n;
} ValueMap;

/* NULL: v has no entry. */
static inline Value *value_map_get(const ValueMap *m, const Value *v)
{
    return v->id < m->n ? m->at[v->id] : NULL;
}

void value_map_set(Program *p, ValueMap *m, const Value *v, Value *to);

#endif
