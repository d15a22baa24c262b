/* driver.h: opens the CUDA driver at run time for the tools of tests/gpu, with
 * the runtime's table of calls and with theirs.
 */
#ifndef PARC_TESTS_GPU_DRIVER_H
#define PARC_TESTS_GPU_DRIVER_H

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/api/api.h"

#define CALL(result, name, suffix, arguments) result(*name) arguments;
typedef struct Driver {
#include "cuda/api/calls_driver.h"
#include "calls_loopback.h"
} Driver;
#undef CALL

/* Fills the table, or ends the program with a message. */
static inline void driver_open(Driver *cu, const char *program)
{
    static const char *const symbols[] = {
#define CALL(result, name, suffix, arguments) #name #suffix,
#include "cuda/api/calls_driver.h"
#include "calls_loopback.h"
    };
#undef CALL
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        fprintf(stderr, "%s: %s\n", program, dlerror());
        exit(1);
    }
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        void *call = dlsym(library, symbols[i]);
        if (!call) {
            fprintf(stderr, "%s: libcuda.so.1 has no %s\n", program,
                    symbols[i]);
            exit(1);
        }
        memcpy((char *)cu + i * sizeof call, &call, sizeof call);
    }
}

#endif
