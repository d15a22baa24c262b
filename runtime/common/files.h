/* files.h: declares files that are written whole or not at all, files that are
 * read, their paths (files.c) and checksum (crc32c.c). */
#ifndef PARC_RT_FILES_H
#define PARC_RT_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Prepares the standard streams and signals. A closed stream is opened such
 * that its use fails; otherwise a file that is opened later would get its
 * number, and messages would be written into it. A write beyond the limit of
 * file sizes fails instead of raising SIGXFSZ. */
void rt_streams_prepare(void);

/* The name of the temporary file for `path`; "" if `path` is a device, a pipe
 * or "-"; NULL, after a message, if `path` cannot be written. */
char *rt_output_probe(const char *path);

/* Removes the temporary files and directories STEM.PID.tmp of processes that
 * were killed. One that another process locks, or whose process runs, stays. */
void rt_output_remove_stale(const char *stem);

/* Removes a temporary file, or a temporary directory with its files. NULL and
 * "" have no effect. */
void rt_output_discard(const char *temporary);

/* Makes renames in a directory durable. Returns 0 or an errno; a file system
 * that cannot sync a directory is no error. */
int rt_sync_directory(const char *path);

/* A file that is being written, to its temporary name unless that is empty.
 * `error` is the first errno; later writes are skipped. */
typedef struct RtOutput {
    const char *path, *temporary;
    int file, error;
    uint32_t crc; /* CRC-32C of what was printed to its stream */
} RtOutput;

void rt_output_open(RtOutput *o, const char *path, const char *temporary);
/* Creates a file that does not exist, under its own name. */
void rt_output_create(RtOutput *o, const char *path);
void rt_output_put(RtOutput *o, const void *data, size_t n);
/* A stream that prints to the output, which counts its errors; the caller
 * closes it first. NULL if memory is short. */
FILE *rt_output_stream(RtOutput *o);
/* Closes the file, after a sync to disk if `sync`. Returns 0 or an errno. */
int rt_output_end(RtOutput *o, bool sync);
/* Syncs the file to disk and renames it to `path`. Returns NULL or an error. */
const char *rt_output_close(RtOutput *o);

/* Maps a regular file; an empty one is NULL. Returns 0 or an errno, EINVAL for
 * a file of another kind. rt_input_unmap unmaps it. */
int rt_file_map(const char *path, const unsigned char **map, int64_t *size);
/* Maps a regular file and sets *size. NULL after a message; an empty file is
 * an error. */
const unsigned char *rt_input_map(const char *path, int64_t *size);
void rt_input_unmap(const unsigned char *map, int64_t size);
/* The number at the start of a file of /sys or /proc; `otherwise` if there is
 * none. */
double rt_read_number(const char *path, double otherwise);

/* ---- paths ---- */

/* Whether `path` is "-", standard output; the name of `path` in messages. */
bool rt_output_is_stdout(const char *path);
const char *rt_output_name(const char *path);
bool rt_is_regular(const char *path);
/* Whether two paths name one regular file, or one that does not exist yet. */
bool rt_is_same_file(const char *a, const char *b);
/* DIRECTORY/NAME, which the caller frees. */
char *rt_path_join(const char *directory, const char *name);

/* ---- bytes ---- */

/* A little-endian number of `bytes` bytes. */
static inline uint64_t rt_little(const unsigned char *p, int bytes)
{
    uint64_t n = 0;
    for (int b = 0; b < bytes; b++)
        n |= (uint64_t)p[b] << (8 * b);
    return n;
}

/* The checksum CRC-32C of a text followed by `n` bytes at `data`; `crc` is the
 * checksum of the text, 0 if it is empty. */
uint32_t rt_crc32c(uint32_t crc, const void *data, size_t n);
/* The same, computed without instructions for CRC-32C. */
uint32_t rt_crc32c_portable(uint32_t crc, const void *data, size_t n);

#endif
