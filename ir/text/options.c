/* options.c: prints and parses the options of `plan` and `train` in the header
 * of a program, as the rows of ir/options.def say.
 *
 *   train batch=8 … optimizer=adamw lr=0.001 beta1=0.9 beta2=0.999 …
 *   unit axis=dp paths("norm") strategy=full_shard reshard=-1 prefetch=2
 *   checkpoint paths("layers.*") every=2 keep=attention keep=matmul
 *
 * Several words or numbers are several values. Words are in small letters. A pair `betas` is `beta1` and `beta2`. A flag that
 * is not given is -1. The parser takes options in any order; those that are
 * missing have their defaults.
 */
#include <string.h>
#include <strings.h>

#include "ir/options.h"
#include "ir/text/text.h"

static int64_t text_option_word(Text *t, const Option *o, int64_t value)
{
    if (t->out) {
        out(t->out, "%s", option_dump_word(t->arena, o, value));
        return value;
    }
    Loc loc = t->tok.loc;
    const char *word = t->tok.text; /* "1f1b" begins as a number */
    if (t->tok.kind == TK_NUMBER)
        parse_next(t);
    else
        word = parse_word(t, "a word");
    for (const OptionWord *k = o->words; k->name && !t->failed; k++)
        if (strcasecmp(k->name, word) == 0)
            return k->value;
    parse_fail(t, loc, "'%s' is no value of '%s'", word, o->name);
    return 0;
}

/* A number of the range, or the default or 0, which may be outside. */
static void check_range(Text *t, Loc loc, const Option *o, double x)
{
    if (!(x >= o->low && x <= o->high) && x != o->initial && x != 0)
        parse_fail(t, loc, "'%s' is out of range", o->name);
}

static int64_t text_option_flag(Text *t, int64_t x)
{
    if (t->out ? x < 0 : t->tok.kind == TK_NUMBER) {
        text_field(t, "", &x);
        return x;
    }
    bool on = x;
    text_field(t, "", &on);
    return on;
}

/* Number `i` of a list, or when parsing the next one. */
static void text_list_value(Text *t, const Option *o, int i, void *of)
{
    Loc loc = t->tok.loc;
    NumberList list = *option_list(o, of);
    double x = t->out ? list.v[i] : 0;
    int64_t whole = (int64_t)x;
    if (o->takes == TAKES_INTS) {
        text_field(t, "", &whole);
        x = (double)whole;
    } else {
        text_field(t, "", &x);
    }
    if (t->out || t->failed)
        return;
    if (list.n == MAX_NUMBERS)
        parse_fail(t, loc, "'%s' has more than %d numbers", o->name, MAX_NUMBERS);
    else if (!option_list_takes(o, &list, x))
        parse_fail(t, loc, "'%s' is out of range", o->name);
    else
        list.v[list.n++] = x;
    option_store_list(o, of, &list);
}

/* The value of an option: of a pair or a list number `part`, of words the word
 * `bit`. */
static void text_value(Text *t, const Option *o, int part, int64_t bit,
                       void *of)
{
    Loc loc = t->tok.loc;
    if (option_is_list(o)) {
        text_list_value(t, o, part, of);
        return;
    }
    if (option_is_number(o)) {
        double number = option_number(o, of, part);
        text_field(t, "", &number);
        if (o->takes != TAKES_LIMIT)
            check_range(t, loc, o, number);
        option_store_number(o, of, part, number);
        return;
    }
    int64_t x = option_integer(o, of);
    if (o->takes == TAKES_INT) {
        text_field(t, "", &x);
        check_range(t, loc, o, (double)x);
    } else if (o->takes == TAKES_FLAG) {
        x = text_option_flag(t, x);
        if (x < -1 || x > 1)
            parse_fail(t, loc, "'%s' takes no number", o->name);
    } else if (o->takes == TAKES_WORDS) {
        x |= INT64_C(1) << text_option_word(t, o, bit);
    } else {
        x = text_option_word(t, o, x);
    }
    if (!t->failed)
        option_store_integer(o, of, x);
}

/* The option that a key names, in the scope or among the arguments of its
 * calls; *part: the number of a pair that it names. */
static const Option *find_key(OptionScope scope, const char *key, int *part)
{
    size_t n = strlen(key);
    for (const Option *o = option_rows; o < option_rows + OPTIONS; o++) {
        if (o->scope != scope || o->size == 0)
            continue;
        size_t stem = strlen(o->name) - 1;
        bool digit = n == stem + 1 && (key[stem] == '1' || key[stem] == '2');
        if (o->takes == TAKES_PAIR && digit &&
            strncmp(o->name, key, stem) == 0) {
            *part = key[stem] - '1';
            return o;
        }
        if (o->takes != TAKES_PAIR && o->dump != DUMP_NEVER &&
            strcmp(o->name, key) == 0)
            return o;
        const Option *arg =
            o->takes == TAKES_CALL ? find_key(o->args, key, part) : NULL;
        if (arg)
            return arg;
    }
    return NULL;
}

static void print_option(Text *t, const Option *o, void *of)
{
    int stem = (int)strlen(o->name);
    if (o->takes == TAKES_WORDS) {
        for (const OptionWord *k = o->words; k->name; k++)
            if (option_integer(o, of) >> k->value & 1) {
                out(t->out, " %s=", o->name);
                text_value(t, o, 0, k->value, of);
            }
    } else if (option_is_list(o)) {
        for (int i = 0; i < option_list(o, of)->n; i++) {
            out(t->out, " %s=", o->name);
            text_value(t, o, i, 0, of);
        }
    } else if (o->takes == TAKES_PAIR) {
        for (int i = 0; i < 2; i++) {
            out(t->out, " %.*s%d=", stem - 1, o->name, i + 1);
            text_value(t, o, i, 0, of);
        }
    } else {
        out(t->out, " %s=", o->name);
        text_value(t, o, 0, 0, of);
    }
}

/* `choice`: of the call whose arguments these are, else 0. */
static void print_options(Text *t, OptionScope scope, int choice, void *of)
{
    for (const Option *o = option_rows; o < option_rows + OPTIONS; o++) {
        if (o->scope != scope || o->size == 0 || o->dump == DUMP_NEVER)
            continue;
        if (o->dump == DUMP_ALWAYS ||
            (option_is_of(o, choice) && !option_is_initial(o, of)))
            print_option(t, o, of);
        if (o->takes == TAKES_CALL)
            print_options(t, o->args, (int)option_integer(o, of), of);
    }
}

void text_options(Text *t, OptionScope scope, void *of)
{
    if (t->out)
        print_options(t, scope, 0, of);
    else
        options_init(scope, 0, of);
    while (t->tok.kind == TK_WORD && !t->tok.first) {
        int part = 0;
        const Option *o = find_key(scope, t->tok.text, &part);
        if (!o) {
            parse_fail(t, t->tok.loc, "unknown option '%s'", t->tok.text);
            return;
        }
        parse_next(t);
        text_form(t, "=");
        text_value(t, o, part, 0, of);
    }
}
