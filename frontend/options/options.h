/* options.h: declares how the options of `plan` and `train` are read into the
 * structs of the IR, as the rows of ir/options.def say.
 *
 * option_value.c    the value of one option; the options of an item
 * option_call.c     optimizers and schedules with their arguments
 * option_group.c    patterns and groups of parameters
 * option_help.c     unknown names; names of other libraries
 *
 * Every error of an option is reported here, except those about several options
 * or about the model.
 */
#ifndef PARC_FRONTEND_OPTIONS_OPTIONS_H
#define PARC_FRONTEND_OPTIONS_OPTIONS_H

#include "frontend/lower/lower.h"
#include "ir/options.h"

/* Evaluates a value and stores it in the option's field of *to. False after an
 * error. Only for options that have a field, without TAKES_CALL. */
bool option_read(Lower *l, const Option *o, const Expr *e, void *to);

/* The same for all options of `train` and arguments of its calls. Arguments of
 * `optimizer = AdamW(lr=3e-4)` that are not given get their defaults. */
bool option_read_setting(Lower *l, const Option *o, const Expr *e, void *to);
/* The arguments of the option's current choice that have this name; reports an
 * error and returns NULL if there is none. `loc`: of the name. */
const Option *option_find_argument(Lower *l, const Option *call,
                                   const char *name, const void *of, Loc loc);

/* option_group.c: reads `no_decay`: a pattern, or several in parentheses. False
 * after an error. */
bool option_read_no_decay(Lower *l, const Option *o, const Expr *e);
/* Reads `groups`: one call of `group`, or several in parentheses. */
bool option_read_groups(Lower *l, const Option *o, const Expr *e);

/* The options that an item gives, by OptionName; NULL: not given. */
typedef struct GivenOptions {
    const Arg *at[OPTIONS];
} GivenOptions;
/* Reads the options of an item of a clause into *to, whose other fields get
 * their defaults. */
void options_read(Lower *l, ClauseKind clause, const Item *item, void *to,
                  GivenOptions *given);

/* Helps with an unknown name: the form of parc for a name of another library,
 * the place where the option belongs, a near miss, or a list of the scope's options. */
void option_help(Lower *l, OptionScope scope, const char *name);
/* parc's form of a name of another library, or of an option of another scope;
 * NULL: unknown. */
const char *option_foreign(Arena *a, OptionScope scope, const char *name);
/* How the command line of parc sets what --NAME would set: "write -D
 * batch=VALUE". NULL: no option and no name of another library. */
const char *option_define_help(Arena *a, const char *name);
/* The word of parc for a word of another library: "f16" for "float16"; NULL:
 * unknown. */
const char *option_foreign_word(const char *word);
/* Adds the names of a scope's options. */
void options_add_names(NameList *l, OptionScope scope);
/* The option's word of this name; NULL: none, and *names has all words. */
const OptionWord *option_find_word(Lower *l, const Option *o, const char *text,
                                   NameList *names);
/* "f32, bf16 or f16" with the conjunction "or" */
const char *option_words_text(Arena *a, const Option *o,
                              const char *conjunction);

#endif
