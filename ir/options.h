/* options.h: the clauses of `plan`, and the options of `plan` and `train`.
 *
 * options.def has one row for each. From the rows follow how the frontend reads
 * options (frontend/options/) and what -D accepts, the header of dumps
 * (ir/text/options.c).
 *
 *   row      OPTION(FULLY_SHARD, prefetch, "prefetch", INT, prefetch,
 *                   .initial = -1, .high = MAX_PREFETCH, …)
 *   plan     fully_shard dp { layers.*: prefetch=2 }
 *   struct   Unit.prefetch == 2
 *   dump     unit axis=dp paths("layers.*") reshard=-1 prefetch=2
 */
#ifndef PARC_IR_OPTIONS_H
#define PARC_IR_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"

/* Where an option is written, and the struct that has its field. */
typedef enum OptionScope {
    NO_OPTIONS,
    SCOPE_TRAIN,       /* Train */
    SCOPE_OPTIMIZER,   /* Train: arguments of `optimizer` */
    SCOPE_SCHEDULE,    /* Train: arguments of `schedule` */
    SCOPE_GROUP,       /* ParamGroup: arguments of `group` in `groups` */
    SCOPE_FULLY_SHARD, /* Unit */
    SCOPE_CHECKPOINT,  /* Checkpoint */
    SCOPE_OFFLOAD,     /* PlanSpec: the items of the clause are words */
    SCOPE_PIPELINE,    /* Pipeline: the items of the clause are options */
    SCOPE_CONTEXT,     /* Context: options of its item, which is a word */
    SCOPE_EXPERTS,     /* ExpertItem */
} OptionScope;

/* What an option takes. Integers, flags and words may have fields of any
 * integer type, numbers have a double. */
typedef enum OptionTakes {
    TAKES_INT,      /* an integer from `low` to `high` */
    TAKES_NUMBER,   /* a number from `low` to `high` */
    TAKES_LIMIT,    /* a number above 0, at least `low`, or none, which is stored as 0 */
    TAKES_PAIR,     /* two numbers from `low` to below `high`: two doubles */
    TAKES_INTS,     /* one or several integers from `low` to `high`, in ascending
                     * order: a NumberList */
    TAKES_NUMBERS,  /* one or several numbers above `low`: a NumberList */
    TAKES_FLAG,     /* true or false; -1 is stored if it is not given */
    TAKES_WORD,     /* one of `words` */
    TAKES_WORDS,    /* one or several of `words`: the bits 1 << value */
    TAKES_CALL,     /* one of `words`, which may have arguments of `args` */
    TAKES_PATTERNS, /* strings; they have no field */
    TAKES_GROUPS,   /* calls of `group` with arguments of `args`; no field */
    TAKES_STAGES,   /* a list of the modules of each stage; no field */
} OptionTakes;

/* The numbers of an option that takes several. */
enum { MAX_NUMBERS = 16 };
typedef struct NumberList {
    int n;
    double v[MAX_NUMBERS];
} NumberList;

typedef enum OptionDump { DUMP_GIVEN, DUMP_ALWAYS, DUMP_NEVER } OptionDump;

typedef struct OptionWord {
    const char *name;
    int value;
    const char *help; /* NULL: none */
} OptionWord;

typedef struct Option {
    const char *name;
    OptionScope scope;
    OptionTakes takes;
    size_t at, size;          /* the field; size 0: no field */
    double low, high;
    double initial, second;   /* the default; `second` of a pair */
    uint32_t of;              /* an argument of these choices (1 << value); 0:
                               * of all */
    struct OwnDefault {
        uint32_t of;          /* these choices have this default */
        double initial, second;
    } own[3];                 /* `of` = 0 ends the list */
    const OptionWord *words;  /* a name of NULL ends the list */
    OptionScope args;         /* TAKES_CALL, TAKES_GROUPS */
    OptionDump dump;          /* DUMP_GIVEN: printed if it is not the default */
    bool readable;            /* expressions of forward can read it */
    bool selects;             /* an item of its own: min_params=1000 */
    bool run;                 /* a run can set it: --set of the program */
    const char *targets;      /* where it has an effect; NULL: everywhere */
    const char *standard;     /* the default in words; NULL: `initial` */
    const char *unit;         /* of an integer; NULL: none */
    const char *example;      /* a value, for messages */
    const char *see;          /* a heading of docs/pdl.md, or NULL */
    const char *help;
} Option;

