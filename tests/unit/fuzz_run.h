/* fuzz_run.h: one case of a fuzzer in a process of its own, with limits. */
#ifndef PARC_TESTS_UNIT_FUZZ_RUN_H
#define PARC_TESTS_UNIT_FUZZ_RUN_H

#include <stdbool.h>

#include "base/arena.h"

/* What a case must not exceed. */
enum { FUZZ_CPU_SECONDS = 60, FUZZ_MEMORY_GIB = 8 };

/* What a process did: NULL: it came to its end with status 0, or with 1 or 2
 * and a message; else what is wrong, in words. Its standard error (the first
 * part of it) goes into *errors. */
const char *fuzz_run_program(Arena *a, const char *const *argv, char **errors);
/* The same of a function, which returns the exit status. */
const char *fuzz_run_call(Arena *a, int (*call)(void *), void *context,
                          char **errors);

/* fuzz_reader.c: a training program of 64 tokens and one parameter, with
 * `option` and its value. */
typedef struct FuzzProgram {
    const char *option, *value;
} FuzzProgram;
int fuzz_reader(void *program);
/* A file that it reads without complaint, for `option`. */
char *fuzz_reader_file(Arena *a, const char *option, size_t *size);

#endif
