/* fit.c: what a rank needs against --device-memory.
 *
 * The advice is arithmetic on the planned peak: FSDP divides parameters,
 * gradients and optimizer states by the size of the data axis, a smaller
 * batch divides activations.
 */
#include "driver/fit.h"

#include <inttypes.h>

#include "passes/memory.h"

static const char *size_text(Arena *a, int64_t bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double x = (double)bytes;
    int u = 0;
    for (; x >= 1024 && u < 4; u++)
        x /= 1024;
    return arena_printf(a, u ? "%.1f %s" : "%.0f %s", x, units[u]);
}

/* What lies there for the whole step. */
static int64_t model_state(const MemoryPlan *m)
{
    return m->at_peak[MEM_PARAMS] + m->at_peak[MEM_GRADS] +
           m->at_peak[MEM_OPTIMIZER];
}

/* The first axis that splits the batch, or -1. */
static int data_axis(const Program *p)
{
    for (int a = 0; a < p->mesh.n; a++)
        if (!(p->plan.tensor_axes >> a & 1) && p->mesh.size[a] > 1)
            return a;
    return -1;
}

static int64_t data_parts(const Program *p)
{
    int64_t parts = 1;
    for (int a = 0; a < p->mesh.n; a++)
        if (!(p->plan.tensor_axes >> a & 1))
            parts *= p->mesh.size[a];
    return parts;
}

static bool advise_sharding(const Program *p, const MemoryPlan *m,
                            int64_t limit)
{
    int axis = data_axis(p);
    if (p->plan.nunits > 0 || axis < 0)
        return false;
    int64_t state = model_state(m);
    int64_t after = m->peak - state + state / p->mesh.size[axis];
    if (after > limit)
        return false;
    diag_help(p->diag,
              "'fully_shard %s { … }' in the plan would bring it to "
              "about %s",
              p->mesh.name[axis], size_text(p->arena, after));
    return true;
}

static bool advise_batch(const Program *p, const MemoryPlan *m, int64_t limit)
{
    int64_t parts = data_parts(p), activations = m->at_peak[MEM_ACTIVATIONS];
    for (int64_t k = 2; p->train.batch % (k * parts) == 0; k *= 2) {
        int64_t after = m->peak - activations + activations / k;
        if (after > limit)
            continue;
        diag_help(p->diag, "-D batch=%" PRId64 " would bring it to about %s",
                  p->train.batch / k, size_text(p->arena, after));
        return true;
    }
    return false;
}

bool fit_check(const Program *p, const Options *o)
{
    const MemoryPlan *m = p->memory;
    if (o->memory_limit == 0 || m->peak <= o->memory_limit)
        return true;
    diag_error(p->diag, o->device_memory.loc, "a rank needs %s, more than %s",
               size_text(p->arena, m->peak),
               size_text(p->arena, o->memory_limit));
    diag_note(p->diag, p->plan.loc,
              "at the peak: parameters, gradients and optimizer %s, "
              "gathered parameters %s, activations %s",
              size_text(p->arena, model_state(m)),
              size_text(p->arena, m->at_peak[MEM_GATHERED]),
              size_text(p->arena, m->at_peak[MEM_ACTIVATIONS]));
    if (!advise_sharding(p, m, o->memory_limit) &&
        !advise_batch(p, m, o->memory_limit))
        diag_help(p->diag, "a larger mesh would make it fit: what a rank "
                           "holds shrinks with the ranks that share it");
    return false;
}
