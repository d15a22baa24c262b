/* arena.c: an arena allocator: a list of blocks, with a bump pointer in the
 * newest. */
#include "base/arena.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK_SIZE = 256 * 1024, ALIGN = 16, INITIAL_CAPACITY = 8 };

typedef struct Block Block;
struct Block {
    Block *next;
    size_t used, size;
    _Alignas(ALIGN) char data[];
};

struct Arena {
    Block *blocks;
};

_Noreturn void arena_out_of_memory(void)
{
    fputs("parc: error: out of memory\n", stderr);
    exit(1);
}

static void *must(void *p)
{
    if (!p)
        arena_out_of_memory();
    return p;
}

Arena *arena_new(void)
{
    return must(calloc(1, sizeof(Arena)));
}

void arena_free(Arena *a)
{
    while (a->blocks) {
        Block *next = a->blocks->next;
        free(a->blocks);
        a->blocks = next;
    }
    free(a);
}

void arena_reset(Arena *a)
{
    Block *kept = a->blocks;
    if (!kept)
        return;
    a->blocks = kept->next;
    while (a->blocks) {
        Block *next = a->blocks->next;
        free(a->blocks);
        a->blocks = next;
    }
    memset(kept->data, 0, kept->used);
    kept->used = 0;
    kept->next = NULL;
    a->blocks = kept;
}

void *arena_alloc(Arena *a, size_t size)
{
    size = (size + ALIGN - 1) & ~(size_t)(ALIGN - 1);
    Block *b = a->blocks;
    if (!b || b->size - b->used < size) {
        size_t capacity = size > BLOCK_SIZE ? size : BLOCK_SIZE;
        b = must(calloc(1, sizeof(Block) + capacity));
        b->size = capacity;
        /* A large block is inserted after the newest, whose free space stays in
         * use. */
        if (a->blocks && size > BLOCK_SIZE / 2) {
            b->next = a->blocks->next;
            a->blocks->next = b;
        } else {
            b->next = a->blocks;
            a->blocks = b;
        }
    }
    void *p = b->data + b->used;
    b->used += size;
    return p;
}

void *arena_copy(Arena *a, const void *p, size_t n)
{
    void *q = arena_alloc(a, n);
    if (n)
        memcpy(q, p, n);
    return q;
}

char *arena_strndup(Arena *a, const char *s, size_t n)
{
    char *q = arena_alloc(a, n + 1);
    memcpy(q, s, n);
    return q;
}

char *arena_strdup(Arena *a, const char *s)
{
    return arena_strndup(a, s, strlen(s));
}

char *arena_vprintf(Arena *a, const char *fmt, va_list ap)
{
    va_list again;
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, again);
    va_end(again);
    if (n < 0)
        n = 0;
    char *s = arena_alloc(a, (size_t)n + 1);
    vsnprintf(s, (size_t)n + 1, fmt, ap);
    return s;
}

char *arena_printf(Arena *a, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    char *s = arena_vprintf(a, fmt, ap);
    va_end(ap);
    return s;
}

void *vec_grow(Arena *a, void *at, int *capacity, size_t element_size)
{
    int n = *capacity;
    *capacity = n ? 2 * n : INITIAL_CAPACITY;
    return arena_grow(a, at, (size_t)n, (size_t)*capacity, element_size);
}

void *arena_grow(Arena *a, const void *at, size_t n, size_t capacity,
                 size_t size)
{
    void *p = arena_alloc(a, capacity * size);
    if (n)
        memcpy(p, at, n * size);
    return p;
}

bool list_has(const void *at, int n, const void *x)
{
    const char *pointer = at;
    for (int i = 0; i < n; i++, pointer += sizeof x)
        if (memcmp(pointer, &x, sizeof x) == 0)
            return true;
    return false;
}
