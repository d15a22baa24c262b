/* arena.c: an arena allocator: a list of blocks, with a bump pointer in the
 * newest.
 *
 * Blocks grow with their arena. Those of a huge page and more are mapped as such:
 * a page fault for every 4 KiB would take a third of the time of a large plan.
 */
#include "base/arena.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
    BLOCK_SIZE = 256 * 1024, /* of the first block */
    HUGE_PAGE = 2 * 1024 * 1024,
    MOST_BLOCK_SIZE = 4 * HUGE_PAGE,
    ALIGN = 16,
    INITIAL_CAPACITY = 8,
};

/* AddressSanitizer looks for pointers in memory from calloc only. */
#ifdef __SANITIZE_ADDRESS__
enum { MAPS = 0 };
#else
enum { MAPS = 1 };
#endif

typedef struct Block Block;
struct Block {
    Block *next;
    size_t used, size;
    size_t mapped; /* bytes of its mapping; 0: from calloc */
    _Alignas(ALIGN) char data[];
};

struct Arena {
    Block *blocks;
    size_t size; /* of all blocks */
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

/* Maps zeros at a multiple of HUGE_PAGE, in huge pages if the system has them. */
static void *map_huge(size_t bytes)
{
    char *p = mmap(NULL, bytes + HUGE_PAGE, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    size_t before = -(uintptr_t)p % HUGE_PAGE;
    if (before > 0)
        munmap(p, before);
    munmap(p + before + bytes, HUGE_PAGE - before);
    madvise(p + before, bytes, MADV_HUGEPAGE);
    return p + before;
}

static Block *block_new(size_t capacity)
{
    if (capacity > SIZE_MAX / 2)
        arena_out_of_memory();
    size_t bytes = sizeof(Block) + capacity;
    bool huge = MAPS && bytes >= HUGE_PAGE;
    if (huge)
        bytes = (bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
    Block *b = must(huge ? map_huge(bytes) : calloc(1, bytes));
    b->size = bytes - sizeof(Block);
    b->mapped = huge ? bytes : 0;
    return b;
}

static void block_free(Block *b)
{
    if (b->mapped)
        munmap(b, b->mapped);
    else
        free(b);
}

/* Frees all blocks of a list. */
static void blocks_free(Block *b)
{
    while (b) {
        Block *next = b->next;
        block_free(b);
        b = next;
    }
}

Arena *arena_new(void)
{
    return must(calloc(1, sizeof(Arena)));
}

void arena_free(Arena *a)
{
    blocks_free(a->blocks);
    free(a);
}

void arena_reset(Arena *a)
{
    Block *kept = a->blocks;
    if (!kept)
        return;
    blocks_free(kept->next);
    memset(kept->data, 0, kept->used);
    kept->used = 0;
    kept->next = NULL;
    a->size = kept->size;
}

/* The capacity of an arena's next block: as much as it has, within limits. */
static size_t next_size(const Arena *a)
{
    size_t size = a->size > BLOCK_SIZE ? a->size : BLOCK_SIZE;
    return (size < MOST_BLOCK_SIZE ? size : MOST_BLOCK_SIZE) - sizeof(Block);
}

void *arena_alloc(Arena *a, size_t size)
{
    size = (size + ALIGN - 1) & ~(size_t)(ALIGN - 1);
    Block *b = a->blocks;
    if (!b || b->size - b->used < size) {
        size_t usual = next_size(a);
        b = block_new(size > usual ? size : usual);
        a->size += b->size;
        /* A large block is inserted after the newest, whose free space stays in
         * use. */
        if (a->blocks && size > usual / 2) {
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
