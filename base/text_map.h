/* text_map.h: a map from text to a number and a pointer, in an arena: a hash
 * table with open addressing. Only lookups use it, so that no output depends on
 * its order.
 */
#ifndef PARC_BASE_TEXT_MAP_H
#define PARC_BASE_TEXT_MAP_H

#include "base/arena.h"

#include <stdint.h>

typedef struct TextEntry {
    const char *text; /* NULL: free */
    uint32_t hash;    /* of the text */
    int taken;        /* how many numbers text_map_unique has tried after it */
    void *value;      /* set by the caller */
} TextEntry;

typedef struct TextMap {
    Arena *arena; /* only the arena is set in an empty map */
    TextEntry *entry;
    size_t n, capacity; /* `capacity` is a power of two, or 0 */
} TextMap;

/* The entry of a text, valid until the next call that adds one; NULL: none. */
TextEntry *text_map_find(const TextMap *m, const char *text);
/* Adds a text, which must live as long as the map; NULL: the map has it. */
TextEntry *text_map_add(TextMap *m, const char *text);
/* Adds a text, or if the map has it, the text with the separator and the first
 * free number from 2 on: "h", "h.2". Returns what it added. */
const char *text_map_unique(TextMap *m, const char *text, char separator);
TextMap text_map_copy(const TextMap *m);

#endif
