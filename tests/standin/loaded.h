/* loaded.h: which of its kernels a library has loaded.
 *
 * Libraries load a kernel when it is first launched (CUDA's lazy loading). In a
 * capture the real ones may then fail, or stall until the device is idle: what
 * is captured has to have run before. Kernels of the program's own are loaded
 * when they are looked up.
 */
#ifndef STANDIN_LOADED_H
#define STANDIN_LOADED_H

#include "api.h"

/* A kernel is told from others by the bytes of `key`; it is launched on the
 * stream, which loads it. False, and an error, where that stream is captured
 * and nothing launched it before. */
bool loaded_launch(const void *key, size_t bytes, CuStream stream,
                   const char *what);

#endif
