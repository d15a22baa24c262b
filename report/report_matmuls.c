/* report_matmuls.c: lists the matmuls in the plan of a CUDA program: sizes,
 * bytes read and written, and the epilogue that the library computes. */
#include "codegen/contraction.h"
#include "report/report.h"
#include "codegen/work/work.h"

/* "16384 x 384 x 768", "64 of 1024 x 64 x 1024" */
static const char *sizes(Arena *a, const Contraction *c)
{
    const ParcMatmulSpec *s = &c->spec;
    int64_t many = s->batch;
    for (int i = 0; i < c->nletters; i++)
        many *= c->letter[i].size;
    if (c->plain)
        return "no matmul";
    const char *text = arena_printf(a, "%lld x %lld x %lld", (long long)s->m,
                                    (long long)s->n, (long long)s->k);
    return many > 1 ? arena_printf(a, "%lld of %s", (long long)many, text)
                    : text;
}

void report_matmuls(Out *o, const Program *p)
{
    int n;
    bool head = false;
    const WorkInfo *work = work_of(p, &n);
    for (int i = 0; i < n; i++) {
        const WorkInfo *w = &work[i];
        if (!op_is_einsum(w->op->kind))
            continue;
        if (!head) {
            out_line(o, "");
            out_line(o, "Matmuls (calls per step x minimum bytes per call, on "
                        "each rank; m x n x k; result;");
            out_line(o, "epilogue)");
        }
        head = true;
        Contraction c;
        contraction_of(p, w->op, &c);
        const char *with = epilogue_info(c.spec.epilogue)->name;
        out_line(o, "  %4lld x %-11s %-24s %s%s%s", (long long)w->count,
                 bytes_text(p->arena, w->bytes), sizes(p->arena, &c), w->id,
                 *with ? "  with " : "", with);
    }
}
