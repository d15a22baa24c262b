/* self.h: runs parc itself, for subcommands that compile. */
#ifndef PARC_DRIVER_SELF_H
#define PARC_DRIVER_SELF_H

#include "base/arena.h"

/* Runs parc with these arguments, up to a NULL; prints its messages on standard error if it
 * fails. Returns its exit status. */
int self_run(Arena *a, const char *const *argument);

#endif
