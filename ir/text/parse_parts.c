/* parse_parts.c: parses numbers, lists, locations and types of the printed
 * IR. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ir/text/parse.h"

/* The present token, for "expected …, found …". */
static const char *found(const Parser *s)
{
    if (s->tok.kind == TK_END)
        return "the end";
    return arena_printf(s->arena, "'%s%s'", s->tok.kind == TK_VALUE ? "%" : "",
                        s->tok.text);
}

bool parse_is(const Parser *s, char c)
{
    return s->tok.kind == TK_CHAR && s->tok.c == c;
}

bool parse_is_word(const Parser *s, const char *word)
{
    return s->tok.kind == TK_WORD && strcmp(s->tok.text, word) == 0;
}

bool parse_take(Parser *s, char c)
{
    if (!parse_is(s, c))
        return false;
    parse_next(s);
    return true;
}

void parse_expect(Parser *s, char c)
{
    if (!parse_take(s, c))
        parse_fail(s, s->tok.loc, "expected '%c', found %s", c, found(s));
}

void parse_expect_word(Parser *s, const char *word)
{
    if (!parse_is_word(s, word))
        parse_fail(s, s->tok.loc, "expected '%s', found %s", word, found(s));
    parse_next(s);
}

bool parse_take_word(Parser *s, const char *word)
{
    if (!parse_is_word(s, word))
        return false;
    parse_next(s);
    return true;
}

void parse_expect_key(Parser *s, const char *key)
{
    parse_expect_word(s, key);
    parse_expect(s, '=');
}

bool parse_take_key(Parser *s, const char *key)
{
    if (!parse_take_word(s, key))
        return false;
    parse_expect(s, '=');
    return true;
}

const char *parse_word(Parser *s, const char *what)
{
    const char *text = s->tok.text;
    if (s->tok.kind != TK_WORD)
        parse_fail(s, s->tok.loc, "expected %s, found %s", what, found(s));
    parse_next(s);
    return text;
}

const char *parse_string(Parser *s)
{
    const char *text = s->tok.text;
    if (s->tok.kind != TK_STRING)
        parse_fail(s, s->tok.loc, "expected a string, found %s", found(s));
    parse_next(s);
    return text;
}

int64_t parse_int(Parser *s)
{
    if (s->tok.kind != TK_NUMBER) {
        parse_fail(s, s->tok.loc, "expected a number, found %s", found(s));
        return 0;
    }
    char *end;
    errno = 0;
    long long x = strtoll(s->tok.text, &end, 10);
    if (*end || end == s->tok.text || errno) {
        parse_fail(s, s->tok.loc, "expected an integer, found %s", found(s));
        return 0;
    }
    parse_next(s);
    return x;
}

int parse_small(Parser *s)
{
    Loc loc = s->tok.loc;
    int64_t x = parse_int(s);
    if (x < -1 || x > 1 << 30) {
        parse_fail(s, loc, "this number is out of range");
        return 0;
    }
    return (int)x;
}

int64_t parse_keyed(Parser *s, const char *key)
{
    parse_expect_key(s, key);
    return parse_int(s);
}

int parse_keyed_small(Parser *s, const char *key)
{
    parse_expect_key(s, key);
    return parse_small(s);
}

double parse_number(Parser *s)
{
    if (s->tok.kind != TK_NUMBER) {
        parse_fail(s, s->tok.loc, "expected a number, found %s", found(s));
        return 0;
    }
    char *end;
    double x = strtod(s->tok.text, &end);
    if (*end || end == s->tok.text)
        parse_fail(s, s->tok.loc, "expected a number, found %s", found(s));
    else if (dtype_range(DT_F32, x) > 0)
        parse_fail(s, s->tok.loc, "this number is too large for f32");
    parse_next(s);
    return x;
}

int parse_choice(Parser *s, const char *const *words, const char *what)
{
    Out list;
    out_init(&list, s->arena);
    for (int i = 0; words[i]; i++) {
        if (parse_is_word(s, words[i])) {
            parse_next(s);
            return i;
        }
        out(&list, "%s%s", i ? ", " : "", words[i]);
    }
    parse_fail(s, s->tok.loc, "expected %s (%s), found %s", what, list.text,
               found(s));
    return 0;
}

bool parse_bool(Parser *s)
{
    static const char *const words[] = {"false", "true", NULL};
    return parse_choice(s, words, "a truth value");
}

