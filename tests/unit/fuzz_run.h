/* fuzz_run.h: runs one case of a fuzzer in its own process, with limits. */
#ifndef PARC_TESTS_UNIT_FUZZ_RUN_H
#define PARC_TESTS_UNIT_FUZZ_RUN_H

#include <stdbool.h>

#include "base/arena.h"

/* The limits of a case. */
enum { FUZZ_CPU_SECONDS = 60, FUZZ_MEMORY_GIB = 8 };

/* Runs a process. Returns NULL if it exits with status 0, or with 1 or 2 and a
 * message; else the fault in words. The first part of its standard error is
 * stored in *errors. */
const char *fuzz_run_program(Arena *a, const char *const *argv, char **errors);
/* Does the same for a function, which returns the exit status. */
const char *fuzz_run_call(Arena *a, int (*call)(void *), void *context,
                          char **errors);

/* fuzz_reader.c. The arguments of fuzz_reader: it reads the file of one option
 * (--data or --init) as a training program does that has a vocabulary of 256
 * tokens and two parameters. With --save it saves a checkpoint in the directory
 * `value`. With --resume it puts the file into that checkpoint as its index,
 * with a valid checksum, and resumes it. With --data, a file *.idx is an index
 * of Megatron for FUZZ_TOKENS tokens of 16 bits, which it writes beside the
 * file; the text of a file *.spec is the value of the option; a file *.npy
 * feeds both inputs. */
enum { FUZZ_TOKENS = 100 };
#define FUZZ_STEP "step-00000003"
typedef struct FuzzProgram {
    const char *option, *value;
} FuzzProgram;
int fuzz_reader(void *program);
/* A valid file for `option`. */
char *fuzz_reader_file(Arena *a, const char *option, size_t *size);
/* A valid array of NumPy for the inputs tokens and labels. */
char *fuzz_reader_array(Arena *a, size_t *size);

#endif
