/* malloc_peak.c: records the heap peak of a training binary. The library is
 * preloaded (LD_PRELOAD) and writes the largest sum of live heap bytes of any
 * of its processes to the file MALLOC_PEAK_FILE (8 bytes, shared by all of
 * them). A test requires that more steps do not increase it.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);
extern void __libc_free(void *);

static _Atomic int64_t live;
static _Atomic(_Atomic int64_t *) shared;

__attribute__((constructor)) static void open_shared(void)
{
    const char *path = getenv("MALLOC_PEAK_FILE");
    int fd = path ? open(path, O_RDWR | O_CREAT, 0644) : -1;
    if (fd < 0 || ftruncate(fd, 8))
        return;
    void *p = mmap(NULL, 8, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (p != MAP_FAILED)
        shared = p;
}

static void add(int64_t bytes)
{
    int64_t now = atomic_fetch_add(&live, bytes) + bytes;
    _Atomic int64_t *peak = shared;
    int64_t old = peak ? atomic_load(peak) : INT64_MAX;
    while (now > old && !atomic_compare_exchange_weak(peak, &old, now))
        ;
}

static void *counted(void *p)
{
    if (p)
        add((int64_t)malloc_usable_size(p));
    return p;
}

void *malloc(size_t n)
{
    return counted(__libc_malloc(n));
}

void *calloc(size_t n, size_t size)
{
    return counted(__libc_calloc(n, size));
}

void *realloc(void *p, size_t n)
{
    if (p)
        add(-(int64_t)malloc_usable_size(p));
    return counted(__libc_realloc(p, n));
}

void *memalign(size_t a, size_t n)
{
    return counted(__libc_memalign(a, n));
}

void *aligned_alloc(size_t a, size_t n)
{
    return memalign(a, n);
}

int posix_memalign(void **p, size_t a, size_t n)
{
    *p = memalign(a, n);
    return *p ? 0 : 12;
}

void free(void *p)
{
    if (p)
        add(-(int64_t)malloc_usable_size(p));
    __libc_free(p);
}
