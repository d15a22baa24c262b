/* rt_dnnl.c: opens oneDNN; see rt_dnnl.h. */
#include <stdlib.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "common/message.h"
#include "cpu/rt_dnnl.h"
#include "launch/world.h"

dnnl_data_type_t rt_dnnl_type(ParcType type)
{
    static const dnnl_data_type_t of[] = {[PARC_F32] = dnnl_f32,
                                          [PARC_BF16] = dnnl_bf16,
                                          [PARC_F16] = dnnl_f16};
    return of[type];
}

bool rt_dnnl_knows(unsigned isa)
{
    return ((unsigned)dnnl_get_effective_cpu_isa() & isa) == isa;
}

/* oneDNN allocates buffers for packed operands in every call. With mmap each
 * call would cost a page fault per 4 KiB (5 ms for 20 MiB), and with trimming
 * too. These settings keep the buffers in the heap, which holds at most a few
 * of them. Blocks larger than oneDNN's are still mapped. */
static void keep_buffers_in_heap(void)
{
#ifdef __GLIBC__
    mallopt(M_MMAP_THRESHOLD, 32 << 20);
    mallopt(M_TRIM_THRESHOLD, 256 << 20);
#endif
}

void rt_dnnl_open(ParcRt *rt)
{
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    if (rt->engine)
        return;
    keep_buffers_in_heap();
    dnnl_status_t s = dnnl_engine_create(&engine, dnnl_cpu, 0);
    if (s == dnnl_success) {
        rt->engine = engine;
        s = dnnl_stream_create(&stream, engine, dnnl_stream_default_flags);
    }
    if (s != dnnl_success)
        rt_fail(rt, "oneDNN cannot be opened: status %d", (int)s);
    rt->stream = stream;
}

void rt_dnnl_close(ParcRt *rt)
{
    if (!rt->engine)
        return;
    dnnl_stream_destroy(rt->stream);
    dnnl_engine_destroy(rt->engine);
    rt->engine = NULL;
}
