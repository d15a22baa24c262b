/* option_value.c: evaluates the value of an option and stores it in its field;
 * reads the options after the colon of a plan's item.
 *
 *   prefetch=2                2 in Unit.prefetch
 *   prefetch=17               error: 'prefetch' must be from 0 to 16, not 17
 *   keep=(attention, matmul)  the bits 3 in Checkpoint.keep
 */
#include <string.h>

#include "frontend/options/options.h"

/* ---- numbers ------------------------------------------------------------- */

/* A bound of the range, as a number of the option's kind. */
static const char *bound_text(Lower *l, const Option *o, double x)
{
    return x == 0x1p40               ? "2 ** 40"
           : o->takes == TAKES_INT   ? datum_text(l->arena,
                                                  datum_int((int64_t)x))
                                     : arena_printf(l->arena, "%g", x);
}

static bool out_of_range(Lower *l, const Option *o, const Expr *e, Datum x)
{
    const char *help = o->example ? arena_printf(l->arena, "such as %s",
                                                 o->example) : NULL;
    bool open = o->high > 0x1p20; /* the upper bound is no part of the rule */
    const char *low = bound_text(l, o, o->low);
    if (open && datum_number(x) < o->low)
        return lower_error(l, e->range, help, "'%s' must be at least %s, not "
                           "%s", o->name, low, datum_text(l->arena, x));
    return lower_error(l, e->range, help, "'%s' must be from %s to %s, not %s",
                       o->name, low, bound_text(l, o, o->high),
                       datum_text(l->arena, x));
}

static bool read_integer(Lower *l, const Option *o, const Expr *e, void *to)
{
    int64_t x;
    const char *what = arena_printf(l->arena, "'%s'", o->name);
    if (!lower_int(l, e, what, &x))
        return false;
    if ((double)x < o->low || (double)x > o->high)
        return out_of_range(l, o, e, datum_int(x));
    option_store_integer(o, to, x);
    return true;
}

static bool read_number(Lower *l, const Option *o, const Expr *e, void *to)
{
    double x;
    const char *what = arena_printf(l->arena, "'%s'", o->name);
    if (!lower_float(l, e, what, &x))
        return false;
    if (!(x >= o->low && x <= o->high))
        return out_of_range(l, o, e, datum_float(x));
    if (!lower_f32(l, e->range, x))
        return false;
    option_store_number(o, to, 0, x);
    return true;
}

static bool read_limit(Lower *l, const Option *o, const Expr *e, void *to)
{
    Datum d = lower_expr(l, e);
    double x = datum_is_number(d) ? datum_number(d) : 0;
    if (d.kind == DATUM_POISON)
        return false;
    if (d.kind != DATUM_NONE && !(x > 0 && x >= o->low))
        return lower_error(l, e->range,
                           arena_printf(l->arena, "'%s = none' turns it off",
                                        o->name),
                           "'%s' must be %s %s %g, not %s", o->name, o->example,
                           o->low > 0 ? "of at least" : "above", o->low,
                           datum_text(l->arena, d));
    if (!lower_f32(l, e->range, x))
        return false;
    option_store_number(o, to, 0, x);
    return true;
}

static bool read_pair(Lower *l, const Option *o, const Expr *e, void *to)
{
    double x[2] = {0, 0};
    Datum d = lower_expr(l, e);
    if (d.kind == DATUM_POISON)
        return false;
    bool fine = d.kind == DATUM_TUPLE && d.nitems == 2;
    for (int i = 0; i < 2 && fine; i++) {
        fine = datum_is_number(d.item[i]);
        x[i] = fine ? datum_number(d.item[i]) : 0;
        fine &= x[i] >= o->low && (float)x[i] < o->high;
    }
    if (!fine)
        return lower_error(l, e->range,
                           arena_printf(l->arena, "such as %s=%s", o->name,
                                        o->example),
                           "'%s' must be two numbers of at least %g and below "
                           "%g in f32", o->name, o->low, o->high);
    for (int i = 0; i < 2; i++) {
        if (!lower_f32(l, e->range, x[i]))
            return false;
        option_store_number(o, to, i, x[i]);
    }
    return true;
}

/* ---- lists of numbers ---------------------------------------------------- */

static bool read_element(Lower *l, const Option *o, const Expr *e,
                         NumberList *list)
{
    const char *what = arena_printf(l->arena, "'%s'", o->name);
    const char *help = arena_printf(l->arena, "such as %s=%s", o->name,
                                    o->example);
    bool whole = o->takes == TAKES_INTS;
    int64_t n = 0;
    double x = 0;
    if (whole ? !lower_int(l, e, what, &n) : !lower_float(l, e, what, &x))
        return false;
    Datum given = whole ? datum_int(n) : datum_float(x);
    x = whole ? (double)n : x;
    if (whole && (x < o->low || x > o->high))
        return out_of_range(l, o, e, given);
    if (whole && !option_list_takes(o, list, x))
        return lower_error(l, e->range, help, "'%s' must ascend: %lld follows "
                           "%.0f", o->name, (long long)n, list->v[list->n - 1]);
    if (!option_list_takes(o, list, x))
        return lower_error(l, e->range, help, "'%s' must be %s, not %s", o->name,
                           o->low < 0 ? "finite numbers" : "numbers above 0",
                           datum_text(l->arena, given));
    if (!whole && !lower_f32(l, e->range, x))
        return false;
    list->v[list->n++] = x;
    return true;
}

