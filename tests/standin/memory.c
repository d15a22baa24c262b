/* memory.c: allocates the device's memory in one range of addresses. Other
 * addresses are then easy to recognize, and shadow.c computes the address of a
 * word's history. Addresses are used only once: freed memory stays unmapped. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "engine.h"
#include "state.h"

enum { MAX_PIECES = 6144, ALIGN = 512, PAGE = 4096, REDZONE = 4096 };
#define SPACE ((int64_t)1 << MEMORY_SPACE_BITS)

typedef struct Piece {
    char *at;
    int64_t bytes;
    int64_t mapped; /* with the page after it: a process has a limited number of mappings */
    bool pinned;    /* host memory */
    StandinPinned use;
} Piece;

static struct {
    Piece piece[MAX_PIECES]; /* live, in any order */
    int n, last;             /* last: the result of the last lookup */
    char *end;               /* higher addresses are unused */
    int64_t allocated;
} memory;

char *memory_base;

void memory_open(void)
{
    if (memory_base)
        return;
    memory_base = mmap(NULL, (size_t)SPACE, PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory_base == MAP_FAILED) {
        fprintf(stderr, "standin: device memory: %s\n", strerror(errno));
        abort();
    }
    memory.end = memory_base + PAGE;
}

int64_t standin_capacity(void)
{
    return SPACE / 4;
}

int64_t standin_allocated(void)
{
    return memory.allocated;
}

static char *take(int64_t bytes, bool pinned)
{
    memory_open();
    int64_t pages = (bytes + REDZONE + PAGE - 1) / PAGE * PAGE;
    if (bytes <= 0 || memory.n == MAX_PIECES ||
        (!pinned && memory.allocated + bytes > standin_capacity()) ||
        memory.end + pages + PAGE > memory_base + SPACE)
        return NULL;
    char *at = memory.end;
    memory.end += pages + PAGE;
    if (mprotect(at, (size_t)pages, PROT_READ | PROT_WRITE) != 0)
        return NULL;
    memset(at, 0xff, (size_t)bytes);
    memory.piece[memory.n++] = (Piece){at, bytes, pages, pinned, {0}};
    memory.allocated += pinned ? 0 : bytes;
    return at;
}

/* ---- reserved addresses ---- */

char *standin_reserve(int64_t bytes)
{
    memory_open();
    int64_t pages = (bytes + REDZONE + PAGE - 1) / PAGE * PAGE;
    if (bytes <= 0 || memory.end + pages + PAGE > memory_base + SPACE)
        return NULL;
    char *at = memory.end;
    memory.end += pages + PAGE;
    return at;
}

bool standin_map(char *at, int64_t bytes)
{
    for (int i = 0; i < memory.n; i++)
        if (at < memory.piece[i].at + memory.piece[i].bytes &&
            memory.piece[i].at < at + bytes)
            return false;
    if (at < memory_base || at + bytes > memory.end || memory.n == MAX_PIECES ||
        mprotect(at, (size_t)bytes, PROT_READ | PROT_WRITE) != 0)
        return false;
    memset(at, 0xff, (size_t)bytes);
    memory.piece[memory.n++] = (Piece){at, bytes, bytes, false, {0}};
    return true;
}

void standin_count(int64_t bytes)
{
    memory.allocated += bytes;
}

void *standin_alloc(int64_t bytes)
{
    return take(bytes, false);
}

void *standin_alloc_pinned(int64_t bytes)
{
    return take(bytes, true);
}

/* The allocation that contains `at`, or NULL. */
static Piece *find(const void *at)
{
    uintptr_t a = (uintptr_t)at;
    Piece *p = &memory.piece[memory.last];
    if (memory.last < memory.n && a - (uintptr_t)p->at < (uintptr_t)p->bytes)
        return p;
    for (int i = 0; i < memory.n; i++) {
        p = &memory.piece[i];
        if (a - (uintptr_t)p->at < (uintptr_t)p->bytes) {
            memory.last = i;
            return p;
        }
    }
    return NULL;
}

bool memory_piece(const void *at, char **from, int64_t *bytes)
{
    Piece *p = find(at);
    if (!p)
        return false;
    *from = p->at;
    *bytes = p->bytes;
    return true;
}

bool standin_free(void *at)
{
    Piece *p = find(at);
    if (!p || p->at != at)
        return false;
    mmap(p->at, (size_t)p->mapped, PROT_NONE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    memory.allocated -= p->pinned ? 0 : p->bytes;
    *p = memory.piece[--memory.n];
    return true;
}

bool standin_is_device(const void *at, int64_t bytes)
{
    Piece *p = find(at);
    return p && (const char *)at - p->at + bytes <= p->bytes;
}

bool standin_is_pinned(const void *at, int64_t bytes)
{
    return standin_is_device(at, bytes) && find(at)->pinned;
}

StandinPinned *standin_pinned_use(const void *at)
{
    Piece *p = find(at);
    return p && p->pinned ? &p->use : NULL;
}

bool standin_in_space(const void *at)
{
    return (uintptr_t)at - (uintptr_t)memory_base < (uintptr_t)SPACE;
}

/* Copies the live allocations, in the order of `piece`. No memory may be
 * allocated or freed before memory_restore(). */
void *memory_save(void)
{
    size_t bytes = 1, at = 0;
    for (int i = 0; i < memory.n; i++)
        bytes += (size_t)memory.piece[i].bytes;
    char *saved = malloc(bytes);
    for (int i = 0; saved && i < memory.n; i++) {
        memcpy(saved + at, memory.piece[i].at, (size_t)memory.piece[i].bytes);
        at += (size_t)memory.piece[i].bytes;
    }
    return saved;
}

void memory_restore(const void *saved)
{
    size_t at = 0;
    for (int i = 0; i < memory.n; i++) {
        memcpy(memory.piece[i].at, (const char *)saved + at,
               (size_t)memory.piece[i].bytes);
        at += (size_t)memory.piece[i].bytes;
    }
}