typedef enum OptionName {
#define CLAUSE(...)
#define OPTION(scope, id, ...) OPTION_##id,
#define OPTION_WITHOUT_FIELD(scope, id, ...) OPTION_##id,
#include "ir/options.def"
#undef OPTION
#undef OPTION_WITHOUT_FIELD
#undef CLAUSE
    OPTIONS
} OptionName;

typedef enum ClauseKind {
#define CLAUSE(id, ...) CL_##id,
#define OPTION(...)
#define OPTION_WITHOUT_FIELD(...)
#include "ir/options.def"
#undef OPTION
#undef OPTION_WITHOUT_FIELD
#undef CLAUSE
    CLAUSES
} ClauseKind;

typedef struct ClauseInfo {
    const char *name;
    const char *form;
    OptionScope scope;
    const char *see, *help;
} ClauseInfo;

/* Whether an item may have the option after its colon, or `train` as a setting.
 */
static inline bool option_is_usable(const Option *o)
{
    return !o->selects;
}

extern const Option option_rows[OPTIONS];
extern const ClauseInfo clause_rows[CLAUSES];

static inline const char *option_name(OptionName id)
{
    return option_rows[id].name;
}
static inline const char *clause_name(ClauseKind k)
{
    return clause_rows[k].name;
}

/* "optimizer.": what -D writes before the name of an option of this scope; "",
 * or NULL if -D does not set options of the scope. */
const char *option_prefix(OptionScope scope);
/* The names of the options that -D takes and a run cannot set, with spaces
 * between: "batch seq … optimizer.momentum". */
const char *options_of_program(Arena *a);
/* The option of a scope with this name, `selects` or not; NULL: none. */
const Option *option_find(OptionScope scope, const char *name);
/* Whether an expression of forward reads this name as a setting of train. */
bool option_is_readable(const char *name);
/* The clause of this name, supported or not; NULL: none. */
const ClauseInfo *clause_find(const char *name);

/* The word of a value of a TAKES_WORD, TAKES_WORDS or TAKES_CALL; and the word
 * as dumps write it, in small letters. */
const char *option_word(OptionName id, int64_t value);
const char *option_dump_word(Arena *a, const Option *o, int64_t value);

/* Whether the field has numbers, not integers. */
bool option_is_number(const Option *o);
/* The field as an integer; as a number (of a pair: number i). */
int64_t option_integer(const Option *o, const void *of);
double option_number(const Option *o, const void *of, int i);
void option_store_integer(const Option *o, void *of, int64_t x);
void option_store_number(const Option *o, void *of, int i, double x);
/* The field of a TAKES_INTS or TAKES_NUMBERS. */
bool option_is_list(const Option *o);
const NumberList *option_list(const Option *o, const void *of);
void option_store_list(const Option *o, void *of, const NumberList *list);
/* Whether a list may continue with this number. */
bool option_list_takes(const Option *o, const NumberList *list, double x);
/* Whether the field has the default. */
bool option_is_initial(const Option *o, const void *of);
/* Whether the choice takes the argument. */
bool option_is_of(const Option *o, int choice);
/* The choice's own default; NULL: it has that of all. */
const struct OwnDefault *option_own_default(const Option *o, int choice);
/* Stores the default of every option of the scope, and of the arguments of its
 * calls; `choice`: of the call whose arguments these are, else 0. */
void options_init(OptionScope scope, int choice, void *of);

#endif
