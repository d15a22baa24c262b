/* cuda.c: implements libcuda.so.1 for tests: the calls of
 * runtime/cuda/api/calls_driver.h and tests/gpu/calls_loopback.h on the host's
 * memory. Kernels come from the object that STANDIN_KERNELS names; work is
 * queued as queue.h describes.
 *
 * STANDIN_DEVICES is the number of GPUs (8), STANDIN_CAPABILITY their compute
 * capability (9.0), STANDIN_FREE the free bytes of a GPU (all), STANDIN_SHARED
 * the shared memory that a block may have, STANDIN_UNITS the number of SMs (4),
 * STANDIN_DRIVER the driver's version (13000), which decides whether it loads
 * the images of newer compilers. STANDIN_STALL names work that
 * never ends (see below). STANDIN_CALLS names a log file: a line for each
 * launch of a graph, each copy to the device with its bytes, and each query
 * whether work has ended (the first of several in a row).
 *
 * What the documentation leaves open: STANDIN_NO_HOST_MEMSET=call|graph: a
 * memset of host memory is refused in a capture, by its own call or when the
 * graph is instantiated. STANDIN_PITCH=N: copies of rows are refused unless
 * both distances are multiples of N.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/api/api.h"
#include "engine.h"
#include "hazard.h"
#include "queue.h"

#define CALL(result, name, suffix, arguments)                                  \
    result name arguments __asm__(#name #suffix);
#include "cuda/api/calls_driver.h"

#include "calls_loopback.h"

enum { VERSION = 13000, LIMIT_SHARED = 48 << 10, MOST_SHARED = 227 << 10 };

struct CuContextObject {
    int device, users;
};

struct CuFunctionObject {
    const StandinKernel *kernel;
    const StandinModule *module;
    int64_t granted; /* dynamic shared memory */
};

struct CuModuleObject {
    void *so;
    const StandinModule *module;
    struct CuFunctionObject *function;
};

/* The state is global, as the driver's interface has no context argument. */
static struct {
    bool begun;
    struct CuContextObject context;
    CuContext current;
} driver;

/* Every call begins and ends with these. */
static CuResult enter(void)
{
    queue_lock();
    if (!driver.begun)
        return SC_NOT_INITIALIZED;
    return queue_error();
}

static CuResult leave(CuResult r)
{
    queue_unlock();
    return r;
}

static CuResult enter_context(void)
{
    CuResult r = enter();
    return r ? r : driver.current ? RT_CU_SUCCESS : SC_INVALID_CONTEXT;
}

static int64_t number(const char *name, int64_t otherwise)
{
    const char *text = getenv(name);
    return text && *text ? strtoll(text, NULL, 10) : otherwise;
}

/* Writes a line to the file STANDIN_CALLS. */
static void note_call(const char *what, size_t bytes)
{
    static FILE *f;
    static const char *last = "";
    const char *path = getenv("STANDIN_CALLS");
    if (!path || (bytes == 0 && strcmp(what, last) == 0))
        return;
    last = what;
    f = f ? f : fopen(path, "w");
    if (f) {
        fprintf(f, "%s %zu\n", what, bytes);
        fflush(f);
    }
}

static int most_shared(void)
{
    return (int)number("STANDIN_SHARED", MOST_SHARED);
}

/* ---- devices ---- */

CuResult cuInit(unsigned int flags)
{
    queue_lock();
    driver.begun = true;
    return leave(flags ? SC_INVALID_VALUE
                 : number("STANDIN_DEVICES", 8) ? RT_CU_SUCCESS
                                                : RT_CU_NO_DEVICE);
}

CuResult cuDriverGetVersion(int *version)
{
    *version = (int)number("STANDIN_DRIVER", VERSION);
    return RT_CU_SUCCESS;
}

typedef struct Message {
    CuResult code;
    const char *name, *text;
} Message;

