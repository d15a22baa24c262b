/* memory_blocks.c: adds blocks to a memory plan, and places values and parts of
 * memory in it. */
#include "passes/memory/memory.h"

#include <string.h>

int64_t memory_align(const Memory *m, int64_t bytes)
{
    int64_t a = m->t->alignment;
    return (bytes + a - 1) / a * a;
}

int memory_add_block(Memory *m, const char *name, MemoryClass class,
                     int64_t bytes, int first, int last)
{
    Block b = {.name = name, .class = class, .bytes = memory_align(m, bytes),
               .first = first, .last = last};
    b.counted = b.bytes;
    vec_push(m->p->arena, &m->block, b);
    return m->block.n - 1;
}

Address memory_new_block(Memory *m, const Value *v, int first, int last)
{
    return (Address){.block = memory_add_block(m, v->name, m->class[v->id],
                                               memory_local_bytes(m, v), first,
                                               last)};
}

void memory_extend(Memory *m, int block, int first, int last)
{
    Block *b = &m->block.at[block];
    if (b->first > first)
        b->first = first;
    if (b->last < last)
        b->last = last;
}

int64_t memory_local_bytes(const Memory *m, const Value *v)
{
    return type_local_bytes(&v->type, &m->p->mesh);
}

void memory_place_value(Memory *m, Value *v, Address at)
{
    v->address = arena_copy(m->p->arena, &at, sizeof at);
}

/* Places the blocks of host memory consecutively, from the arena's end on. */
static void place_host(MemoryPlan *plan)
{
    plan->host = 0;
    for (int i = 0; i < plan->nblocks; i++) {
        Block *b = &plan->block[i];
        if (!b->host)
            continue;
        b->offset = plan->extent + plan->host;
        plan->host += b->bytes;
    }
}

void memory_set_arena(MemoryPlan *plan, const MemoryPlan *training, int64_t own)
{
    plan->own = own;
    if (plan == training) {
        arena_lay_segments(plan);
        place_host(plan);
        return;
    }
    memcpy(plan->segment, training->segment, sizeof plan->segment);
    plan->nsegments = training->nsegments;
    plan->extent = training->extent;
    plan->host = training->host;
    for (int i = 0; i < plan->nblocks; i++)
        if (plan->block[i].training)
            plan->block[i].offset =
                training->block[plan->block[i].training - 1].offset;
}
