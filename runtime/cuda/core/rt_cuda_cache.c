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
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/files.h"
#include "common/message.h"
#include "cuda/core/rt_cuda_cache.h"
#include "params/random.h"

static const char *const HEADER = "parc matmul choices 1\n";

typedef struct Entry {
    struct Entry *next;
    BlasAlgorithm algorithm;
    char key[CUDA_KEY];
} Entry;

struct CudaCache {
    Entry *first, **last;
    bool changed;
    char path[1024]; /* "": no directory for the file */
};

/* ---- entries ------------------------------------------------------------- */

static Entry *find_algorithm(const CudaCache *c, const char *key)
{
    Entry *e = c->first;
    while (e && strcmp(e->key, key) != 0)
        e = e->next;
    return e;
}

static void enter_algorithm(CudaCache *c, const char *key,
                            const BlasAlgorithm *algorithm)
{
    Entry *e = find_algorithm(c, key);
    if (!e) {
        e = rt_allocate(sizeof *e);
        size_t n = strlen(key);
        memcpy(e->key, key, n < CUDA_KEY ? n : CUDA_KEY - 1);
        *c->last = e;
        c->last = &e->next;
    }
    e->algorithm = *algorithm;
}

static void clear(CudaCache *c)
{
    while (c->first) {
        Entry *e = c->first;
        c->first = e->next;
        free(e);
    }
    c->last = &c->first;
}

bool rt_cuda_cache_find(const CudaCache *c, const char *key,
                        BlasAlgorithm *algorithm)
{
    const Entry *e = find_algorithm(c, key);
    if (e)
        *algorithm = e->algorithm;
    return e != NULL;
}

void rt_cuda_cache_add(CudaCache *c, const char *key,
                       const BlasAlgorithm *algorithm)
{
    enter_algorithm(c, key, algorithm);
    c->changed = true;
}

/* ---- lines --------------------------------------------------------------- */

enum { WORDS = 8, CHECKSUM = 8, WORD = 16, LINE = 512 };

/* Writes the line of an entry without its checksum. */
static int write_words(char *to, size_t capacity, const BlasAlgorithm *a,
                       const char *key)
{
    int n = 0;
    for (int i = 0; i < WORDS; i++)
        n += snprintf(to + n, capacity - (size_t)n, "%016" PRIx64 " ",
                      a->data[i]);
    return n + snprintf(to + n, capacity - (size_t)n, "%s\n", key);
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
    for (int i = 0; i < WORDS; i++, at += WORD + 1) {
        a.data[i] = strtoull(at, &end, 16);
        if (end != at + WORD)
            return false;
    }
    at[strcspn(at, "\n")] = 0;
    if (strlen(at) >= CUDA_KEY)
        return false;
    enter_algorithm(c, at, &a);
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
        clear(c);
        rt_say("note: '%s' is damaged in line %" PRId64 "; matmul kernels are "
               "measured again",
               c->path, number);
    }
}

/* ---- file ---------------------------------------------------------------- */

/* The directory: $PARC_CACHE, or else a directory of the user. False if no
 * variable names one. */
static bool find_directory(char *to, size_t capacity)
{
    const char *own = getenv("PARC_CACHE"), *cache = getenv("XDG_CACHE_HOME");
    const char *home = getenv("HOME");
    int n = own && *own       ? snprintf(to, capacity, "%s", own)
            : cache && *cache ? snprintf(to, capacity, "%s/parc", cache)
            : home && *home   ? snprintf(to, capacity, "%s/.cache/parc", home)
                              : -1;
    return n > 0 && (size_t)n < capacity;
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
    char *path = c->path;
    size_t capacity = sizeof c->path;
    c->last = &c->first;
    if (!find_directory(path, capacity)) {
        path[0] = 0;
        return c;
    }
    size_t n = strlen(path);
    n += (size_t)snprintf(path + n, capacity - n, "/matmul-");
    for (; *device && n + 1 < capacity; device++)
        path[n++] = isalnum((unsigned char)*device) ? *device : '-';
    n += n < capacity
             ? (size_t)snprintf(path + n, capacity - n, "-%zu.txt", version)
             : 1;
    if (n >= capacity) {
        path[0] = 0;
        return c;
    }
    read_file(c);
    return c;
}

void rt_cuda_cache_save(CudaCache *c)
{
    char temporary[sizeof c->path + 32], line[LINE];
    RtOutput o;
    if (!c->changed || !c->path[0])
        return;
    c->changed = false;
    make_directories(c->path);
    snprintf(temporary, sizeof temporary, "%s.%ld.tmp", c->path,
             (long)getpid());
    rt_output_open(&o, c->path, temporary);
    rt_output_put(&o, HEADER, strlen(HEADER));
    for (const Entry *e = c->first; e; e = e->next) {
        char *words = line + CHECKSUM + 1;
        write_words(words, sizeof line - CHECKSUM - 1, &e->algorithm, e->key);
        char sum[CHECKSUM + 1];
        snprintf(sum, sizeof sum, "%08" PRIx32, rt_hash(words));
        memcpy(line, sum, CHECKSUM);
        line[CHECKSUM] = ' ';
        rt_output_put(&o, line, strlen(line));
    }
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
    clear(c);
    free(c);
}
