/* print_memory.c: prints the memory plan, which the header has after the
 * inputs, and the places of values.
 *
 *   streams 4
 *   arena own=8192 resident=4096 extent=8192 host=0 align=64 end=58
 *     peak=8192 bound=8000 at=31 classes=[4096, 2048, 0, 0, 2048, 0]
 *   segment {dp} at=8192 bytes=4096 counted=2048
 *   buffer 0 "w.weight" params at=0 bytes=2048 live=[0, 57]
 *   buffer 1 "h" activations at=4096 bytes=512 live=[3, 9]
 *   …
 *   %y = add %x, %w : f32[8, 64] in 1 forward
 *   %z = exp %y : f32[8, 64] in 2(%zs: 512) forward      a slice of %zs
 *   %g = all_gather{…} %w : f32[16, 64] in_place 0 …     %w's buffer has it
 */
#include "ir/memory.h"
#include "ir/text/print.h"

static void print_key(Printer *w, const char *key, int64_t n)
{
    out(w->o, " %s=%lld", key, (long long)n);
}

static void print_arena(Printer *w, const MemoryPlan *m)
{
    out(w->o, "arena");
    print_key(w, "own", m->own);
    print_key(w, "resident", m->resident);
    print_key(w, "extent", m->extent);
    print_key(w, "host", m->host);
    print_key(w, "align", m->alignment);
    print_key(w, "end", m->end);
    out(w->o, "\n ");
    print_key(w, "peak", m->peak);
    print_key(w, "bound", m->lower_bound);
    print_key(w, "at", m->peak_time);
    out(w->o, " classes=");
    print_list(w, MEM_CLASSES, m->at_peak);
    out(w->o, "\n");
}

static void print_segment(Printer *w, const Segment *s)
{
    out(w->o, "segment ");
    print_axes(w, s->axes);
    print_key(w, "at", s->offset);
    print_key(w, "bytes", s->bytes);
    print_key(w, "counted", s->counted);
    out(w->o, "\n");
}

static void print_block(Printer *w, int i, const Block *b)
{
    out(w->o, "buffer %d ", i);
    print_string(w, "", b->name);
    out(w->o, " %s", memory_class_words[b->class]);
    print_key(w, "at", b->offset);
    print_key(w, "bytes", b->bytes);
    out(w->o, " live=[%d, %d]", b->first, b->last);
    if (b->shared) {
        out(w->o, " shared=");
        print_axes(w, b->shared);
    }
    if (b->counted != b->bytes)
        print_key(w, "counted", b->counted);
    if (b->training)
        print_key(w, "training", b->training - 1);
    out(w->o, "%s\n", b->host ? " host" : "");
}

void print_memory(Printer *w)
{
    const MemoryPlan *m = w->p->memory;
    if (w->p->streams)
        out(w->o, "streams %d\n", w->p->streams);
    if (!m)
        return;
    print_arena(w, m);
    for (int i = 0; i < m->nsegments; i++)
        print_segment(w, &m->segment[i]);
    for (int i = 0; i < m->nblocks; i++)
        print_block(w, i, &m->block[i]);
}

void print_address(Printer *w, const Value *v)
{
    const Address *at = v->address;
    if (!at)
        return;
    out(w->o, " %s %d", at->in_place ? "in_place" : "in", at->block);
    for (int i = 0; i < at->nstrides; i++) {
        out(w->o, "%s%%%s: %lld", i ? ", " : "(", at->loop[i]->out[0]->name,
            (long long)at->stride[i]);
        if (at->modulo[i])
            out(w->o, " mod %lld", (long long)at->modulo[i]);
    }
    out(w->o, "%s", at->nstrides ? ")" : "");
    if (at->row)
        out(w->o, " row %lld", (long long)at->row);
    if (at->run)
        out(w->o, " run %lld", (long long)at->run);
    if (at->cut) {
        out(w->o, " cut ");
        print_axes(w, at->cut);
    }
}
