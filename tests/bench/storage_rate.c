/* storage_rate.c: times transfers of the checkpoint benchmark, in seconds.
 *
 *   storage_rate write FILE BYTES   writes a file sequentially, then syncs it
 *   storage_rate direct FILE BYTES  the same past the page cache
 *   storage_rate read FILE          reads a file sequentially to memory
 *   storage_rate drop FILE…         removes files from the page cache
 *   storage_rate copy BYTES N       N processes copy BYTES in equal parts
 *   storage_rate stamp N            prints the times at which the first N lines
 *                                   of standard input arrive
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PIECE = 4 << 20, RUNS = 3 };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

static char *memory(size_t bytes)
{
    char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        fail("storage_rate");
    madvise(at, bytes, MADV_HUGEPAGE);
    memset(at, 1, bytes);
    return at;
}

/* Writes from memory of the file's size, as a save does, whose bytes are not
 * in the CPU's cache. `direct`: past the page cache; BYTES are a multiple of
 * 4096. */
static void write_file(const char *path, int64_t bytes, int direct)
{
    char *from = memory((size_t)bytes);
    double begin = now();
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | direct,
                    0666);
    for (int64_t at = 0; at < bytes;) {
        int64_t n = bytes - at < PIECE ? bytes - at : PIECE;
        ssize_t did = write(file, from + at, (size_t)n);
        if (did <= 0)
            fail(path);
        at += did;
    }
    if (fsync(file) != 0 || close(file) != 0)
        fail(path);
    printf("%.4f\n", now() - begin);
}

static void drop(const char *path)
{
    int file = open(path, O_RDONLY);
    if (file < 0 || fsync(file) != 0 ||
        posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED) != 0)
        fail(path);
    close(file);
}

/* Reads to memory of the file's size, as a load does, whose pages exist. */
static void read_file(const char *path)
{
    struct stat st;
    int file = open(path, O_RDONLY);
    if (file < 0 || fstat(file, &st) != 0)
        fail(path);
    char *to = memory((size_t)st.st_size);
    double begin = now();
    for (int64_t at = 0; at < st.st_size;) {
        int64_t n = st.st_size - at < PIECE ? st.st_size - at : PIECE;
        ssize_t did = read(file, to + at, (size_t)n);
        if (did <= 0)
            fail(path);
        at += did;
    }
    printf("%.4f\n", now() - begin);
}

/* The time until all processes have copied their part. */
static void copy(int64_t bytes, int n)
{
    size_t part = (size_t)(bytes / n);
    int start[2];
    char byte;
    if (pipe(start) != 0)
        fail("pipe");
    double *end = mmap(NULL, sizeof *end * (size_t)(n + 1),
                       PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
                       0);
    for (int i = 0; i < n; i++) {
        if (fork() == 0) {
            char *from = memory(part), *to = memory(part);
            close(start[1]);
            end[i] = 1;
            while (read(start[0], &byte, 1) > 0) { /* until it is closed */
            }
            double begin = now();
            memcpy(to, from, part);
            end[i] = to[part / 2] == 1 ? now() - begin : 0;
            _exit(0);
        }
    }
    for (int i = 0; i < n; i++) {
        while (*(volatile double *)&end[i] == 0)
            usleep(1000);
    }
    close(start[0]);
    close(start[1]);
    double most = 0;
    while (wait(NULL) > 0) {
    }
    for (int i = 0; i < n; i++)
        most = end[i] > most ? end[i] : most;
    printf("%.4f\n", most);
}

static void stamp(int n)
{
    char line[1 << 16];
    setvbuf(stdout, NULL, _IOLBF, 0);
    while (n-- > 0 && fgets(line, sizeof line, stdin))
        printf("%.6f\n", now());
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    if (strcmp(what, "write") == 0 && argc == 4) {
        write_file(argv[2], atoll(argv[3]), 0);
    } else if (strcmp(what, "direct") == 0 && argc == 4) {
        write_file(argv[2], atoll(argv[3]) / 4096 * 4096, O_DIRECT);
    } else if (strcmp(what, "read") == 0 && argc == 3) {
        read_file(argv[2]);
    } else if (strcmp(what, "drop") == 0) {
        for (int i = 2; i < argc; i++)
            drop(argv[i]);
    } else if (strcmp(what, "copy") == 0 && argc == 4) {
        copy(atoll(argv[2]), atoi(argv[3]));
    } else if (strcmp(what, "stamp") == 0 && argc == 3) {
        stamp(atoi(argv[2]));
    } else {
        fprintf(stderr, "usage: storage_rate write|read|drop|copy|stamp …\n");
        return 2;
    }
    return 0;
}
