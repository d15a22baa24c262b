/* option_table.h: the only list of parc's options.
 *
 * options.c and option_values.c read the command line with it; help.c prints it as --help,
 * as the manual page parc.1 and as completion scripts.
 */
#ifndef PARC_DRIVER_OPTION_TABLE_H
#define PARC_DRIVER_OPTION_TABLE_H

#include "base/arena.h"

typedef enum OptionId {
    OPT_MESH,
    OPT_RANKS,
    OPT_NODE_SIZE,
    OPT_SEARCH,
    OPT_PLAN,
    OPT_TARGET,
    OPT_ARCH,
    OPT_CPU,
    OPT_THREADS,
    OPT_MEMORY,
    OPT_MACHINE,
    OPT_FROM,
    OPT_CONFIG,
    OPT_DEFINE,
    OPT_OUTPUT,
    OPT_SOURCE_TREE,
    OPT_NO_EVAL,
    OPT_EMIT,
    OPT_EXPLAIN,
    OPT_DUMP_BEFORE,
    OPT_DUMP_AFTER,
    OPT_DUMP_ALL,
    OPT_STOP_AFTER,
    OPT_START_AFTER,
    OPT_LIST_PASSES,
    OPT_LIST_OPTIONS,
    OPT_TIME_PASSES,
    OPT_VERBOSE,
    OPT_COLOR,
    OPT_COMPLETION,
    OPT_MANUAL,
    OPT_HELP,
    OPT_VERSION,
} OptionId;

/* The kind of an option's value, for completion in shells. */
typedef enum ValueKind {
    VALUE_NONE, /* the option takes no value */
    VALUE_TEXT, /* free text: no completion */
    VALUE_FILE,
    VALUE_DIRECTORY,
    VALUE_WORDS, /* one of OptionRow.words */
    VALUE_ARCH,  /* a GPU architecture */
    VALUE_PASS,  /* a pass's name */
} ValueKind;

typedef struct OptionRow {
    OptionId id;
    const char *name, *alias; /* alias: a short spelling, or NULL */
    const char *value;        /* the value's placeholder in the help */
    ValueKind kind;
    const char *words; /* VALUE_WORDS: the words, separated by blanks */
    const char *help;  /* lines separated by \n */
} OptionRow;

/* A heading of the help; its rows end before the next group's first row. */
typedef struct OptionGroup {
    OptionId first;
    const char *title;
} OptionGroup;

extern const OptionRow option_table[];
extern const int option_count;
extern const OptionGroup option_groups[];
extern const int option_group_count;

/* The option that `name` is near to, without the dashes of both; else NULL. */
const char *option_near(Arena *a, const char *name);

#endif
