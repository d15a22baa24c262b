/* rt_nccl_window.c: allocates the arena with NCCL and registers it as a
 * window.
 *
 * NCCL copies through its own buffers unless it knows the memory of a message
 * on all ranks. Offsets in the arena are equal on all ranks, as a symmetric
 * window requires. NCCL's kernels then access the arenas of peers directly,
 * and switches can compute sums (NVLS). This requires memory from
 * ncclMemAlloc.
 *
 * If the library lacks these calls, or a window cannot be created, collectives
 * use NCCL's buffers. All ranks do what rank 0 can do.
 */
#include <dlfcn.h>
#include <string.h>

#include "cuda/core/rt_nccl.h"
#include "launch/world.h"
#include "rt.h"

#define CALL(result, name, suffix, arguments) #name #suffix,
static const char *const symbols[] = {
#include "cuda/api/calls_nccl_window.h"
};
enum { SYMBOLS = sizeof symbols / sizeof *symbols };
_Static_assert(sizeof(CudaNcclWindow) == SYMBOLS * sizeof(void *),
               "a member for each symbol");

/* False if the library lacks one of the calls. */
static bool find_calls(CudaComms *c)
{
    for (int i = 0; i < SYMBOLS; i++) {
        void *address = dlsym(c->library, symbols[i]);
        if (!address)
            return false;
        memcpy((char *)&c->window_call + (size_t)i * sizeof address, &address,
               sizeof address);
    }
    return true;
}

bool rt_nccl_alloc(ParcRt *rt, CuAddress *to, size_t bytes)
{
    CudaComms *c = rt->device->comms;
    void *at = NULL;
    int32_t first = 0;
    if (!c)
        return false;
    bool here = rt_flag(rt, "PARC_NCCL_WINDOW", true) && find_calls(c) &&
                c->window_call.ncclMemAlloc(&at, bytes) == RT_NCCL_SUCCESS;
    first = here;
    rt_share(rt, RT_AT_START, &first, sizeof first);
    if (first && !here)
        rt_fail(rt,
                "rank %d: the arena is NCCL's memory on rank 0, but not here: "
                "install the same NCCL and set PARC_NCCL_WINDOW to the same "
                "value on all ranks", rt->rank);
    if (here && !first)
        c->window_call.ncclMemFree(at);
    c->owns_arena = first;
    *to = rt_cuda_address(at);
    return first;
}

void rt_nccl_register(ParcRt *rt)
{
    RtDevice *d = rt->device;
    CudaComms *c = d->comms;
    for (int i = 0; c && c->owns_arena && i < 1 << rt->model->naxes; i++) {
        if (!c->comm[i])
            continue;
        /* On failure the communicator uses NCCL's own buffers. */
        NcclResult r = c->window_call.ncclCommWindowRegister(
            c->comm[i], (void *)(uintptr_t)d->arena,
            (size_t)rt->model->arena_bytes, &c->window[i],
            RT_NCCL_WINDOW_SYMMETRIC);
        c->window[i] = r == RT_NCCL_SUCCESS ? c->window[i] : NULL;
        c->nwindows += c->window[i] != NULL;
    }
}

void rt_nccl_unregister(ParcRt *rt)
{
    CudaComms *c = rt->device->comms;
    for (int i = 0; c && i < 1 << rt->model->naxes; i++)
        if (c->window[i]) {
            c->window_call.ncclCommWindowDeregister(c->comm[i], c->window[i]);
            c->window[i] = NULL;
        }
}

bool rt_nccl_free(ParcRt *rt, CuAddress arena)
{
    CudaComms *c = rt->device->comms;
    if (!c || !c->owns_arena)
        return false;
    c->window_call.ncclMemFree((void *)(uintptr_t)arena);
    return true;
}