int parse_axis(Parser *s)
{
    const Mesh *m = &s->p->mesh;
    Loc loc = s->tok.loc;
    const char *name = parse_word(s, "an axis of the mesh");
    for (int a = 0; a < m->n; a++)
        if (strcmp(m->name[a], name) == 0)
            return a;
    parse_fail(s, loc, "the mesh has no axis '%s'", name);
    return 0;
}

uint32_t parse_axes(Parser *s)
{
    uint32_t axes = 0;
    parse_expect(s, '{');
    if (parse_take(s, '}'))
        return 0;
    do
        axes |= 1u << parse_axis(s);
    while (parse_take(s, ','));
    parse_expect(s, '}');
    return axes;
}

int parse_strings(Parser *s, const char *const **list)
{
    VEC(const char *) v = {0};
    parse_expect(s, '(');
    if (!parse_is(s, ')'))
        do {
            const char *text = parse_string(s);
            vec_push(s->arena, &v, text);
        } while (parse_take(s, ','));
    parse_expect(s, ')');
    *list = v.at;
    return v.n;
}

Loc parse_loc(Parser *s)
{
    if (!parse_take(s, '@'))
        return (Loc){0};
    Loc at = s->tok.loc;
    int64_t file = parse_small(s);
    parse_expect(s, ':');
    int64_t line = parse_small(s);
    parse_expect(s, ':');
    int64_t col = parse_small(s);
    int64_t len = parse_take(s, '+') ? parse_small(s) : 1;
    if (s->failed)
        return (Loc){0};
    if (file < 1 || file > s->source.n || line < 0 || col < 0 || len < 1 ||
        len > UINT16_MAX) {
        parse_fail(s, at, "no such location in a source");
        return (Loc){0};
    }
    return (Loc){s->source.at[file - 1], (uint16_t)len, (uint32_t)line,
                 (uint32_t)col};
}

/* ---- types --------------------------------------------------------------- */

DType parse_dtype(Parser *s)
{
    static const char *const words[] = {"f32", "bf16", "f16",
                                        "i32", "i64",  NULL};
    return (DType)parse_choice(s, words, "an element type");
}

static void place_axis(Parser *s, Type *t, AxisPlace place)
{
    Loc loc = s->tok.loc;
    int axis = parse_axis(s);
    if (t->place.ax[axis].kind != AX_R)
        parse_fail(s, loc, "the type names axis '%s' twice",
                   s->p->mesh.name[axis]);
    if (!s->failed)
        t->place.ax[axis] = place;
}

/* Parses the axes after the '/' of a dim. */
static void parse_split(Parser *s, Type *t, int d)
{
    AxisPlace place = {AX_S, (uint8_t)d, 0};
    if (!parse_take(s, '(')) {
        place_axis(s, t, place);
        return;
    }
    for (;; place.order++) {
        place_axis(s, t, place);
        if (s->tok.kind != TK_DOT)
            break;
        parse_next(s);
    }
    parse_expect(s, ')');
}

static void parse_dims(Parser *s, Type *t)
{
    if (parse_take(s, ']'))
        return;
    do {
        Loc loc = s->tok.loc;
        int64_t size = parse_int(s);
        while (parse_is_word(s, "x") && t->ndim == 0 && !s->failed) {
            if (t->nstack == MAX_STACK) {
                parse_fail(s, loc, "a stack of more than %d", MAX_STACK);
                return;
            }
            t->stack[t->nstack++] = size;
            parse_next(s);
            if (parse_take(s, ']'))
                return;
            loc = s->tok.loc;
            size = parse_int(s);
        }
        if (t->ndim == MAX_DIMS) {
            parse_fail(s, loc, "more than %d dims", MAX_DIMS);
            return;
        }
        t->dim[t->ndim++] = size;
        if (parse_take(s, '/'))
            parse_split(s, t, t->ndim - 1);
    } while (parse_take(s, ','));
    parse_expect(s, ']');
}

Type parse_type(Parser *s)
{
    static const struct {
        char mark;
        AxisKind kind;
    } marks[] = {{'+', AX_P}, {'^', AX_PMAX}, {'~', AX_FLAT}};
    Type t = {.dtype = parse_dtype(s)};
    parse_expect(s, '[');
    parse_dims(s, &t);
    for (size_t i = 0; i < sizeof marks / sizeof *marks;)
        if (parse_take(s, marks[i].mark)) {
            place_axis(s, &t, (AxisPlace){(uint8_t)marks[i].kind, 0, 0});
            i = 0;
        } else {
            i++;
        }
    return t;
}
