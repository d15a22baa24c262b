/* option_values.h: the values of options on the command line. */
#ifndef PARC_DRIVER_OPTION_VALUES_H
#define PARC_DRIVER_OPTION_VALUES_H

#include "driver/options/option_table.h"
#include "driver/options/options.h"

/* Where values are stored and errors are reported; `wrong` is set with each error. */
typedef struct OptionReader {
    Arena *arena;
    Diag *diag;
    Options *o;
    bool wrong;
} OptionReader;

void option_wrong(OptionReader *r, Loc loc, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Suggests a name; without one, prints `otherwise`. */
void option_suggest(OptionReader *r, const char *near, const char *otherwise);

/* The name in the list for a word of other compilers; NULL if unknown. */
const char *option_known_as(const char *name, const char *const *names, int n);

/* Stores the value of an option, which has no text if the option takes none. Not for options
 * that print a text and stop. */
void option_take(OptionReader *r, const OptionRow *row, Argument value);

#endif
