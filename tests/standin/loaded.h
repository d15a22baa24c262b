/* loaded.h: records which of its kernels a library has loaded.
 *
 * Libraries load a kernel at its first launch (CUDA's lazy loading). During a
 * capture that may fail, or stall until the device is idle, so captured kernels
 * must have run before. Kernels of the program itself are loaded when they are
 * looked up.
 */
#ifndef STANDIN_LOADED_H
#define STANDIN_LOADED_H

#include "cuda/api/api.h"

/* The bytes of `key` identify a kernel. A launch on the stream loads it. False,
 * with an error message, if the stream is being captured and the kernel has not
 * been launched before. */
bool loaded_launch(const void *key, size_t bytes, CuStream stream,
                   const char *what);

#endif
