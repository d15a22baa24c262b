/* files.h: declares files that are written whole or not at all (common/output.c) and
 * files that are read (common/input.c). */
#ifndef PARC_RT_FILES_H
#define PARC_RT_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Prepares the standard streams and signals. A closed stream is opened such
 * that its use fails; otherwise a file that is opened later would get its
 * number, and messages would be written into it. A write beyond the limit of
 * file sizes fails instead of raising SIGXFSZ. */
void rt_streams_prepare(void);

/* Whether `path` is "-", standard output; the name of `path` in messages. */
bool rt_output_is_stdout(const char *path);
const char *rt_output_name(const char *path);
/* The name of the temporary file for `path`; "" if `path` is a device, a pipe
 * or "-"; NULL, after a message, if `path` cannot be written. */
char *rt_output_probe(const char *path, const char *program);

/* Removes the temporary files and directories STEM.PID.tmp of processes that
 * were killed. One that another process locks, or whose process runs, stays. */
void rt_output_remove_stale(const char *stem);

/* Removes a temporary file, or a temporary directory with its files. NULL and
 * "" have no effect. */
void rt_output_discard(const char *temporary);

/* A file that is being written, to its temporary name unless that is empty.
 * `error` is the first errno; later writes are skipped. */
typedef struct RtOutput {
    const char *path, *temporary;
    int file, error;
} RtOutput;

void rt_output_open(RtOutput *o, const char *path, const char *temporary);
void rt_output_put(RtOutput *o, const void *data, size_t n);
/* Syncs the file to disk and renames it to `path`. Returns NULL or an error. */
const char *rt_output_close(RtOutput *o);

/* Maps a regular file and sets *size. NULL after a message; an empty file is
 * an error. */
const unsigned char *rt_input_map(const char *path, int64_t *size,
                                  const char *program);
void rt_input_unmap(const unsigned char *map, int64_t size);
bool rt_is_regular(const char *path);
/* The number at the start of a file of /sys or /proc; `otherwise` if there is
 * none. */
double rt_read_number(const char *path, double otherwise);
/* Whether two paths name one regular file, or one that does not exist yet. */
bool rt_is_same_file(const char *a, const char *b);

/* DIRECTORY/NAME, which the caller frees. */
char *rt_path_join(const char *directory, const char *name);

#endif
