/* subcommand.h: what the subcommands that run parc share: `parc compare`, `parc calibrate`.
 */
#ifndef PARC_DRIVER_SUBCOMMAND_H
#define PARC_DRIVER_SUBCOMMAND_H

#include "base/arena.h"
#include "base/diag.h"

typedef struct Subcommand {
    Arena *arena;
    Diag *diag;
    int status; /* the exit status: that of the first error */
} Subcommand;

Subcommand subcommand_new(void);
/* Prints the errors, frees the arena, and returns the exit status. */
int subcommand_end(Subcommand *s);

/* Reports an error, unless there was one. */
void subcommand_fail(Subcommand *s, int status, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Prints the help. */
void subcommand_help(Subcommand *s, const char *help);

/* Runs parc with these arguments, up to a NULL; prints its messages on standard error if it
 * fails. Returns its exit status. */
int subcommand_run(Subcommand *s, const char *const *argument);

#endif
