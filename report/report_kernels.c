/* report_kernels.c: lists the matmuls and the fused kernels in the plan of a
 * CUDA program.
 *
 * A matmul has its sizes, the bytes read and written, and the epilogue that the
 * library computes. A kernel has the bytes that a call reads and writes, and
 * the minimum of their sum, at which every tensor is accessed once. A last list
 * has the tensors that only kernels read and write: a larger kernel might have
 * kept them on the chip.
 */
#include "codegen/contraction.h"
#include "codegen/cuda/cuda_kernel.h"
#include "ir/analysis/uses.h"
#include "report/report.h"
#include "runtime/cuda/core/rt_block_memory.h"

#include <string.h>

/* ---- matmuls ------------------------------------------------------------- */

/* "16384 x 384 x 768", "64 of 1024 x 64 x 1024" */
static const char *sizes(Arena *a, const Contraction *c)
{
    const ParcMatmulSpec *s = &c->spec;
    int64_t many = s->batch;
    for (int i = 0; i < c->nletters; i++)
        many *= c->letter[i].size;
    const char *text = arena_printf(a, "%lld x %lld x %lld", (long long)s->m,
                                    (long long)s->n, (long long)s->k);
    return many > 1 ? arena_printf(a, "%lld of %s", (long long)many, text)
                    : text;
}

void report_matmuls(Out *o, const Program *p)
{
    int n;
    bool head = false;
    const Statement *statement = statements_of(p, &n);
    for (int i = 0; i < n; i++) {
        const Statement *w = &statement[i];
        if (!op_is_einsum(w->op->kind))
            continue;
        if (!head)
            out(o,
                "\nMatmuls (calls per step x minimum bytes per call, on each "
                "rank; m x n x k; result;\nepilogue)\n");
        head = true;
        Contraction c;
        contraction_of(p, w->op, &c);
        const char *with = epilogue_info(c.spec.epilogue)->name;
        out_line(o, "  %4lld x %-11s %-24s %s%s%s", (long long)w->count,
                 bytes_text(p->arena, w->bytes), sizes(p->arena, &c), w->id,
                 *with ? "  with " : "", with);
    }
}

/* ---- kernels ------------------------------------------------------------- */

typedef struct Table {
    Out *o;
    const Program *p;
    Uses uses;
    int number;
    int64_t calls;
    bool head; /* the head of the second list is printed */
} Table;

static const char *row_place(const CudaPlan *c)
{
    static const char *const storage[] = {[CUDA_REGISTERS] = "registers",
                                          [CUDA_SHARED] = "shared",
                                          [CUDA_STREAMED] = "streamed"};
    return c->form == CUDA_ROWS && c->nphases > 1 ? storage[c->storage] : "";
}

static int64_t bytes_of(const CudaPlan *c)
{
    CudaCost cost = cuda_cost(c);
    return cost.read + cost.written;
}

static const char *reason(const Table *t, const CudaPlan *c, CudaCost cost)
{
    Arena *a = t->p->arena;
    const char *text = "";
    if (cost.sums)
        text = arena_printf(a, "; partial sums of %lld blocks: %s", (long long)c->parts,
                            bytes_text(a, 2 * cost.sums));
    if (cost.reread)
        text = arena_printf(a, "%s; rows too long for shared memory: %s", text,
                            bytes_text(a, cost.reread));
    int64_t more = c->low_shared ? bytes_of(c->low_shared) - bytes_of(c) : 0;
    if (more > 0)
        text = arena_printf(
            a, "%s; with %d KiB of shared memory per block: %s more", text,
            RT_SHARED_MIN >> 10, bytes_text(a, more));
    return text;
}

static void kernel_line(Table *t, const Op *op)
{
    const CudaPlan *c = cuda_plan(t->p, op);
    CudaCost cost = cuda_cost(c);
    Arena *a = t->p->arena;
    out_line(t->o, "  %4lld x %-11s %-11s %-11s %-9s  %s%s",
             (long long)t->calls, bytes_text(a, cost.read),
             bytes_text(a, cost.written), bytes_text(a, cost.least),
             row_place(c), kernel_name(t->p, op, t->number),
             reason(t, c, cost));
}

/* ---- between kernels ----------------------------------------------------- */

static const char *join_names(Arena *a, const char *list, const char *more)
{
    return *list ? arena_printf(a, "%s, %s", list, more) : more;
}

/* Follows a value through views; false if anything but a kernel of its phase
 * uses it. */
static bool is_read_by_kernels(const Table *t, const Value *v, Phase phase,
                               const char **names)
{
    int n, reads = 0;
    Op *const *reader = uses_readers(&t->uses, v, &n);
    for (int k = 0; k < n; k++)
        for (int i = 0; i < reader[k]->nargs; i++) {
            const Op *op = reader[k];
            if (op->arg[i] != v)
                continue;
            reads++;
            if (op->phase != phase)
                return false;
            if (fuse_is_view(op->kind)) {
                if (!is_read_by_kernels(t, op->out[0], phase, names))
                    return false;
            } else if (op->kind == OP_fused) {
                *names = join_names(t->p->arena, *names, attr_name(op));
            } else {
                return false;
            }
        }
    return reads == t->uses.count[v->id]; /* else the region yields it */
}

static void between(Table *t, const Op *op)
{
    for (int i = 0; i < op->nouts; i++) {
        const char *names = "";
        if (!is_read_by_kernels(t, op->out[i], op->phase, &names) || !*names)
            continue;
        if (!t->head)
            out_line(t->o, "\nTensors that only kernels read and write (bytes "
                           "per call, on each rank)");
        t->head = true;
        out_line(t->o, "  %-11s  %s, from k%02d to %s",
                 bytes_text(t->p->arena,
                              type_local_bytes(&op->out[i]->type, &t->p->mesh)),
                 op->out[i]->name, t->number, names);
    }
}

/* ---- the whole program --------------------------------------------------- */

static void walk(Table *t, const Region *r, int64_t calls, bool list)
{
    for (const Op *op = r->first; op; op = op->next) {
        if (op->kind == OP_loop)
            walk(t, op->body, calls * loop_trips(op), list);
        if (op->kind != OP_fused)
            continue;
        t->calls = op->phase == PH_INIT ? 0 : calls;
        if (list)
            kernel_line(t, op);
        else
            between(t, op);
        t->number++;
    }
}

void report_kernels(Out *o, const Program *p)
{
    Table t = {.o = o, .p = p, .uses = uses_find(p)};
    out(o, "\nKernels (calls per step x bytes read, bytes written, minimum of "
           "their sum, per call on\n"
           "each rank; where a row is kept between two loops over it; 0 calls: "
           "runs once, before\n"
           "the first step)\n");
    walk(&t, p->step, 1, true);
    t.number = 0;
    walk(&t, p->step, 1, false);
}
