/* copy_rate.c: prints the GB/s, read and written, of a copy within the first
 * GPU's memory that exceeds its caches: the reference for streaming kernels.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "driver.h"

enum { MOST = 1 << 30, COPIES = 20 };

static void check(const Driver *cu, CuResult result, const char *call)
{
    const char *text = NULL;
    if (result == RT_CU_SUCCESS)
        return;
    cu->cuGetErrorString(result, &text);
    fprintf(stderr, "copy_rate: %s: %s\n", call, text ? text : "?");
    exit(1);
}
#define TRY(call) check(&cu, cu.call, #call)

int main(void)
{
    Driver cu;
    driver_open(&cu, "copy_rate");
    CuDevice device;
    CuContext context;
    CuStream stream;
    CuEvent begin, end;
    CuAddress from, to;
    TRY(cuInit(0));
    TRY(cuDeviceGet(&device, 0));
    TRY(cuDevicePrimaryCtxRetain(&context, device));
    TRY(cuCtxSetCurrent(context));
    TRY(cuStreamCreateWithPriority(&stream, RT_CU_STREAM_NON_BLOCKING, 0));
    TRY(cuEventCreate(&begin, RT_CU_EVENT_DEFAULT));
    TRY(cuEventCreate(&end, RT_CU_EVENT_DEFAULT));
    size_t available, total;
    TRY(cuMemGetInfo(&available, &total));
    size_t bytes = available / 64 < MOST ? available / 64 : MOST;
    TRY(cuMemAlloc(&from, bytes));
    TRY(cuMemAlloc(&to, bytes));
    TRY(cuMemsetD8Async(from, 1, bytes, stream));
    for (int i = -3; i < COPIES; i++) { /* three warm-up copies */
        if (i == 0)
            TRY(cuEventRecord(begin, stream));
        TRY(cuMemcpyDtoDAsync(to, from, bytes, stream));
    }
    TRY(cuEventRecord(end, stream));
    CuResult state;
    while ((state = cu.cuEventQuery(end)) == RT_CU_NOT_READY)
        continue;
    check(&cu, state, "cuEventQuery");
    float milliseconds = 0;
    TRY(cuEventElapsedTime(&milliseconds, begin, end));
    printf("%.1f\n", 2e-6 * (double)bytes * COPIES / (double)milliseconds);
    return 0;
}
