/* rt_cuda_cache.c: saves the choices of matmul and attention kernels between
 * runs.
 *
 *   parc matmul choices 1
 *   <checksum> <8 words> bf16 bf16 f32 batch 1 m 4096 …
 *
 * Each line is one choice: a checksum and the choice in 8 words, in
 * hexadecimal, then the key, the shape and types that it applies to. The file's
 * name includes the device and the library's version, so a choice is valid for
 * every run that reads it. The file is written under a temporary name and
 * renamed: other runs read the old or the new file, never a part. Without the
 * file a run starts more slowly; errors of the file never end a run.
 */
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/files.h"
#include "common/message.h"
#include "cuda/core/rt_cuda.h"
#include "params/random.h"

static const char *const HEADER = "parc matmul choices 1\n";

typedef struct Entry {
    BlasAlgorithm algorithm;
    char key[CUDA_KEY];
} Entry;

struct CudaCache {
    Entry *entry;
    int64_t n, capacity;
    bool changed;
    char path[1024]; /* "": no directory for the file */
};

/* ---- entries ------------------------------------------------------------- */

static Entry *find_entry(const CudaCache *c, const char *key)
{
    for (int64_t i = 0; i < c->n; i++)
        if (strcmp(c->entry[i].key, key) == 0)
            return &c->entry[i];
    return NULL;
}

static void set_entry(CudaCache *c, const char *key,
                      const BlasAlgorithm *algorithm)
{
    Entry *e = find_entry(c, key);
    if (!e) {
        c->entry = rt_grow(c->entry, c->n, &c->capacity, sizeof *c->entry);
        e = &c->entry[c->n++];
        size_t length = strnlen(key, CUDA_KEY - 1);
        memcpy(e->key, key, length);
        e->key[length] = 0;
    }
    e->algorithm = *algorithm;
}

bool rt_cuda_cache_find(const CudaCache *c, const char *key,
                        BlasAlgorithm *algorithm)
{
    const Entry *e = find_entry(c, key);
    if (e)
        *algorithm = e->algorithm;
    return e != NULL;
}

void rt_cuda_cache_add(CudaCache *c, const char *key,
                       const BlasAlgorithm *algorithm)
{
    set_entry(c, key, algorithm);
    c->changed = true;
}

/* ---- lines --------------------------------------------------------------- */

enum { WORDS = 8, CHECKSUM = 8, WORD = 16, LINE = 512 };

static void write_line(RtOutput *o, const Entry *e)
{
    char text[LINE], sum[CHECKSUM + 2];
    RtText t = {.at = text, .capacity = sizeof text};
    for (int i = 0; i < WORDS; i++)
        rt_add(&t, "%016" PRIx64 " ", e->algorithm.data[i]);
    rt_add(&t, "%s\n", e->key);
    snprintf(sum, sizeof sum, "%08" PRIx32 " ", rt_hash(text));
    rt_output_put(o, sum, CHECKSUM + 1);
    rt_output_put(o, text, t.n);
}

/* Adds the entry of a line; false if the line is damaged. */
static bool read_line(CudaCache *c, char *line)
{
    BlasAlgorithm a;
    char *end, *at = line + CHECKSUM + 1;
    if (strlen(line) < CHECKSUM + 1 + WORDS * (WORD + 1) + 2)
        return false;
    uint32_t sum = (uint32_t)strtoul(line, &end, 16);
    if (end != line + CHECKSUM || *end != ' ' || sum != rt_hash(at))
        return false;
    for (int i = 0; i < WORDS; i++, at += WORD + 1)
        a.data[i] = strtoull(at, NULL, 16);
    at[strcspn(at, "\n")] = 0;
    set_entry(c, at, &a);
    return true;
}

static void read_file(CudaCache *c)
{
    char line[LINE];
    int64_t number = 1;
    FILE *f = fopen(c->path, "r");
    if (!f)
        return;
    bool good = fgets(line, sizeof line, f) && strcmp(line, HEADER) == 0;
    while (good && fgets(line, sizeof line, f)) {
        number++;
        good = read_line(c, line);
    }
    fclose(f);
    if (!good) {
        c->n = 0;
        rt_say("note: '%s' is damaged in line %" PRId64 "; matmul kernels are "
               "measured again",
               c->path, number);
    }
}

/* ---- file ---------------------------------------------------------------- */

/* The file of a device and library, in $PARC_CACHE or else a directory of the
 * user. False if no variable names a directory, or the path is too long. */
static bool find_path(CudaCache *c, const char *device, size_t version)
{
    const char *own = rt_variable("PARC_CACHE"), *home = rt_variable("HOME");
    const char *cache = rt_variable("XDG_CACHE_HOME");
    RtText t = {.at = c->path, .capacity = sizeof c->path};
    if (own)
        rt_add(&t, "%s", own);
    else if (cache)
        rt_add(&t, "%s/parc", cache);
    else if (home)
        rt_add(&t, "%s/.cache/parc", home);
    else
        return false;
    rt_add(&t, "/matmul-");
    for (; *device; device++)
        rt_add(&t, "%c", isalnum((unsigned char)*device) ? *device : '-');
    rt_add(&t, "-%zu.txt", version);
    return t.n + 1 < t.capacity;
}

/* Creates the missing directories of a path. */
static void make_directories(char *path)
{
    for (char *p = path + 1; (p = strchr(p, '/')); p++) {
        *p = 0;
        mkdir(path, 0777); /* errors are detected when the file is written */
        *p = '/';
    }
}

CudaCache *rt_cuda_cache_open(const char *device, size_t version)
{
    CudaCache *c = rt_allocate(sizeof *c);
    if (find_path(c, device, version))
        read_file(c);
    else
        c->path[0] = 0;
    return c;
}

void rt_cuda_cache_save(CudaCache *c)
{
    char temporary[sizeof c->path + 32];
    RtOutput o;
    if (!c->changed || !c->path[0])
        return;
    c->changed = false;
    make_directories(c->path);
    snprintf(temporary, sizeof temporary, "%s.%ld.tmp", c->path,
             (long)getpid());
    rt_output_open(&o, c->path, temporary);
    rt_output_put(&o, HEADER, strlen(HEADER));
    for (int64_t i = 0; i < c->n; i++)
        write_line(&o, &c->entry[i]);
    const char *error = rt_output_close(&o);
    if (error) {
        unlink(temporary);
        rt_say("note: cannot write '%s': %s; the next run measures matmul "
               "kernels again (PARC_CACHE names another directory)",
               c->path, error);
    }
}

void rt_cuda_cache_close(CudaCache *c)
{
    rt_cuda_cache_save(c);
    free(c->entry);
    free(c);
}
