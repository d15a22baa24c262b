/* nancheck.c: finds the first result that is not finite (PARC_NANCHECK=1).
 * It also reads environment variables that are 0 or 1.
 *
 * After each statement of a step it checks all results of the statement,
 * before their buffers are reused. It therefore names the statement that
 * produces a NaN, not a later one that propagates it. The results are copied
 * to the host, which is slow but needs no support by the target.
 */
#include <math.h>

#include "common/message.h"
#include "common/type.h"
#include "device.h"
#include "launch/world.h"
#include "rt.h"
#include "trace/trace.h"

enum { PIECE = 4096 };

void rt_nan_open(ParcRt *rt)
{
    rt->nan_check = rt_flag(rt, "PARC_NANCHECK", false);
    rt->nan_work = -1;
}

static int64_t offset_of(const ParcRt *rt, const ParcWork *w,
                         const ParcResult *r, int64_t iteration)
{
    int64_t at[PARC_MAX_LOOPS], offset = r->offset;
    rt_work_iterations(w, iteration, at);
    for (int i = 0; i < w->nloops; i++) {
        int64_t modulo = i == 0 && r->buffers ? r->buffers[rt->nan_stage]
                                              : r->modulo[i];
        int64_t slot = modulo > 0 ? at[i] % modulo : at[i];
        offset += slot * r->stride[i];
    }
    offset += r->shift ? r->shift[rt->nan_stage] : 0;
    return offset + parc_index(rt, r->cut) * r->run;
}

/* The index of the first element that is not finite, and its *value; -1:
 * none. */
static int64_t first_bad(ParcType type, const void *from, int64_t n,
                         float *value)
{
    float x[PIECE];
    for (int64_t at = 0; at < n; at += PIECE) {
        int64_t count = n - at < PIECE ? n - at : PIECE;
        rt_widen(x, type, rt_element(type, from, at), count);
        for (int64_t i = 0; i < count; i++)
            if (!isfinite(x[i])) {
                *value = x[i];
                return at + i;
            }
    }
    return -1;
}

static _Noreturn void report_nan(ParcRt *rt, const ParcWork *w,
                                 int64_t iteration, const ParcResult *r,
                                 int64_t elements, int64_t element, float value)
{
    char where[RT_WHERE];
    rt_fail(rt,
            "step %lld, rank %d:%s, element %lld of %lld of '%s' is %s; all "
            "results before it are finite",
            (long long)atomic_load(&rt->world->status[rt->rank].step), rt->rank,
            rt_work_where(w, iteration, where), (long long)element,
            (long long)elements, r->name,
            isnan(value) ? "not a number" : "infinite");
}

static void check_results(ParcRt *rt, const ParcWork *w, int64_t iteration)
{
    for (int i = 0; i < w->nresults; i++) {
        const ParcResult *r = &w->result[i];
        int64_t offset = offset_of(rt, w, r, iteration);
        int64_t elements = r->part ? r->part[parc_index(rt, rt->model->pipeline)]
                                   : r->elements;
        int64_t bytes = elements * (r->type == PARC_F32 ? 4 : 2);
        float value;
        rt_device_download(rt, offset, bytes);
        int64_t bad = first_bad(r->type, rt->arena + offset, elements, &value);
        if (bad >= 0)
            report_nan(rt, w, iteration, r, elements, bad, value);
    }
}

void rt_nan_mark(ParcRt *rt, int work, int64_t iteration)
{
    if (rt->nan_work >= 0)
        check_results(rt, &rt->model->work[rt->nan_work], rt->nan_iteration);
    rt->nan_work = work;
    rt->nan_iteration = iteration;
    rt->nan_stage = rt->stage;
}
