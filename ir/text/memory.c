/* memory.c: prints and parses the memory plan, which the header has after the
 * inputs, and the places of values. verify_memory.c checks them.
 *
 *   streams 4
 *   arena own=8192 resident=4096 extent=8192 host=0 align=64 end=58
 *     peak=8192 bound=8000 at=31 classes=[4096, 2048, 0, 0, 2048, 0]
 *   rotation [2, 1]
 *   segment {dp} at=8192 bytes=4096 counted=2048
 *   buffer 0 "w.weight" params at=0 bytes=2048 live=[0, 57]
 *   buffer 1 "h" activations at=4096 bytes=512 live=[3, 9]
 *   …
 *   %y = add %x, %w : f32[8, 64] in 1 forward
 *   %z = exp %y : f32[8, 64] in 2(%zs: 512) forward      a slice of %zs
 *   %g = all_gather{…} %w : f32[16, 64] in_place 0 …     %w's buffer has it
 */
#include <limits.h>

#include "ir/plan/pipeline.h"
#include "ir/text/text.h"

void text_streams(Text *t)
{
    Loc loc = t->tok.loc;
    if (t->out && !t->p->streams)
        return;
    text_begin(t, "streams ");
    text_field(t, "", &t->p->streams);
    if (t->p->streams < 1 || t->p->streams > STREAMS)
        parse_fail(t, loc, "there are 1 to %d streams", STREAMS);
    text_form(t, "\n");
}

/* The plan; NULL if the program that is printed has none. */
static MemoryPlan *plan_of(Text *t)
{
    if (!t->out && !t->p->memory)
        t->p->memory = NEW(t->arena, MemoryPlan);
    return t->p->memory;
}

void text_arena(Text *t)
{
    MemoryPlan *m = plan_of(t);
    if (!m)
        return;
    text_begin(t, "arena");
    text_field(t, " own=", &m->own);
    text_field(t, " resident=", &m->resident);
    text_field(t, " extent=", &m->extent);
    text_field(t, " host=", &m->host);
    text_field(t, " align=", &m->alignment);
    text_field_if(t, m->page, " page=", &m->page);
    text_field(t, " end=", &m->end);
    text_field(t, "\n  peak=", &m->peak);
    text_field(t, " bound=", &m->lower_bound);
    text_field(t, " at=", &m->peak_time);
    text_number(t, " coordinate=", &m->peak_coordinate, INT_MAX);
    Loc loc = t->tok.loc;
    int n = text_list(t, " classes=", MEM_CLASSES, m->at_peak, MEM_CLASSES);
    if (n != MEM_CLASSES)
        parse_fail(t, loc, "there are %d classes of memory", MEM_CLASSES);
    text_form(t, "\n");
}

/* n numbers, one for each stage or coordinate of the pipeline. */
static int64_t *text_numbers(Text *t, const char *form, int n, const int64_t *given)
{
    Loc loc = t->tok.loc;
    int64_t *list = NEW_ARRAY(t->arena, int64_t, MAX_STAGES);
    for (int i = 0; t->out && i < n; i++)
        list[i] = given[i];
    if (text_list(t, form, n, list, MAX_STAGES) != n)
        parse_fail(t, loc, "the pipeline needs %d numbers here", n);
    return list;
}

static void text_rotation(Text *t, Rotation *r)
{
    r->buffers = text_numbers(t, " ", pipeline_stage_count(t->p), r->buffers);
    text_form(t, "\n");
}

void text_rotations(Text *t)
{
    MemoryPlan *m = plan_of(t);
    if (m)
        text_lines(t, "rotation", m->rotation, m->nrotations, Rotation,
                   text_rotation,
                   array_push(t->arena, m->rotation, m->nrotations, x));
}

static void text_segment(Text *t, Segment *s)
{
    text_field(t, " ", &s->axes);
    text_field(t, " at=", &s->offset);
    text_field(t, " bytes=", &s->bytes);
    text_field(t, " counted=", &s->counted);
    text_form(t, "\n");
}

void text_segments(Text *t)
{
    MemoryPlan *m = plan_of(t);
    if (!m)
        return;
    if (m->nsegments == MAX_AXES)
        parse_fail(t, t->tok.loc, "more than %d segments", MAX_AXES);
    text_lines(t, "segment", m->segment, m->nsegments, Segment, text_segment,
               if (!t->failed) m->segment[m->nsegments++] = x);
}

static void text_buffer(Text *t, Block *b)
{
    text_field(t, " ", &b->name);
    b->class = (MemoryClass)text_choice(t, " ", (int)b->class,
                                        memory_class_words,
                                        "a class of memory");
    text_field(t, " at=", &b->offset);
    text_field(t, " bytes=", &b->bytes);
    text_field(t, " live=[", &b->first);
    text_field(t, ", ", &b->last);
    text_form(t, "]");
    text_field_if(t, b->shared, " shared=", &b->shared);
    if (!t->out)
        b->counted = b->bytes;
    text_field_if(t, b->counted != b->bytes, " counted=", &b->counted);
    text_number(t, " training=", &b->training, INT_MAX);
    text_flag(t, " host", &b->host);
    text_number(t, " coordinate=", &b->coordinate, INT_MAX);
    if (text_given(t, b->on, " on="))
        b->on = text_numbers(t, "", pipeline_ranks(t->p), b->on);
    text_form(t, "\n");
}

void text_buffers(Text *t)
{
    MemoryPlan *m = plan_of(t);
    int n = m ? m->nblocks : 0, number = 0;
    for (; t->out && number < n; number++) {
        out(t->out, "buffer %d", number);
        text_buffer(t, &m->block[number]);
    }
    if (t->out)
        return;
    Loc loc = t->tok.loc;
    Block b = {0};
    text_field(t, "", &number);
    if (number != n)
        parse_fail(t, loc, "buffers are numbered from 0");
    text_buffer(t, &b);
    array_push(t->arena, m->block, m->nblocks, b);
}

/* "(%h.4: 4096 mod 2, …)" */
static void text_strides(Text *t, Address *at)
{
    int i = 0;
    do {
        Loc loc = t->tok.loc;
        const Value *of = text_use(t, "", t->out ? at->loop[i]->out[0] : NULL);
        if (of && (!of->def || of->def->kind != OP_loop))
            parse_fail(t, loc, "%%%s is not the result of a loop", of->name);
        if (i == MAX_LOOP_DEPTH)
            parse_fail(t, loc, "more than %d strides", MAX_LOOP_DEPTH);
        if (t->failed)
            return;
        at->loop[i] = of->def;
        text_field(t, ": ", &at->stride[i]);
        text_field_if(t, at->modulo[i], " mod ", &at->modulo[i]);
    } while (text_given(t, ++i < at->nstrides, ", "));
    text_form(t, ")");
    at->nstrides = i;
}

const Address *text_address(Text *t, const Address *given)
{
    Address at = given ? *given : (Address){0};
    text_flag(t, " in_place", &at.in_place);
    if (!at.in_place && !text_given(t, given, " in"))
        return NULL;
    text_field(t, " ", &at.block);
    if (text_given(t, at.nstrides, "("))
        text_strides(t, &at);
    text_field_if(t, at.row, " row ", &at.row);
    text_field_if(t, at.run, " run ", &at.run);
    text_field_if(t, at.cut, " cut ", &at.cut);
    text_number(t, " rotation ", &at.rotation,
                t->p->memory ? t->p->memory->nrotations : 0);
    return t->out ? given : arena_copy(t->arena, &at, sizeof at);
}
