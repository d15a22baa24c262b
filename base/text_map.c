/* text_map.c: implements the map from text (text_map.h) with linear probing. At
 * least half of the entries are free, so a lookup takes constant time on
 * average. */
#include "base/text_map.h"

#include "base/hash.h"

#include <string.h>

enum { FIRST_CAPACITY = 64 };

/* The entry of a text with this hash, or the free entry in which it is to be
 * stored. Requires a capacity, and a free entry. */
static TextEntry *entry_of(const TextMap *m, const char *text, uint32_t hash)
{
    size_t i = hash & (m->capacity - 1);
    for (;; i = (i + 1) & (m->capacity - 1)) {
        TextEntry *e = &m->entry[i];
        if (!e->text || (e->hash == hash && strcmp(e->text, text) == 0))
            return e;
    }
}

TextEntry *text_map_find(const TextMap *m, const char *text)
{
    TextEntry *e = m->capacity ? entry_of(m, text, hash_text_32(text)) : NULL;
    return e && e->text ? e : NULL;
}

static void grow(TextMap *m)
{
    const TextMap old = *m;
    m->capacity = old.capacity ? 2 * old.capacity : FIRST_CAPACITY;
    m->entry = NEW_ARRAY(m->arena, TextEntry, m->capacity);
    for (size_t i = 0; i < old.capacity; i++) {
        const TextEntry *e = &old.entry[i];
        if (e->text)
            *entry_of(m, e->text, e->hash) = *e;
    }
}

TextEntry *text_map_add(TextMap *m, const char *text)
{
    if (2 * m->n >= m->capacity)
        grow(m);
    uint32_t hash = hash_text_32(text);
    TextEntry *e = entry_of(m, text, hash);
    if (e->text)
        return NULL;
    m->n++;
    e->text = text;
    e->hash = hash;
    return e;
}

const char *text_map_unique(TextMap *m, const char *text, char separator)
{
    const char *name = text;
    while (!text_map_add(m, name)) {
        int n = ++text_map_find(m, text)->taken;
        name = arena_printf(m->arena, "%s%c%d", text, separator, n + 1);
    }
    return name;
}

TextMap text_map_copy(const TextMap *m)
{
    TextMap copy = *m;
    if (m->capacity)
        copy.entry = arena_copy(m->arena, m->entry,
                                m->capacity * sizeof *m->entry);
    return copy;
}
