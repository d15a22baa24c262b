/* help.h: prints the option table as help, manual page, completion script. */
#ifndef PARC_DRIVER_HELP_H
#define PARC_DRIVER_HELP_H

#include "base/out.h"
#include "driver/options/option_table.h"

/* Appends the text of --help: usage, examples, options by group. */
void help_text(Out *o);

/* Appends the manual page parc.1 (mdoc, section 1). */
void help_manual(Out *o);

/* Appends a completion script; shell: "bash", "zsh" or "fish". */
void help_completion(Out *o, const char *shell);

/* The words that an option's value may be, in order; *n: their number (0 for
 * a value that is not one of a list). */
const char **option_words(Arena *a, const OptionRow *row, int *n);

#endif
