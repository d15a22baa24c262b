/* rt_cuda_copy.c: copies between the host mirror and the device and within the
 * device, clears memory, and reads a step's scalar results.
 *
 * Copies use pinned memory in two halves. The mirror may change as soon as an
 * upload returns, and the device reads one half at full speed while the host
 * fills the other. All copies are enqueued on the compute stream, in order
 * with the step.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/message.h"
#include "common/type.h"
#include "cuda/core/rt_cuda.h"
#include "device.h"
#include "launch/world.h"
#include "rt.h"

enum { STAGE_BYTES = 8 << 20, STAGE_ALIGN = 64 };

void rt_cuda_stage_open(ParcRt *rt)
{
    RtDevice *d = rt->device;
    CudaStage *s = &d->stage;
    int64_t arena = rt->model->arena_bytes;
    s->capacity =
        arena < STAGE_BYTES ? (size_t)arena + STAGE_ALIGN : STAGE_BYTES;
    for (int i = 0; i < RT_STAGES; i++) {
        void *half = NULL;
        CU(rt, cuMemHostAlloc(&half, s->capacity, RT_CU_HOST_PORTABLE));
        s->half[i] = half;
        CU(rt, cuEventCreate(&s->read[i], RT_CU_EVENT_DISABLE_TIMING));
    }
    void *value = NULL;
    CU(rt, cuMemHostAlloc(&value, RT_RESULTS * sizeof *d->results.value,
                          RT_CU_HOST_PORTABLE));
    d->results.value = value;
    CU(rt, cuEventCreate(&d->results.there, RT_CU_EVENT_DISABLE_TIMING));
}

void rt_cuda_stage_close(ParcRt *rt)
{
    RtDevice *d = rt->device;
    CudaStage *s = &d->stage;
    for (int i = 0; i < RT_STAGES; i++) {
        if (s->half[i])
            CU(rt, cuMemFreeHost(s->half[i]));
        if (s->read[i])
            CU(rt, cuEventDestroy(s->read[i]));
    }
    if (d->results.value) {
        CU(rt, cuMemFreeHost(d->results.value));
        CU(rt, cuEventDestroy(d->results.there));
    }
    while (d->constants) {
        CudaConstant *c = d->constants;
        d->constants = c->next;
        CU(rt, cuMemFreeHost(c->host));
        free(c);
    }
}

/* Switches to the other half, once the device has read its previous
 * contents. */
static void next_half(ParcRt *rt)
{
    RtDevice *d = rt->device;
    CudaStage *s = &d->stage;
    CU(rt, cuEventRecord(s->read[s->at], d->stream[PARC_COMPUTE]));
    s->busy[s->at] = true;
    s->at = (s->at + 1) % RT_STAGES;
    s->used = 0;
    if (s->busy[s->at]) {
        rt_cuda_wait_event(rt, s->read[s->at], "an upload");
        s->busy[s->at] = false;
    }
}

char *rt_cuda_stage_space(ParcRt *rt, int64_t left, size_t *piece)
{
    CudaStage *s = &rt->device->stage;
    if (s->used + STAGE_ALIGN > s->capacity)
        next_half(rt);
    size_t free_bytes = s->capacity - s->used;
    *piece = (size_t)left < free_bytes ? (size_t)left : free_bytes;
    char *at = s->half[s->at] + s->used;
    s->used += (*piece + STAGE_ALIGN - 1) / STAGE_ALIGN * STAGE_ALIGN;
    return at;
}

/* Frees the pages of large ranges of the mirror: a hole in shared memory,
 * zeros on the next access in private memory. */
static void give_back(const ParcRt *rt, int64_t offset, int64_t bytes)
{
    enum { SMALL = 1 << 20 };
    if (bytes < SMALL)
        return;
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t begin = (uintptr_t)(rt->arena + offset);
    uintptr_t end = (begin + (uintptr_t)bytes) / page * page;
    begin = (begin + page - 1) / page * page;
    if (begin < end)
        madvise((void *)begin, end - begin,
                rt->nranks > 1 ? MADV_REMOVE : MADV_DONTNEED);
}

/* Copies bytes of the mirror to the device or back, in pieces of the staging
 * memory. */
static void copy_mirror(ParcRt *rt, int64_t offset, int64_t bytes, bool upload)
{
    RtDevice *d = rt->device;
    CuStream stream = d->stream[PARC_COMPUTE];
    size_t piece;
    if (offset >= rt->model->arena_bytes) {
        rt_cuda_host_copy(rt, offset, bytes, upload);
        return;
    }
    for (int64_t done = 0; done < bytes; done += (int64_t)piece) {
        char *stage = rt_cuda_stage_space(rt, bytes - done, &piece);
        char *host = rt->arena + offset + done;
        CuAddress at = d->arena + (CuAddress)(offset + done);
        if (upload) {
            memcpy(stage, host, piece);
            CU(rt, cuMemcpyHtoDAsync(at, stage, piece, stream));
        } else {
            CU(rt, cuMemcpyDtoHAsync(stage, at, piece, stream));
            rt_cuda_wait_stream(rt, PARC_COMPUTE, "the step");
            memcpy(host, stage, piece);
        }
    }
}

void rt_device_upload(ParcRt *rt, int64_t offset, int64_t bytes)
{
    if (rt->device) {
        copy_mirror(rt, offset, bytes, true);
        give_back(rt, offset, bytes);
    }
}

