/* options.c: prints and parses the options of `plan` and `train` in the header
 * of a program, as the rows of ir/options.def say.
 *
 *   train batch=8 … optimizer=adamw lr=0.001 beta1=0.9 beta2=0.999 …
 *   unit axis=dp paths("norm") strategy=full_shard reshard=-1 prefetch=2
 *   checkpoint paths("layers.*") every=2 keep=attention keep=matmul
 *
 * Words are in small letters. A pair `betas` is `beta1` and `beta2`. A flag that
 * is not given is -1. The parser takes options in any order; those that are
 * missing have their defaults.
 */
#include <string.h>
#include <strings.h>

#include "ir/options.h"
#include "ir/text/parse.h"
#include "ir/text/print.h"

/* ---- printing ------------------------------------------------------------ */

static void print_number(Printer *w, const char *key, int digits, double x)
{
    out(w->o, " %.*s=", digits, key);
    out_double(w->o, x);
}

static void print_words(Printer *w, const Option *o, int64_t bits)
{
    for (const OptionWord *k = o->words; k->name; k++)
        if (bits >> k->value & 1)
            out(w->o, " %s=%s", o->name, k->name);
}

/* "beta1=0.9 beta2=0.999" for `betas` */
static void print_pair(Printer *w, const Option *o, const void *of)
{
    int stem = (int)strlen(o->name) - 1;
    for (int i = 0; i < 2; i++) {
        out(w->o, " %.*s%d=", stem, o->name, i + 1);
        out_double(w->o, option_number(o, of, i));
    }
}

static void print_option(Printer *w, const Option *o, const void *of)
{
    switch (o->takes) {
    case TAKES_NUMBER:
    case TAKES_LIMIT:
        print_number(w, o->name, (int)strlen(o->name),
                     option_number(o, of, 0));
        return;
    case TAKES_PAIR:
        print_pair(w, o, of);
        return;
    case TAKES_FLAG:
        out(w->o, " %s=%s", o->name,
            option_integer(o, of) < 0 ? "-1"
            : option_integer(o, of)   ? "true"
                                      : "false");
        return;
    case TAKES_WORD:
    case TAKES_CALL:
        out(w->o, " %s=%s", o->name,
            option_dump_word(w->p->arena, o, option_integer(o, of)));
        return;
    case TAKES_WORDS:
        print_words(w, o, option_integer(o, of));
        return;
    case TAKES_INT:
        out(w->o, " %s=%lld", o->name, (long long)option_integer(o, of));
        return;
    case TAKES_PATTERNS:
        return;
    }
}

void print_options(Printer *w, OptionScope scope, const void *of)
{
    for (const Option *o = option_rows; o < option_rows + OPTIONS; o++) {
        if (o->scope != scope || o->size == 0 || o->dump == DUMP_NEVER)
            continue;
        if (o->dump == DUMP_ALWAYS || !option_is_initial(o, of))
            print_option(w, o, of);
        if (o->takes == TAKES_CALL)
            print_options(w, o->args, of);
    }
}

/* ---- parsing ------------------------------------------------------------- */

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

static int64_t parse_option_word(Parser *s, const Option *o)
{
    Loc loc = s->tok.loc;
    const char *word = parse_word(s, "a word");
    for (const OptionWord *k = o->words; k->name && !s->failed; k++)
        if (strcasecmp(k->name, word) == 0)
            return o->takes == TAKES_WORDS ? 1ll << k->value : k->value;
    if (!s->failed)
        parse_fail(s, loc, "'%s' is no value of '%s'", word, o->name);
    return 0;
}

/* A number of the range, or the default or 0, which may be outside. */
static void check_range(Parser *s, Loc loc, const Option *o, double x)
{
    if (!(x >= o->low && x <= o->high) && x != o->initial && x != 0)
        parse_fail(s, loc, "'%s' is out of range", o->name);
}

static void parse_option(Parser *s, const Option *o, int part, void *to)
{
    Loc loc = s->tok.loc;
    int64_t x = 0;
    if (o->takes == TAKES_NUMBER || o->takes == TAKES_LIMIT ||
        o->takes == TAKES_PAIR) {
        double number = parse_number(s);
        if (o->takes != TAKES_LIMIT)
            check_range(s, loc, o, number);
        option_store_number(o, to, part, number);
        return;
    }
    if (o->takes == TAKES_INT || s->tok.kind == TK_NUMBER) {
        x = parse_int(s);
        if (o->takes == TAKES_INT)
            check_range(s, loc, o, (double)x);
        else if (o->takes != TAKES_FLAG || x < -1 || x > 1)
            parse_fail(s, loc, "'%s' takes no number", o->name);
    } else if (o->takes == TAKES_FLAG) {
        x = parse_bool(s);
    } else {
        x = parse_option_word(s, o);
    }
    if (o->takes == TAKES_WORDS)
        x |= option_integer(o, to);
    if (!s->failed)
        option_store_integer(o, to, x);
}

void parse_options(Parser *s, OptionScope scope, void *to)
{
    options_init(scope, 0, to);
    while (s->tok.kind == TK_WORD && !s->tok.first && !s->failed) {
        int part = 0;
        const Option *o = find_key(scope, s->tok.text, &part);
        if (!o) {
            parse_fail(s, s->tok.loc, "unknown option '%s'", s->tok.text);
            return;
        }
        parse_next(s);
        parse_expect(s, '=');
        parse_option(s, o, part, to);
    }
}
