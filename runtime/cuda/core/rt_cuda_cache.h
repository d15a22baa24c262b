/* rt_cuda_cache.h: declares the choices of implementations that programs save for
 * later runs. */
#ifndef PARC_RT_CUDA_CACHE_H
#define PARC_RT_CUDA_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cuda/api/api.h"

/* A key is one line of text with all that a choice depends on. */
enum { CUDA_KEY = 256 };
typedef struct CudaCache CudaCache;

/* Reads the cache file, $PARC_CACHE/NAME or ~/.cache/parc/NAME; NAME contains
 * the device and the library's version. Never fails: it ignores a damaged file
 * and prints a note. */
CudaCache *rt_cuda_cache_open(const char *device, size_t version);
bool rt_cuda_cache_find(const CudaCache *cache, const char *key,
                        BlasAlgorithm *algorithm);
void rt_cuda_cache_add(CudaCache *cache, const char *key,
                       const BlasAlgorithm *algorithm);
/* Writes the file if an entry has been added. */
void rt_cuda_cache_save(CudaCache *cache);
/* Saves and frees the cache. */
void rt_cuda_cache_close(CudaCache *cache);

#endif