void rt_device_download(ParcRt *rt, int64_t offset, int64_t bytes)
{
    if (rt->device)
        copy_mirror(rt, offset, bytes, false);
}

/* ---- the staging buffer of --save-async ---------------------------------- */

char *rt_device_staging(ParcRt *rt, int64_t bytes)
{
    RtDevice *d = rt->device;
    void *at = NULL;
    char size[32], why[RT_WHERE];
    CuResult r = d->cu.cuMemHostAlloc(&at, (size_t)bytes, RT_CU_HOST_PORTABLE);
    if (r != RT_CU_SUCCESS)
        rt_fail(rt,
                "--save-async: the driver cannot pin %s for the staging buffer "
                "of a rank: %s; 'ulimit -l' and the machine's memory are the "
                "limits",
                rt_size_text((double)bytes, size), rt_cuda_reason(d, r, why));
    return at;
}

void rt_device_staging_free(ParcRt *rt, char *at, int64_t bytes)
{
    (void)bytes;
    CU(rt, cuMemFreeHost(at));
}

void rt_device_stage(ParcRt *rt, char *to, int64_t offset, int64_t bytes)
{
    RtDevice *d = rt->device;
    int64_t arena = rt->model->arena_bytes;
    if (offset >= arena) {
        rt_cuda_wait_stream(rt, PARC_COMPUTE, "the step");
        memcpy(to, d->host + (offset - arena), (size_t)bytes);
        return;
    }
    CU(rt, cuMemcpyDtoHAsync(to, d->arena + (CuAddress)offset, (size_t)bytes,
                             d->stream[PARC_COMPUTE]));
}

void rt_device_staged(ParcRt *rt)
{
    rt_cuda_wait_stream(rt, PARC_COMPUTE, "the copy of the state");
}

/* ---- results of a step --------------------------------------------------- */

void rt_device_ask(ParcRt *rt, int64_t offset)
{
    RtDevice *d = rt->device;
    CudaResults *r = &d->results;
    r->offset[r->n] = offset;
    CU(rt, cuMemcpyDtoHAsync(&r->value[r->n], d->arena + (CuAddress)offset,
                             sizeof *r->value, d->stream[PARC_COMPUTE]));
    r->n++;
    CU(rt, cuEventRecord(r->there, d->stream[PARC_COMPUTE]));
}

void rt_device_results(ParcRt *rt)
{
    CudaResults *r = &rt->device->results;
    if (r->n > 0)
        rt_cuda_wait_event(rt, r->there, "the step");
    for (int i = 0; i < r->n; i++)
        memcpy(rt->arena + r->offset[i], &r->value[i], sizeof *r->value);
    r->n = 0;
}

/* ---- within the arena ---------------------------------------------------- */

char *parc_arena(ParcRt *rt)
{
    return (char *)(uintptr_t)rt->device->arena;
}

void parc_move(ParcRt *rt, void *to, const void *from, int64_t bytes)
{
    const RtDevice *d = rt->device;
    CU(rt, cuMemcpyDtoDAsync(rt_cuda_address(to), rt_cuda_address(from),
                             (size_t)bytes, d->stream[PARC_COMPUTE]));
    rt_cuda_queued(rt, PARC_COMPUTE, "a copy");
}

void parc_zero(ParcRt *rt, void *to, int64_t bytes)
{
    const RtDevice *d = rt->device;
    CU(rt, cuMemsetD8Async(rt_cuda_address(to), 0, (size_t)bytes,
                           d->stream[PARC_COMPUTE]));
    rt_cuda_queued(rt, PARC_COMPUTE, "zeros");
}

/* Pinned memory with the contents of `host`, which lives as long as the run.
 * Later eager steps reuse it. */
static const void *constant(ParcRt *rt, const void *to, const void *host,
                            size_t bytes)
{
    RtDevice *d = rt->device;
    for (CudaConstant *c = d->constants; c; c = c->next)
        if (c->to == to && c->bytes == bytes &&
            memcmp(c->host, host, bytes) == 0)
            return c->host;
    CudaConstant *c = rt_allocate(sizeof *c);
    *c = (CudaConstant){.next = d->constants, .to = to, .bytes = bytes};
    CU(rt, cuMemHostAlloc(&c->host, bytes, RT_CU_HOST_PORTABLE));
    memcpy(c->host, host, bytes);
    d->constants = c;
    return c->host;
}

void parc_set_index(ParcRt *rt, int64_t *to, int64_t parts, int64_t dim,
                    int64_t index, int64_t part)
{
    parc_set_pieces(rt, to, parts, dim, 1, index, index, part);
}

void parc_set_pieces(ParcRt *rt, int64_t *to, int64_t parts, int64_t dim, int64_t held,
                     int64_t first, int64_t second, int64_t part)
{
    const RtDevice *d = rt->device;
    size_t bytes = (size_t)(parts * held) * sizeof *to;
    int64_t *values = rt_allocate(bytes);
    rt_set_pieces(values, parts, dim, held, first, second, part);
    CU(rt, cuMemcpyHtoDAsync(rt_cuda_address(to),
                             constant(rt, to, values, bytes), bytes,
                             d->stream[PARC_COMPUTE]));
    free(values);
    rt_cuda_queued(rt, PARC_COMPUTE, "an index");
}