static bool read_list(Lower *l, const Option *o, const Expr *e, void *to)
{
    NumberList list = {0};
    bool several = e->kind == EX_TUPLE, fine = true;
    int n = several ? e->nargs : 1;
    if (n > MAX_NUMBERS)
        return lower_error(l, e->range, NULL, "'%s' takes at most %d values, "
                           "not %d", o->name, MAX_NUMBERS, n);
    for (int i = 0; i < n && fine; i++)
        fine = read_element(l, o, several ? e->arg[i].value : e, &list);
    if (fine)
        option_store_list(o, to, &list);
    return fine;
}

/* ---- flags and words ----------------------------------------------------- */

static bool read_flag(Lower *l, const Option *o, const Expr *e, void *to)
{
    Datum d = lower_expr(l, e);
    if (d.kind == DATUM_POISON)
        return false;
    if (d.kind != DATUM_BOOL)
        return lower_error(l, e->range, NULL, "'%s' must be true or false",
                           o->name);
    option_store_integer(o, to, d.integer);
    return true;
}

const char *option_words_text(Arena *a, const Option *o,
                              const char *conjunction)
{
    const OptionWord *w = o->words;
    const char *text = w->name;
    for (w++; w->name; w++)
        text = w[1].name ? arena_printf(a, "%s, %s", text, w->name)
                         : arena_printf(a, "%s %s %s", text, conjunction,
                                        w->name);
    return text;
}

/* The word that an expression spells; NULL: it is no word. */
static const char *spelled(Lower *l, const Expr *e)
{
    return e->kind == EX_NAME || e->kind == EX_STRING ? e->name
           : e->kind == EX_NONE                       ? "none"
           : e->kind == EX_INT
               ? arena_printf(l->arena, "%lld", (long long)e->integer)
               : NULL;
}

const OptionWord *option_find_word(Lower *l, const Option *o, const char *text,
                                   NameList *names)
{
    *names = (NameList){.arena = l->arena};
    for (const OptionWord *w = o->words; w->name; w++) {
        if (text && strcmp(w->name, text) == 0)
            return w;
        names_add(names, w->name, (Loc){0});
    }
    return NULL;
}

static const OptionWord *read_word(Lower *l, const Option *o, const Expr *e)
{
    const char *text = spelled(l, e);
    NameList names;
    const OptionWord *found = option_find_word(l, o, text, &names);
    if (found)
        return found;
    const char *words = option_words_text(l->arena, o, "or");
    if (o->takes == TAKES_WORDS)
        words = arena_printf(l->arena, "%s, or several in parentheses", words);
    diag_error(l->diag, e->range, "'%s' must be %s%s%s%s", o->name, words,
               text ? ", not '" : "", text ? text : "", text ? "'" : "");
    const char *foreign = text ? option_foreign_word(text) : NULL;
    if (foreign)
        diag_help(l->diag, "did you mean '%s'?", foreign);
    else if (text)
        names_suggest(l->diag, &names, text);
    return NULL;
}

static bool read_words(Lower *l, const Option *o, const Expr *e, void *to)
{
    bool several = e->kind == EX_TUPLE;
    int64_t bits = 0;
    for (int i = 0; i < (several ? e->nargs : 1); i++) {
        const OptionWord *w = read_word(l, o, several ? e->arg[i].value : e);
        if (!w)
            return false;
        bits |= 1ll << w->value;
    }
    option_store_integer(o, to, bits);
    return true;
}

bool option_read(Lower *l, const Option *o, const Expr *e, void *to)
{
    const OptionWord *w;
    switch (o->takes) {
    case TAKES_INT:
        return read_integer(l, o, e, to);
    case TAKES_NUMBER:
        return read_number(l, o, e, to);
    case TAKES_LIMIT:
        return read_limit(l, o, e, to);
    case TAKES_PAIR:
        return read_pair(l, o, e, to);
    case TAKES_INTS:
    case TAKES_NUMBERS:
        return read_list(l, o, e, to);
    case TAKES_FLAG:
        return read_flag(l, o, e, to);
    case TAKES_WORD:
        w = read_word(l, o, e);
        if (w)
            option_store_integer(o, to, w->value);
        return w;
    case TAKES_WORDS:
        return read_words(l, o, e, to);
    case TAKES_CALL:     /* option_read_setting */
    case TAKES_PATTERNS:
    case TAKES_GROUPS:
    case TAKES_STAGES: /* the grammar */
        break;
    }
    return false;
}

/* ---- the options of an item ----------------------------------------------- */

static void refuse(Lower *l, ClauseKind clause, const Arg *arg)
{
    OptionScope scope = clause_rows[clause].scope;
    if (scope == NO_OPTIONS) {
        diag_error(l->diag, arg->name_loc, "%s has no options",
                   clause_name(clause));
    } else {
        diag_error(l->diag, arg->name_loc, "%s has no option '%s'",
                   clause_name(clause), arg->name);
        option_help(l, scope, arg->name);
    }
}

void options_read(Lower *l, ClauseKind clause, const Item *item, void *to,
                  GivenOptions *given)
{
    OptionScope scope = clause_rows[clause].scope;
    *given = (GivenOptions){{NULL}};
    options_init(scope, 0, to);
    for (int i = 0; i < item->noptions; i++) {
        const Arg *arg = &item->option[i];
        const Option *o =
            scope == NO_OPTIONS ? NULL : option_find(scope, arg->name);
        if (!o || !option_is_usable(o)) {
            refuse(l, clause, arg);
            continue;
        }
        const Arg **at = &given->at[o - option_rows];
        if (*at)
            diag_error(l->diag, arg->name_loc, "'%s' is given twice", o->name);
        if (option_read(l, o, arg->value, to))
            *at = arg;
    }
}