static const Message messages[] = {
    {RT_CU_SUCCESS, "CUDA_SUCCESS", "no error"},
    {SC_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {RT_CU_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {SC_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {RT_CU_NO_DEVICE, "CUDA_ERROR_NO_DEVICE",
     "no CUDA-capable device is detected"},
    {SC_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {SC_INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE",
     "device kernel image is invalid"},
    {SC_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT",
     "invalid device context"},
    {SC_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {RT_CU_NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {RT_CU_NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready"},
    {SC_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS",
     "an illegal memory access was encountered"},
    {SC_LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED",
     "unspecified launch failure"},
    {SC_CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
     "operation not permitted when stream is capturing"},
    {SC_CAPTURE_INVALIDATED, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
     "operation failed due to a previous error during capture"},
    {SC_CAPTURE_UNMATCHED, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED",
     "capture was not ended in the same stream as it began"},
    {SC_CAPTURE_UNJOINED, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED",
     "capturing stream has unjoined work"},
    {SC_CAPTURE_ISOLATION, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION",
     "dependency created on uncaptured work in another stream"},
    {SC_CAPTURED_EVENT, "CUDA_ERROR_CAPTURED_EVENT",
     "operation not permitted on an event last recorded in a capturing stream"},
};

static const Message *message(CuResult code)
{
    for (size_t i = 0; i < sizeof messages / sizeof *messages; i++)
        if (messages[i].code == code)
            return &messages[i];
    return NULL;
}

CuResult cuGetErrorName(CuResult error, const char **name)
{
    const Message *m = message(error);
    *name = m ? m->name : NULL;
    return m ? RT_CU_SUCCESS : SC_INVALID_VALUE;
}

CuResult cuGetErrorString(CuResult error, const char **text)
{
    const Message *m = message(error);
    *text = m ? m->text : NULL;
    return m ? RT_CU_SUCCESS : SC_INVALID_VALUE;
}

CuResult cuDeviceGetCount(int *count)
{
    CuResult r = enter();
    *count = (int)number("STANDIN_DEVICES", 8);
    return leave(r);
}

CuResult cuDeviceGet(CuDevice *device, int ordinal)
{
    CuResult r = enter();
    *device = ordinal;
    if (ordinal < 0 || ordinal >= number("STANDIN_DEVICES", 8))
        r = SC_INVALID_DEVICE;
    return leave(r);
}

CuResult cuDeviceGetName(char *name, int capacity, CuDevice device)
{
    CuResult r = enter();
    (void)device;
    snprintf(name, (size_t)capacity, "parc stand-in GPU");
    return leave(r);
}

CuResult cuDeviceGetAttribute(int *value, CuAttribute attribute,
                              CuDevice device)
{
    CuResult r = enter();
    const char *capability = getenv("STANDIN_CAPABILITY");
    int major = 9, minor = 0;
    (void)device;
    if (capability)
        sscanf(capability, "%d.%d", &major, &minor);
    switch (attribute) {
    case RT_CU_SM_COUNT: *value = (int)number("STANDIN_UNITS", 4); break;
    case RT_CU_MAJOR: *value = major; break;
    case RT_CU_MINOR: *value = minor; break;
    case RT_CU_SHARED_OPTIN: *value = most_shared(); break;
    default:
        standin_error("attribute %u of a device is not known here", attribute);
        r = SC_INVALID_VALUE;
    }
    return leave(r);
}

CuResult cuDeviceGetPCIBusId(char *id, int capacity, CuDevice device)
{
    snprintf(id, (size_t)capacity, "0000:%02X:00.0", 0x1b + (unsigned)device);
    return RT_CU_SUCCESS;
}

CuResult cuDevicePrimaryCtxRetain(CuContext *context, CuDevice device)
{
    CuResult r = enter();
    driver.context.device = device;
    driver.context.users++;
    *context = &driver.context;
    return leave(r);
}

CuResult cuDevicePrimaryCtxRelease(CuDevice device)
{
    CuResult r = enter();
    (void)device;
    if (driver.context.users-- == 1) {
        driver.current = NULL;
        if (standin_allocated() > 0)
            standin_error("the context ends while %lld bytes of memory are "
                          "still allocated",
                          (long long)standin_allocated());
    }
    return leave(r);
}

CuResult cuCtxSetCurrent(CuContext context)
{
    CuResult r = enter();
    if (context && (context != &driver.context || context->users < 1))
        r = SC_INVALID_CONTEXT;
    else
        driver.current = context;
    return leave(r);
}

CuResult cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
    CuResult r = enter_context();
    *least = 0;
    *greatest = -5;
    return leave(r);
}

/* ---- memory ---- */

static int64_t capacity(void)
{
    int64_t all = standin_capacity(), most = number("STANDIN_FREE", all);
    return most < all ? most : all;
}

CuResult cuMemGetInfo(size_t *free_bytes, size_t *total)
{
    CuResult r = enter_context();
    *total = (size_t)standin_capacity();
    *free_bytes = (size_t)(capacity() - standin_allocated());
    return leave(r);
}

static CuResult allocate(void **to, size_t bytes, bool pinned)
{
    *to = NULL;
    if (bytes == 0)
        return SC_INVALID_VALUE;
    if (queue_is_restricted())
        return SC_CAPTURE_UNSUPPORTED;
    if (pinned)
        *to = standin_alloc_pinned((int64_t)bytes);
    else if (standin_allocated() + (int64_t)bytes <= capacity())
        *to = standin_alloc((int64_t)bytes);
    return *to ? RT_CU_SUCCESS : RT_CU_OUT_OF_MEMORY;
}

CuResult cuMemAlloc(CuAddress *to, size_t bytes)
{
    CuResult r = enter_context();
    void *at = NULL;
    r = r ? r : allocate(&at, bytes, false);
    *to = (CuAddress)(uintptr_t)at;
    return leave(r);
}

static CuResult release(void *at)
{
    if (standin_free(at))
        return RT_CU_SUCCESS;
    standin_error("%p is freed, which is no allocation", at);
    return SC_INVALID_VALUE;
}

CuResult cuMemFree(CuAddress at)
{
    CuResult r = enter_context();
    return leave(r ? r : release((void *)(uintptr_t)at));
}

/* ---- memory at reserved addresses ---- */

enum { MAPPED_PAGE = 2 << 20, MAX_HANDLES = 4096 };
static struct {
    int64_t bytes[MAX_HANDLES]; /* by handle - 1; 0: free or released */
    int n;
} handles;

/* The place of memory, which must be pinned memory of the rank's device. */
static bool is_known_kind(const CuMemoryKind *kind)
{
    return kind && kind->type == RT_CU_PINNED && kind->handles == 0 &&
           kind->where.type == RT_CU_LOCATION_DEVICE;
}

CuResult cuMemGetAllocationGranularity(size_t *bytes, const CuMemoryKind *kind,
                                       CuMemoryOption option)
{
    CuResult r = enter_context();
    *bytes = MAPPED_PAGE;
    return leave(r ? r
                 : is_known_kind(kind) && option == RT_CU_LEAST_GRANULARITY
                     ? RT_CU_SUCCESS
                     : RT_CU_INVALID_VALUE);
}

CuResult cuMemAddressReserve(CuAddress *at, size_t bytes, size_t alignment,
                             CuAddress wish, unsigned long long flags)
{
    CuResult r = enter_context();
    bool fits = bytes > 0 && bytes % MAPPED_PAGE == 0 && !alignment && !wish &&
                !flags;
    *at = fits && !r ? (CuAddress)(uintptr_t)standin_reserve((int64_t)bytes) : 0;
    return leave(r ? r : *at ? RT_CU_SUCCESS : RT_CU_INVALID_VALUE);
}

CuResult cuMemAddressFree(CuAddress at, size_t bytes)
{
    CuResult r = enter_context();
    return leave(r ? r : at && bytes ? RT_CU_SUCCESS : RT_CU_INVALID_VALUE);
}

CuResult cuMemCreate(CuMemoryHandle *handle, size_t bytes,
                     const CuMemoryKind *kind, unsigned long long flags)
{
    CuResult r = enter_context();
    *handle = 0;
    if (r)
        return leave(r);
    if (!is_known_kind(kind) || flags || bytes == 0 || bytes % MAPPED_PAGE ||
        handles.n == MAX_HANDLES)
        return leave(RT_CU_INVALID_VALUE);
    if (standin_allocated() + (int64_t)bytes > capacity())
        return leave(RT_CU_OUT_OF_MEMORY);
    standin_count((int64_t)bytes);
    handles.bytes[handles.n++] = (int64_t)bytes;
    *handle = (CuMemoryHandle)handles.n;
    return leave(RT_CU_SUCCESS);
}

/* A mapping keeps the memory. */
CuResult cuMemRelease(CuMemoryHandle handle)
{
    CuResult r = enter_context();
    bool live = handle >= 1 && handle <= (CuMemoryHandle)handles.n &&
                handles.bytes[handle - 1] > 0;
    if (live)
        handles.bytes[handle - 1] = 0;
    return leave(r ? r : live ? RT_CU_SUCCESS : RT_CU_INVALID_VALUE);
}

CuResult cuMemMap(CuAddress at, size_t bytes, size_t offset,
                  CuMemoryHandle handle, unsigned long long flags)
{
    CuResult r = enter_context();
    bool fits = handle >= 1 && handle <= (CuMemoryHandle)handles.n &&
                handles.bytes[handle - 1] == (int64_t)bytes && !offset &&
                !flags && standin_map((char *)(uintptr_t)at, (int64_t)bytes);
    return leave(r ? r : fits ? RT_CU_SUCCESS : RT_CU_INVALID_VALUE);
}

CuResult cuMemSetAccess(CuAddress at, size_t bytes, const CuMemoryAccess *access,
                        size_t n)
{
    CuResult r = enter_context();
    bool fits = n == 1 && access->flags == RT_CU_READ_WRITE &&
                access->where.type == RT_CU_LOCATION_DEVICE &&
                standin_is_device((void *)(uintptr_t)at, (int64_t)bytes);
    return leave(r ? r : fits ? RT_CU_SUCCESS : RT_CU_INVALID_VALUE);
}

CuResult cuMemUnmap(CuAddress at, size_t bytes)
{
    CuResult r = enter_context();
    bool whole = standin_is_device((void *)(uintptr_t)at, (int64_t)bytes);
    return leave(r ? r : whole ? release((void *)(uintptr_t)at)
                               : RT_CU_INVALID_VALUE);
}

CuResult cuMemHostAlloc(void **to, size_t bytes, unsigned int flags)
{
    CuResult r = enter_context();
    (void)flags;
    return leave(r ? r : allocate(to, bytes, true));
}

CuResult cuMemFreeHost(void *at)
{
    CuResult r = enter_context();
    return leave(r ? r : release(at));
}

/* Host memory that the program registered: copies may use it like pinned
 * memory. Its contents are not checked, since host functions on streams write
 * it between copies. */
enum { MAX_REGISTERED = 64 };
static struct {
    const char *at;
    size_t bytes;
} registered[MAX_REGISTERED];

static int registered_at(const void *at, size_t bytes)
{
    uintptr_t a = (uintptr_t)at;
    for (int i = 0; i < MAX_REGISTERED; i++)
        if (registered[i].at && a >= (uintptr_t)registered[i].at &&
            a + bytes <= (uintptr_t)registered[i].at + registered[i].bytes)
            return i;
    return -1;
}

CuResult cuMemHostRegister(void *at, size_t bytes, unsigned int flags)
{
    CuResult r = enter_context();
    int i = 0;
    while (i < MAX_REGISTERED && registered[i].at)
        i++;
    if (r || queue_is_restricted())
        return leave(r ? r : SC_CAPTURE_UNSUPPORTED);
    if (flags || !at || !bytes || i == MAX_REGISTERED || standin_in_space(at))
        return leave(SC_INVALID_VALUE);
    registered[i].at = at;
    registered[i].bytes = bytes;
    return leave(RT_CU_SUCCESS);
}

CuResult cuMemHostUnregister(void *at)
{
    CuResult r = enter_context();
    int i = registered_at(at, 0);
    if (r || i < 0 || registered[i].at != at)
        return leave(r ? r : SC_INVALID_VALUE);
    registered[i].at = NULL;
    return leave(RT_CU_SUCCESS);
}

/* ---- copies ---- */

typedef struct Copy {
    char *to;
    const char *from; /* NULL: fills with `value` */
    size_t bytes;
    const char *what;
    uint64_t sum;     /* checksum of pinned memory when the copy was queued */
    uint32_t writes;  /* number of device writes there at that time */
    uint32_t value;
    bool words; /* `value` is a word; else a byte */
    bool to_host, from_host;
    bool shared; /* registered memory */
} Copy;
_Static_assert(sizeof(Copy) <= WORK_STATE, "a copy fits");

static uint64_t sum_of(const char *p, size_t bytes)
{
    uint64_t sum = 14695981039346656037u;
    for (size_t i = 0; i < bytes; i++)
        sum = (sum ^ (unsigned char)p[i]) * 1099511628211u;
    return sum;
}

static bool is_live(const Copy *c, const void *at, const char *side)
{
    if (standin_is_device(at, (int64_t)c->bytes))
        return true;
    standin_error("%s of %zu bytes %s %p, which is no live memory of the "
                  "device's", c->what, c->bytes, side, at);
    return false;
}

static StandinPinned *pinned_use(const Copy *c)
{
    return c->shared      ? NULL
           : c->to_host   ? standin_pinned_use(c->to)
           : c->from_host ? standin_pinned_use(c->from)
                          : NULL;
}

/* The host must not touch pinned memory before it has waited for the copy.
 * Destinations are overwritten with garbage, changes of sources are detected.
 * If other copies of the same allocation are in flight, the device may read
 * what it has written; hazard.c checks their order. */
static void copy_queued(void *state)
{
    Copy *c = state;
    StandinPinned *use = pinned_use(c);
    if (!use)
        return;
    if (c->to_host && use->pending == 0)
        memset(c->to, 0xff, c->bytes);
    if (c->from_host)
        c->sum = sum_of(c->from, c->bytes);
    c->writes = use->writes;
    use->pending++;
}

/* Starts the copy; false: the host has changed its source. */
static bool copy_begins(const Copy *c)
{
    StandinPinned *use = pinned_use(c);
    if (!use)
        return true;
    use->pending--;
    use->writes += c->to_host;
    if (!c->from_host || c->writes != use->writes ||
        c->sum == sum_of(c->from, c->bytes))
        return true;
    standin_error("pinned memory at %p changed before its copy to the device "
                  "ran", (const void *)c->from);
    return false;
}

static enum WorkStatus copy_run(void *state)
{
    Copy *c = state;
    bool fine = (c->to_host || is_live(c, c->to, "to")) &&
                (c->from_host || !c->from || is_live(c, c->from, "from"));
    if (!fine)
        return WORK_FAILED;
    if (!copy_begins(c))
        return WORK_FAILED;
    if (!hazard_touch(c->to, (int64_t)c->bytes, true) ||
        (c->from && !hazard_touch(c->from, (int64_t)c->bytes, false)))
        return WORK_FAILED;
    if (c->from)
        memmove(c->to, c->from, c->bytes);
    else if (!c->words)
        memset(c->to, (int)c->value, c->bytes);
    for (size_t i = 0; c->words && i < c->bytes; i += sizeof c->value)
        memcpy(c->to + i, &c->value, sizeof c->value);
    return WORK_DONE;
}

/* STANDIN_NO_HOST_MEMSET */
static bool refuses_memset(const void *to, size_t bytes, CuStream stream)
{
    const char *when = getenv("STANDIN_NO_HOST_MEMSET");
    if (!when || !queue_is_capturing(stream) ||
        !standin_is_pinned(to, (int64_t)bytes))
        return false;
    bool at_call = strcmp(when, "call") == 0;
    queue_spoil(stream, at_call ? SPOILED_CAPTURE : SPOILED_GRAPH);
    return at_call;
}

static CuResult queue_copy(const Copy *c, CuStream stream)
{
    Work w = {c->what, copy_run, copy_queued, {0}};
    CuResult r = enter_context();
    if (r)
        return leave(r);
    if (c->bytes == 0)
        return leave(RT_CU_SUCCESS);
    if (!c->from && refuses_memset(c->to, c->bytes, stream))
        return leave(SC_INVALID_VALUE);
    memcpy(w.state, c, sizeof *c);
    Copy *copy = (Copy *)(void *)w.state;
    const char *host = c->to_host ? c->to : c->from_host ? c->from : NULL;
    copy->shared = host && registered_at(host, c->bytes) >= 0;
    /* A driver copies pageable memory slowly, and never in a graph: no program
     * of parc should do it. */
    if (host && !copy->shared && !standin_is_pinned(host, (int64_t)c->bytes)) {
        standin_error("%s: %p is no live pinned memory", c->what,
                      (const void *)host);
        return leave(SC_INVALID_VALUE);
    }
    return leave(queue_add(stream, &w));
}

CuResult cuMemcpyHtoDAsync(CuAddress to, const void *from, size_t bytes,
                           CuStream stream)
{
    note_call("upload", bytes);
    return queue_copy(&(Copy){.to = (char *)(uintptr_t)to, .from = from,
                              .bytes = bytes, .from_host = true,
                              .what = "a copy to the device"}, stream);
}

CuResult cuMemcpyDtoHAsync(void *to, CuAddress from, size_t bytes,
                           CuStream stream)
{
    return queue_copy(&(Copy){.to = to, .from = (char *)(uintptr_t)from,
                              .bytes = bytes, .to_host = true,
                              .what = "a copy to the host"}, stream);
}

CuResult cuMemcpyDtoDAsync(CuAddress to, CuAddress from, size_t bytes,
                           CuStream stream)
{
    return queue_copy(&(Copy){.to = (char *)(uintptr_t)to,
                              .from = (char *)(uintptr_t)from, .bytes = bytes,
                              .what = "a copy on the device"}, stream);
}

/* Copies row by row; bytes between rows are not touched. */
CuResult cuMemcpy2DAsync(const CuCopy2D *c, CuStream stream)
{
    CuResult r = RT_CU_SUCCESS;
    if (c->from.type != RT_CU_MEMORY_DEVICE ||
        c->to.type != RT_CU_MEMORY_DEVICE || c->from.pitch < c->width ||
        c->to.pitch < c->width)
        return SC_INVALID_VALUE;
    size_t multiple = (size_t)number("STANDIN_PITCH", 1);
    if (c->from.pitch % multiple || c->to.pitch % multiple)
        return SC_INVALID_VALUE;
    for (size_t y = 0; y < c->height && !r; y++) {
        CuAddress from = c->from.at + c->from.x + (c->from.y + y) * c->from.pitch;
        CuAddress to = c->to.at + c->to.x + (c->to.y + y) * c->to.pitch;
        r = queue_copy(&(Copy){.to = (char *)(uintptr_t)to,
                               .from = (char *)(uintptr_t)from,
                               .bytes = c->width,
                               .what = "a copy of rows on the device"},
                       stream);
    }
    return r;
}

CuResult cuMemsetD8Async(CuAddress to, unsigned char value, size_t bytes,
                         CuStream stream)
{
    return queue_copy(&(Copy){.to = (char *)(uintptr_t)to, .bytes = bytes,
                              .value = value, .what = "a memset"}, stream);
}

CuResult cuMemsetD32Async(CuAddress to, unsigned int value, size_t words,
                          CuStream stream)
{
    return to % sizeof value ? SC_INVALID_VALUE
                             : queue_copy(&(Copy){.to = (char *)(uintptr_t)to,
                                          .bytes = words * sizeof value,
                                          .value = value, .words = true,
                                          .what = "a memset of words"},
                                          stream);
}

/* ---- streams, events, graphs ---- */

CuResult cuStreamCreateWithPriority(CuStream *stream, unsigned int flags,
                                    int priority)
{
    CuResult r = enter_context();
    if (!r && flags != RT_CU_STREAM_NON_BLOCKING)
        r = SC_INVALID_VALUE;
    return leave(r ? r : queue_stream_new(stream, priority));
}

CuResult cuStreamDestroy(CuStream stream)
{
    CuResult r = enter_context();
    return leave(r ? r : queue_stream_free(stream));
}

CuResult cuStreamQuery(CuStream stream)
{
    CuResult r = enter_context();
    note_call("ask", 0);
    return leave(r ? r : queue_stream_query(stream));
}

CuResult cuStreamWaitEvent(CuStream stream, CuEvent event, unsigned int flags)
{
    CuResult r = enter_context();
    return leave(r ? r : flags ? SC_INVALID_VALUE : queue_wait(stream, event));
}

CuResult cuEventCreate(CuEvent *event, unsigned int flags)
{
    CuResult r = enter_context();
    return leave(r ? r
                   : queue_event_new(event,
                                     !(flags & RT_CU_EVENT_DISABLE_TIMING)));
}

CuResult cuEventDestroy(CuEvent event)
{
    CuResult r = enter_context();
    return leave(r ? r : queue_event_free(event));
}

CuResult cuEventRecord(CuEvent event, CuStream stream)
{
    CuResult r = enter_context();
    return leave(r ? r : queue_record(event, stream));
}

CuResult cuEventQuery(CuEvent event)
{
    CuResult r = enter_context();
    note_call("ask", 0);
    return leave(r ? r : queue_event_query(event));
}

CuResult cuEventElapsedTime(float *milliseconds, CuEvent from, CuEvent to)
{
    CuResult r = enter_context();
    return leave(r ? r : queue_elapsed(milliseconds, from, to));
}

CuResult cuStreamBeginCapture(CuStream stream, CuCaptureMode mode)
{
    CuResult r = enter_context();
    return leave(r ? r : queue_capture(stream, mode));
}

CuResult cuStreamEndCapture(CuStream stream, CuGraph *graph)
{
    CuResult r = enter_context();
    return leave(r ? r : queue_capture_end(stream, graph));
}

CuResult cuStreamGetCaptureInfo(CuStream stream, CuCaptureStatus *state,
                                uint64_t *id, CuGraph *graph,
                                const CuGraphNode **after, size_t *nafter)
{
    CuResult r = enter_context();
    if (graph || after || nafter)
        r = SC_INVALID_VALUE;
    *id = r ? 0 : queue_capture_number(stream);
    *state = *id != 0;
    return leave(r);
}

CuResult cuGraphInstantiate(CuGraphExec *exec, CuGraph graph,
                            unsigned long long flags)
{
    CuResult r = enter_context();
    if (!r && flags & ~(unsigned long long)RT_CU_GRAPH_NODE_PRIORITY)
        r = SC_INVALID_VALUE;
    return leave(r ? r
                   : queue_instantiate(exec, graph,
                                       flags & RT_CU_GRAPH_NODE_PRIORITY));
}

CuResult cuGraphLaunch(CuGraphExec exec, CuStream stream)
{
    CuResult r = enter_context();
    note_call("graph", 0);
    return leave(r ? r : queue_launch(exec, stream));
}

CuResult cuGraphExecDestroy(CuGraphExec exec)
{
    CuResult r = enter_context();
    return leave(r ? r : queue_exec_free(exec));
}

CuResult cuGraphDestroy(CuGraph graph)
{
    CuResult r = enter_context();
    return leave(r ? r : queue_graph_free(graph));
}

/* ---- modules ---- */

/* An image is a cubin (ELF) or PTX; only its version is read. */
static bool is_image(const void *image)
{
    const char *p = image;
    return p && (memcmp(p, "\177ELF", 4) == 0 || strstr(p, ".version"));
}

/* Drivers of CUDA 12 load neither cubins of format 8 nor PTX 9. */
static bool is_too_new(const char *image)
{
    bool cubin = memcmp(image, "\177ELF", 4) == 0;
    if (number("STANDIN_DRIVER", VERSION) >= 13000)
        return false;
    return cubin ? image[8] >= 8 : strstr(image, ".version 9.") != NULL;
}

static CuResult load_module(CuModule *module, const void *image)
{
    const char *path = getenv("STANDIN_KERNELS");
    if (queue_is_restricted())
        return SC_CAPTURE_UNSUPPORTED;
    if (!is_image(image)) {
        standin_error("a module's image is neither a cubin nor PTX");
        return SC_INVALID_IMAGE;
    }
    if (is_too_new(image))
        return SC_INVALID_IMAGE;
    void *so = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    const StandinModule *m = so ? dlsym(so, "standin_module") : NULL;
    if (!m) {
        standin_error("STANDIN_KERNELS (%s) is no object of kernels: %s",
                      path ? path : "not set", path ? dlerror() : "");
        return SC_INVALID_IMAGE;
    }
    *module = malloc(sizeof **module);
    (*module)->so = so;
    (*module)->module = m;
    (*module)->function =
        calloc((size_t)m->nkernels + 1, sizeof *(*module)->function);
    for (int i = 0; i < m->nkernels; i++)
        (*module)->function[i] =
            (struct CuFunctionObject){&m->kernel[i], m, LIMIT_SHARED};
    return RT_CU_SUCCESS;
}

CuResult cuModuleLoadDataEx(CuModule *module, const void *image,
                            unsigned int noptions, CuJitOption *option,
                            void **value)
{
    CuResult r = enter_context();
    (void)noptions, (void)option, (void)value;
    return leave(r ? r : load_module(module, image));
}

/* The object stays loaded: queued work may still use its kernels. */
CuResult cuModuleUnload(CuModule module)
{
    CuResult r = enter_context();
    if (!r) {
        free(module->function);
        free(module);
    }
    return leave(r);
}

CuResult cuModuleGetFunction(CuFunction *function, CuModule module,
                             const char *symbol)
{
    CuResult r = enter_context();
    *function = NULL;
    for (int i = 0; !r && i < module->module->nkernels; i++)
        if (strcmp(module->module->kernel[i].name, symbol) == 0)
            *function = &module->function[i];
    return leave(r ? r : *function ? RT_CU_SUCCESS : RT_CU_NOT_FOUND);
}

CuResult cuFuncSetAttribute(CuFunction function, CuFunctionAttribute attribute,
                            int value)
{
    CuResult r = enter_context();
    if (attribute != RT_CU_FUNCTION_DYNAMIC_SHARED || value < 0 ||
        value > most_shared())
        r = SC_INVALID_VALUE;
    else
        function->granted = value;
    return leave(r);
}

/* The static shared memory of a kernel is unknown: reports none. */
CuResult cuFuncGetAttribute(int *value, CuFunctionAttribute attribute,
                            CuFunction function)
{
    CuResult r = enter_context();
    *value = attribute == RT_CU_FUNCTION_DYNAMIC_SHARED
                 ? (int)function->granted : 0;
    return leave(r);
}

/* ---- launches ---- */

_Static_assert(sizeof(StandinLaunch) <= WORK_STATE, "a launch fits");

/* STANDIN_STALL=DEVICE:KERNEL:N: launch number N of a kernel, from 1 on, never
 * ends on this device. */
static bool stalls(const StandinLaunch *l)
{
    static const StandinLaunch *stalled;
    static int seen;
    const char *text = getenv("STANDIN_STALL");
    char kernel[100];
    int device, which;
    if (stalled || !text)
        return stalled == l;
    if (sscanf(text, "%d:%99[^:]:%d", &device, kernel, &which) == 3 &&
        device == driver.context.device &&
        strcmp(kernel, l->kernel->name) == 0 && ++seen == which)
        stalled = l;
    return stalled == l;
}

static enum WorkStatus launch_run(void *state)
{
    if (stalls(state))
        return WORK_NOT_YET;
    return standin_launch_probing(state) ? WORK_FAILED : WORK_DONE;
}

CuResult cuLaunchKernel(CuFunction function, unsigned int grid_x,
                        unsigned int grid_y, unsigned int grid_z,
                        unsigned int block_x, unsigned int block_y,
                        unsigned int block_z, unsigned int shared_bytes,
                        CuStream stream, void **arguments, void **extra)
{
    CuResult r = enter_context();
    if (r)
        return leave(r);
    const StandinKernel *k = function->kernel;
    Work w = {k->name, launch_run, NULL, {0}};
    StandinLaunch *l = (StandinLaunch *)(void *)w.state;
    if (grid_y < 1 || grid_y > 65535 || grid_z != 1 || block_y != 1 || block_z != 1 || extra ||
        grid_x < 1 || block_x < 1 || block_x > (unsigned)k->threads ||
        shared_bytes > function->granted) {
        standin_error("launch of %s: grid %u x %u x %u, block %u x %u x %u, "
                      "%u bytes of shared memory (%lld granted, %d threads at "
                      "most)", k->name, grid_x, grid_y, grid_z, block_x,
                      block_y, block_z, shared_bytes,
                      (long long)function->granted, k->threads);
        return leave(SC_INVALID_VALUE);
    }
    l->module = function->module;
    l->kernel = k;
    l->grid = (int64_t)grid_x * grid_y;
    l->block = (int)block_x;
    l->shared_bytes = shared_bytes;
    for (int i = 0; i < k->nargs; i++)
        memcpy(&l->arg[i], arguments[i], sizeof l->arg[i]);
    return leave(queue_add(stream, &w));
}

typedef struct HostCall {
    void (*call)(void *);
    void *with;
} HostCall;

/* A host function may wait for other processes; it then blocks the queue. */
static enum WorkStatus host_run(void *state)
{
    HostCall *h = state;
    h->call(h->with);
    return WORK_DONE;
}

CuResult cuLaunchHostFunc(CuStream stream, void (*call)(void *), void *with)
{
    CuResult r = enter_context();
    Work w = {"a function of the host", host_run, NULL, {0}};
    memcpy(w.state, &(HostCall){call, with}, sizeof(HostCall));
    return leave(r ? r : queue_add(stream, &w));
}

/* A missing call is an error of the linker. */
#undef CALL
#define CALL(result, name, suffix, arguments) (void (*)(void)) name,
extern void (*const standin_driver_calls[])(void);
void (*const standin_driver_calls[])(void) = {
#include "cuda/api/calls_driver.h"

#include "calls_loopback.h"
};
