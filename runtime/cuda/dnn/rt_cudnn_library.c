/* rt_cudnn_library.c: opens cuDNN, if it is available, and lets all ranks use it alike.
 *
 * Failures are not errors until a plan has been chosen: if the library is missing, too old or
 * has no engine, parc's own kernels run the calls.
 */
#include "cuda/dnn/rt_cudnn_library.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/message.h"
#include "launch/world.h"

/* The oldest supported version: older ones use other forms of masks and
 * workspaces (before 9.6 the caller clears the sum of dq), and 9.10.0 and
 * 9.10.1 compute wrong gradients. */
enum { LEAST_VERSION = 91002 };

static void open_handle(ParcRt *rt, Cudnn *x)
{
    const RtDevice *d = rt->device;
    x->version = x->call.cudnnGetVersion();
    if (x->version < LEAST_VERSION) {
        snprintf(x->reason, sizeof x->reason, "cuDNN %zu is older than %d",
                 x->version, LEAST_VERSION);
        return;
    }
    DnnStatus s = x->call.cudnnCreate(&x->handle);
    if (s == RT_DNN_SUCCESS)
        s = x->call.cudnnSetStream(x->handle, d->stream[PARC_COMPUTE]);
    if (s != RT_DNN_SUCCESS) {
        snprintf(x->reason, sizeof x->reason, "cuDNN cannot start: %s",
                 x->call.cudnnGetErrorString(s));
        x->handle = NULL;
    }
}

Cudnn *rt_cudnn_open(ParcRt *rt)
{
    RtDevice *d = rt->device;
    if (d->cudnn)
        return d->cudnn;
    Cudnn *x = d->cudnn = rt_allocate(sizeof *x);
    x->last = &x->first;
    x->context.call = &x->call;
    if (!rt_flag(rt, "PARC_CUDNN", true)) {
        snprintf(x->reason, sizeof x->reason, "PARC_CUDNN=0");
        return x;
    }
    x->always = rt_flag(rt, "PARC_CUDNN", false);
    if (rt_cuda_load(&rt_cudnn_library, &x->call, x->reason,
                     sizeof x->reason))
        open_handle(rt, x);
    x->context.handle = x->handle;
    return x;
}

void rt_cudnn_close(ParcRt *rt)
{
    Cudnn *x = rt->device->cudnn;
    if (x && x->handle)
        x->call.cudnnDestroy(x->handle);
    free(x);
    rt->device->cudnn = NULL;
}

/* ---- ranks --------------------------------------------------------------- */

/* Rank 0's choice, which it sends to the others. */
typedef struct Decision {
    int64_t library, version, engine;
} Decision;

void rt_cudnn_agree(ParcRt *rt, const char *what, DnnPlan **plan, char reason[DNN_REASON])
{
    const Cudnn *x = rt->device->cudnn;
    int64_t engine = *plan ? rt_cudnn_plan_engine(*plan) : -1;
    Decision d = {*plan != NULL, (int64_t)x->version, engine};
    rt_share(rt, RT_AT_MATMULS, &d, sizeof d);
    if (!d.library && *plan) {
        rt_cudnn_plan_free(*plan);
        *plan = NULL;
        snprintf(reason, DNN_REASON, "as rank 0");
    }
    if (d.library && ((int64_t)x->version != d.version || engine != d.engine)) {
        char other[64];
        snprintf(other, sizeof other, "cuDNN %zu takes engine %lld", x->version,
                 (long long)engine);
        rt_fail(rt,
                "rank %d: %s runs on cuDNN %lld's engine %lld on rank "
                "0, and cannot here (%s): equal values come from equal "
                "kernels. Install the same cuDNN everywhere, or set "
                "PARC_CUDNN=0",
                rt->rank, what, (long long)d.version, (long long)d.engine,
                *plan ? other : reason);
    }
}

/* ---- calls --------------------------------------------------------------- */

bool rt_cudnn_aligned(const void *const *at, int n)
{
    enum { ALIGNMENT = 16 }; /* as in make_tensor of rt_cudnn_graph.c */
    uintptr_t bits = 0;
    for (int i = 0; i < n; i++)
        bits |= (uintptr_t)at[i];
    return bits % ALIGNMENT == 0;
}

void rt_cudnn_must_run(ParcRt *rt, const char *what, DnnPlan *plan, void *const at[DNN_TENSORS],
                       void *workspace)
{
    const Cudnn *x = rt->device->cudnn;
    DnnStatus s = rt_cudnn_run(plan, at, workspace);
    char where[RT_WHERE];
    if (s != RT_DNN_SUCCESS)
        rt_fail(rt,
                "rank %d: cuDNN %zu's %s%s: %s; PARC_CUDNN=0 "
                "runs without it",
                rt->rank, x->version, what, rt_cuda_where(rt, where),
                x->call.cudnnGetErrorString(s));
}
