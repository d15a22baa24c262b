/* loaded.c: records which kernels a library has loaded; see loaded.h. A process
 * is a rank and has its own libraries. */
#include "loaded.h"

#include <stdlib.h>
#include <string.h>

#include "engine.h"
#include "queue.h"

typedef struct Kernel {
    struct Kernel *next;
    size_t bytes;
    unsigned char key[];
} Kernel;

static Kernel *kernels;

static bool is_loaded(const void *key, size_t bytes)
{
    for (const Kernel *k = kernels; k; k = k->next)
        if (k->bytes == bytes && memcmp(k->key, key, bytes) == 0)
            return true;
    return false;
}

static bool load(const void *key, size_t bytes, CuStream stream,
                 const char *what)
{
    if (is_loaded(key, bytes))
        return true;
    if (queue_is_capturing(stream)) {
        standin_error("%s: its kernel is launched for the first time, and so "
                      "loaded, while the stream is captured", what);
        return false;
    }
    Kernel *k = malloc(sizeof *k + bytes);
    *k = (Kernel){.next = kernels, .bytes = bytes};
    memcpy(k->key, key, bytes);
    kernels = k;
    return true;
}

bool loaded_launch(const void *key, size_t bytes, CuStream stream,
                   const char *what)
{
    queue_lock();
    bool can = load(key, bytes, stream, what);
    queue_unlock();
    return can;
}
