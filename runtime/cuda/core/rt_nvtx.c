/* rt_nvtx.c: implements NVTX without its headers and without a linked library.
 *
 * A profiler (nsys, ncu) sets NVTX_INJECTION64_PATH to its library. The
 * program opens that library and calls its InitializeInjectionNvtx2 with a
 * function that returns tables; the profiler stores its functions in them.
 * Without the variable no library is opened, and a range costs a comparison.
 *
 * With a graph the host executes a step's statements only once, during the
 * capture; each replay has one range for the step. PARC_GRAPH=0 shows all
 * ranges.
 */
#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

#include "cuda/core/rt_cuda.h"

typedef void (*Function)(void);

/* ORDER nvtx: numbers and structs of nvtx3/nvtxDetail/nvtxTypes.h, which
 * tests/cuda/profiler.c uses. */
enum {
    RT_NVTX_CALLBACKS = 1, /* tables that a profiler requests */
    RT_NVTX_VERSION_INFO = 3,
    RT_NVTX_CORE = 1, /* modules; the core module has functions 1 … 15 */
    RT_NVTX_PUSH = 9,
    RT_NVTX_POP = 11,
    RT_NVTX_CORE_SIZE = 16,
    RT_NVTX_VERSION = 3,
};

typedef struct Callbacks {
    size_t size;
    int (*table)(int module, Function ***table, unsigned int *n);
} Callbacks;

typedef struct VersionInfo {
    size_t size;
    uint32_t version, reserved;
    void (*set)(uint32_t version);
} VersionInfo;

/* The protocol passes no context, so these are the only global variables of
 * the runtime. They are written once, before the first range. */
static Function function[RT_NVTX_CORE_SIZE];
static Function *entry[RT_NVTX_CORE_SIZE + 1];

static int module_table(int module, Function ***table, unsigned int *n)
{
    if (module != RT_NVTX_CORE)
        return 0;
    if (n)
        *n = RT_NVTX_CORE_SIZE;
    if (table)
        *table = entry;
    return 1;
}

static void set_version(uint32_t version)
{
    (void)version;
}

static const void *export_table(uint32_t which)
{
    static const Callbacks callbacks = {sizeof callbacks, module_table};
    static const VersionInfo version = {sizeof version, RT_NVTX_VERSION, 0,
                                        set_version};
    return which == RT_NVTX_CALLBACKS      ? (const void *)&callbacks
           : which == RT_NVTX_VERSION_INFO ? (const void *)&version
                                           : NULL;
}

void rt_nvtx_open(void)
{
    typedef int Initialize(const void *(*)(uint32_t));
    const char *path = rt_variable("NVTX_INJECTION64_PATH");
    Initialize *initialize = NULL;
    void *library = path ? dlopen(path, RTLD_LAZY) : NULL;
    void *symbol = library ? dlsym(library, "InitializeInjectionNvtx2") : NULL;
    for (int i = 1; i < RT_NVTX_CORE_SIZE; i++)
        entry[i] = &function[i];
    memcpy(&initialize, &symbol, sizeof symbol);
    if (initialize && !initialize(export_table))
        memset(function, 0, sizeof function); /* the profiler refuses */
}

void rt_nvtx_push(const char *name)
{
    if (function[RT_NVTX_PUSH])
        ((int (*)(const char *))function[RT_NVTX_PUSH])(name);
}

void rt_nvtx_pop(void)
{
    if (function[RT_NVTX_POP])
        ((int (*)(void))function[RT_NVTX_POP])();
}

void rt_nvtx_mark(const ParcModel *model, int now, int next)
{
    const ParcWork *work = model->work;
    if (!function[RT_NVTX_PUSH])
        return;
    bool same = now >= 0 && next >= 0 &&
                strcmp(work[now].phase, work[next].phase) == 0;
    if (now >= 0)
        rt_nvtx_pop();
    if (now >= 0 && !same)
        rt_nvtx_pop();
    if (next >= 0 && !same)
        rt_nvtx_push(work[next].phase);
    if (next >= 0)
        rt_nvtx_push(work[next].id);
}
