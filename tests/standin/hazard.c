/* hazard.c: finds unordered accesses to device memory; see hazard.h. */
#include "hazard.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "engine.h"
#include "state.h"

enum { GRAIN = 4 };

/* Numbers of operations; 0: none. */
typedef struct Mark {
    uint32_t write, read[HAZARD_STREAMS];
} Mark;

/* The part of an operation that later checks need. */
typedef struct Past {
    const char *name;
    uint32_t index;
    int stream;
} Past;

static struct {
    Mark *mark;
    Past *past;
    uint32_t n, capacity;
    const HazardOp *op;
    uint32_t number; /* number of op */
    bool off;
} hazard;

void age_join(Age *a, const Age *b)
{
    for (int i = 0; i < HAZARD_STREAMS; i++)
        if (b->ended[i] > a->ended[i])
            a->ended[i] = b->ended[i];
}

static void open_marks(void)
{
    int64_t grains = ((int64_t)1 << MEMORY_SPACE_BITS) / GRAIN;
    hazard.mark = mmap(NULL, (size_t)grains * sizeof(Mark),
                       PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (hazard.mark == MAP_FAILED) {
        fprintf(stderr, "standin: memory of accesses: %s\n", strerror(errno));
        abort();
    }
}

void hazard_begin(const HazardOp *op)
{
    hazard.op = op && op->stream >= 0 && !hazard.off ? op : NULL;
    if (!hazard.op)
        return;
    if (!hazard.mark) {
        const char *text = getenv("STANDIN_HAZARDS");
        hazard.off = text && strcmp(text, "0") == 0;
        open_marks();
        hazard_begin(op);
        return;
    }
    memory_open();
    if (hazard.n + 1 >= hazard.capacity) {
        hazard.capacity = hazard.capacity ? 2 * hazard.capacity : 1024;
        hazard.past = realloc(hazard.past, hazard.capacity * sizeof(Past));
    }
    hazard.number = ++hazard.n;
    hazard.past[hazard.n] = (Past){op->name, op->index, op->stream};
}

static inline bool ended(uint32_t number)
{
    const Past *p = &hazard.past[number];
    return p->index <= hazard.op->age.ended[p->stream];
}

/* Returns the conflicting operation, or 0. */
static inline uint32_t touch(Mark *m, bool write)
{
    uint32_t me = hazard.number, other = 0;
    if (m->write && m->write != me && !ended(m->write))
        other = m->write;
    if (!write) {
        m->read[hazard.op->stream] = me;
        return other;
    }
    for (int i = 0; i < HAZARD_STREAMS && !other; i++)
        if (m->read[i] && m->read[i] != me && !ended(m->read[i]))
            other = m->read[i];
    m->write = me;
    return other;
}

static void describe(char *text, int capacity, uint32_t other, bool write,
                     uintptr_t at)
{
    const Past *p = &hazard.past[other];
    char *piece = NULL;
    int64_t bytes = 0;
    memory_piece((const void *)at, &piece, &bytes);
    snprintf(text, (size_t)capacity,
             "'%s' (stream %d) %s device memory "
             "(allocation + %lld), which '%s' (stream %d) uses, with no event "
             "between",
             hazard.op->name, hazard.op->stream, write ? "writes" : "reads",
             (long long)((char *)at - piece), p->name, p->stream);
}

const char *hazard_access(uintptr_t at, int bytes, bool write, char *text,
                          int capacity)
{
    if (!hazard.op)
        return NULL;
    uintptr_t from = at - (uintptr_t)memory_base;
    uintptr_t to = (from + (uintptr_t)bytes - 1) / GRAIN;
    for (uintptr_t i = from / GRAIN; i <= to; i++) {
        Mark *m = &hazard.mark[i];
        if (write ? m->write == hazard.number
                  : m->read[hazard.op->stream] == hazard.number)
            continue;
        uint32_t other = touch(m, write);
        if (other) {
            describe(text, capacity, other, write, at);
            return text;
        }
    }
    return NULL;
}

static inline bool same_mark(const Mark *a, const Mark *b)
{
    uint32_t differs = a->write ^ b->write;
    for (int i = 0; i < HAZARD_STREAMS; i++)
        differs |= a->read[i] ^ b->read[i];
    return !differs;
}

/* Touches grains from … end - 1; returns the first with a conflicting operation in
 * *other, or end. Adjacent grains mostly have equal marks: one of them is checked. */
static uintptr_t touch_range(uintptr_t from, uintptr_t end, bool write, uint32_t *other)
{
    Mark checked = {0}; /* a mark without a conflict */
    for (uintptr_t i = from; i < end; i++) {
        Mark *m = &hazard.mark[i];
        if (write && same_mark(m, &checked)) {
            m->write = hazard.number;
            continue;
        }
        if (!write && m->write == checked.write) {
            m->read[hazard.op->stream] = hazard.number;
            continue;
        }
        const Mark before = *m;
        *other = touch(m, write);
        if (*other)
            return i;
        checked = before;
    }
    return end;
}

bool hazard_touch(const void *at, int64_t bytes, bool write)
{
    char text[400];
    uint32_t other = 0;
    uintptr_t from = (uintptr_t)at - (uintptr_t)memory_base;
    uintptr_t end = from + (uintptr_t)bytes;
    if (!hazard.op || bytes <= 0 || !standin_in_space(at))
        return true;
    if (bytes >= 2 * GRAIN) { /* a neighbor may own half of an end grain */
        from += GRAIN - 1;
        end -= GRAIN - 1;
    }
    uintptr_t i = touch_range(from / GRAIN, (end - 1) / GRAIN + 1, write, &other);
    if (!other)
        return true;
    describe(text, sizeof text, other, write, (uintptr_t)memory_base + i * GRAIN);
    standin_error("%s", text);
    return false;
}

bool hazard_touch_rows(const void *at, int64_t rows, int64_t bytes,
                       int64_t step, bool write)
{
    if (step == bytes)
        return hazard_touch(at, rows * bytes, write);
    for (int64_t i = 0; i < rows; i++)
        if (!hazard_touch((const char *)at + i * step, bytes, write))
            return false;
    return true;
}
