/* parse_memory.c: parses the memory plan and the places of values;
 * print_memory.c shows the form, verify_memory.c checks it. */
#include "ir/memory.h"
#include "ir/text/parse.h"

static MemoryPlan *plan_of(Parser *s)
{
    if (!s->p->memory)
        s->p->memory = NEW(s->arena, MemoryPlan);
    return s->p->memory;
}

void parse_streams(Parser *s)
{
    Loc loc = s->tok.loc;
    s->p->streams = parse_small(s);
    if (s->p->streams < 1 || s->p->streams > STREAMS)
        parse_fail(s, loc, "there are 1 to %d streams", STREAMS);
}

void parse_arena(Parser *s)
{
    MemoryPlan *m = plan_of(s);
    m->own = parse_keyed(s, "own");
    m->resident = parse_keyed(s, "resident");
    m->extent = parse_keyed(s, "extent");
    m->host = parse_keyed(s, "host");
    m->alignment = parse_keyed(s, "align");
    m->end = parse_keyed_small(s, "end");
    m->peak = parse_keyed(s, "peak");
    m->lower_bound = parse_keyed(s, "bound");
    m->peak_time = parse_keyed_small(s, "at");
    parse_expect_key(s, "classes");
    Loc loc = s->tok.loc;
    AttrList l = parse_list(s, MEM_CLASSES);
    if (l.n != MEM_CLASSES)
        parse_fail(s, loc, "there are %d classes of memory", MEM_CLASSES);
    for (int i = 0; i < MEM_CLASSES; i++)
        m->at_peak[i] = l.v[i];
}

void parse_segment(Parser *s)
{
    MemoryPlan *m = plan_of(s);
    Segment segment = {.axes = parse_axes(s)};
    segment.offset = parse_keyed(s, "at");
    segment.bytes = parse_keyed(s, "bytes");
    segment.counted = parse_keyed(s, "counted");
    if (m->nsegments == MAX_AXES)
        parse_fail(s, s->tok.loc, "more than %d segments", MAX_AXES);
    else
        m->segment[m->nsegments++] = segment;
}

void parse_buffer(Parser *s)
{
    MemoryPlan *m = plan_of(s);
    Loc loc = s->tok.loc;
    if (parse_small(s) != m->nblocks)
        parse_fail(s, loc, "buffers are numbered from 0");
    Block b = {.name = parse_string(s)};
    b.class = (MemoryClass)parse_choice(s, memory_class_words,
                                        "a class of memory");
    b.offset = parse_keyed(s, "at");
    b.bytes = b.counted = parse_keyed(s, "bytes");
    parse_expect_key(s, "live");
    parse_expect(s, '[');
    b.first = parse_small(s);
    parse_expect(s, ',');
    b.last = parse_small(s);
    parse_expect(s, ']');
    if (parse_take_key(s, "shared"))
        b.shared = parse_axes(s);
    if (parse_take_key(s, "counted"))
        b.counted = parse_int(s);
    if (parse_take_key(s, "training"))
        b.training = parse_small(s) + 1;
    b.host = parse_take_word(s, "host");
    vec_push(s->arena, &s->block, b);
    m->block = s->block.at;
    m->nblocks = s->block.n;
}

/* "(%h.4: 4096 mod 2, …)" */
static void parse_strides(Parser *s, Address *at)
{
    do {
        Loc loc = s->tok.loc;
        const Value *of = parse_use(s);
        if (of && (!of->def || of->def->kind != OP_loop))
            parse_fail(s, loc, "%%%s is not the result of a loop", of->name);
        if (at->nstrides == MAX_LOOP_DEPTH)
            parse_fail(s, loc, "more than %d strides", MAX_LOOP_DEPTH);
        parse_expect(s, ':');
        if (s->failed)
            return;
        at->loop[at->nstrides] = of->def;
        at->stride[at->nstrides] = parse_int(s);
        if (parse_take_word(s, "mod"))
            at->modulo[at->nstrides] = parse_int(s);
        at->nstrides++;
    } while (parse_take(s, ','));
    parse_expect(s, ')');
}

const Address *parse_address(Parser *s)
{
    bool in_place = parse_take_word(s, "in_place");
    if (!in_place && !parse_take_word(s, "in"))
        return NULL;
    Address at = {.in_place = in_place, .block = parse_small(s)};
    if (parse_take(s, '('))
        parse_strides(s, &at);
    if (parse_take_word(s, "row"))
        at.row = parse_int(s);
    if (parse_take_word(s, "run"))
        at.run = parse_int(s);
    if (parse_take_word(s, "cut"))
        at.cut = parse_axes(s);
    return arena_copy(s->arena, &at, sizeof at);
}
