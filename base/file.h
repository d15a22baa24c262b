/* file.h: reads files, writes sets of files, removes directories, runs child
 * processes, and prepares a program's standard streams, signals and stack. */
#ifndef PARC_BASE_FILE_H
#define PARC_BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"

/* Prepares the standard streams and signals of a program that writes files. A
 * closed standard stream is opened on /dev/null in the wrong direction, so that
 * its use fails; else the next opened file would get its descriptor and receive
 * messages. A write beyond the file size limit fails without SIGXFSZ. Child
 * processes inherit both. */
void streams_prepare(void);
/* Raises the stack's limit to 120 MiB if the hard limit allows: passes recurse
 * along chains of ops, at a few hundred bytes each. NULL, or a message if less
 * than 8 MiB are allowed. */
const char *stack_prepare(Arena *a);

/* Reads a whole file ("-": standard input) into the arena, terminated. NULL on
 * failure, with errno set. */
char *file_read(Arena *a, const char *path, size_t *size);

/* A set of files that appear together. Each is written to a temporary file in
 * its final directory; outputs_commit renames them all; on any failure, or on
 * outputs_abandon, none of them remains, nor do directories made for the set.
 * While a set is open, signals that would end parc are blocked. NULL is
 * success, else the result is a message ("cannot write 'x': No space left on
 * device"); only outputs_temp differs. */
typedef struct Outputs Outputs;
Outputs *outputs_new(Arena *a);
const char *outputs_mkdir(Outputs *o, const char *path);
const char *outputs_add(Outputs *o, const char *path, const char *text,
                        size_t size, bool executable);
/* Adds a file like outputs_add, but replaces a link or a special file at `path`
 * instead of writing through it. */
const char *outputs_replace(Outputs *o, const char *path, const char *text,
                            size_t size);
/* Returns the temporary name of a file that a child process writes (the
 * linker); on failure NULL, with errno set. */
const char *outputs_temp(Outputs *o, const char *path);
/* Makes a directory for temporary files in $TMPDIR or /tmp, which is removed with all
 * that it contains when the set is committed or abandoned. Returns its path; on failure
 * NULL, with errno set. */
const char *outputs_directory(Outputs *o);
const char *outputs_commit(Outputs *o);
void outputs_abandon(Outputs *o);

/* Removes a directory and its contents; links are not followed. False if
 * something could not be removed. */
bool directory_remove(const char *path);

/* Waits until `fd` can be read or its last writer has closed it. Returns whether a
 * signal that is blocked asks parc to stop. */
bool wait_readable(int fd);

/* Runs a program found on PATH with an argument vector (NULL-terminated),
 * without a shell; its standard error is captured in *errors (arena).
 * `directory`: where it runs; NULL: the current one. Returns the exit status,
 * or -1 if it could not be started or was killed, with a message in *errors. */
int process_run(Arena *a, const char *const *argv, const char *directory,
                char **errors);

#endif
