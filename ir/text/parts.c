/* parts.c: prints and parses the small parts of a program's text: numbers,
 * lists, locations and types. */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "ir/text/text.h"

/* ---- forms --------------------------------------------------------------- */

/* The length of the first token of a form, and where it begins; 0: none. */
static int first_token(const char **form)
{
    *form += strspn(*form, " \n");
    int n = 0;
    while (isalnum((unsigned char)(*form)[n]) || (*form)[n] == '_')
        n++;
    if (n == 0)
        n = strncmp(*form, "->", 2) == 0 ? 2 : **form != 0;
    return n;
}

static bool is_token(const Text *t, const char *text, int n)
{
    TokenKind kind = t->tok.kind;
    return (kind == TK_WORD || kind == TK_CHAR || kind == TK_ARROW) &&
           strlen(t->tok.text) == (size_t)n &&
           memcmp(t->tok.text, text, (size_t)n) == 0;
}

/* The present token, for "expected …, found …". */
static const char *found(const Text *t)
{
    if (t->tok.kind == TK_END)
        return "the end";
    return arena_printf(t->arena, "'%s%s'", t->tok.kind == TK_VALUE ? "%" : "",
                        t->tok.text);
}

bool parse_is(const Text *t, const char *form)
{
    int n = first_token(&form);
    return is_token(t, form, n);
}

void text_form(Text *t, const char *form)
{
    if (t->out) {
        out_bytes(t->out, form, strlen(form));
        return;
    }
    for (int n; (n = first_token(&form)) > 0; form += n) {
        if (!is_token(t, form, n))
            parse_fail(t, t->tok.loc, "expected '%.*s', found %s", n, form,
                       found(t));
        parse_next(t);
    }
}

bool text_given(Text *t, bool given, const char *form)
{
    if (!t->out)
        given = parse_is(t, form);
    if (given)
        text_form(t, form);
    return given;
}

void text_flag(Text *t, const char *form, bool *on)
{
    *on = text_given(t, *on, form);
}

void text_begin(Text *t, const char *form)
{
    if (t->out)
        text_form(t, form);
}

void text_end(Text *t, Loc *loc)
{
    text_loc(t, "", loc);
    text_form(t, "\n");
}

/* ---- words and numbers --------------------------------------------------- */

const char *parse_word(Text *t, const char *what)
{
    const char *text = t->tok.text;
    if (t->tok.kind != TK_WORD)
        parse_fail(t, t->tok.loc, "expected %s, found %s", what, found(t));
    parse_next(t);
    return text;
}

void text_string(Text *t, const char *form, const char **x)
{
    text_form(t, form);
    if (t->out) {
        out_json_string(t->out, *x);
        return;
    }
    *x = t->tok.text;
    if (t->tok.kind != TK_STRING)
        parse_fail(t, t->tok.loc, "expected a string, found %s", found(t));
    parse_next(t);
}

void text_int64(Text *t, const char *form, int64_t *x)
{
    text_form(t, form);
    if (t->out) {
        out(t->out, "%lld", (long long)*x);
        return;
    }
    *x = 0;
    char *end;
    errno = 0;
    long long number = strtoll(t->tok.text, &end, 10);
    if (t->tok.kind != TK_NUMBER) {
        parse_fail(t, t->tok.loc, "expected a number, found %s", found(t));
    } else if (*end || end == t->tok.text || errno) {
        parse_fail(t, t->tok.loc, "expected an integer, found %s", found(t));
    } else {
        *x = number;
        parse_next(t);
    }
}

void text_int(Text *t, const char *form, int *x)
{
    int64_t number = *x;
    text_form(t, form);
    Loc loc = t->tok.loc;
    text_int64(t, "", &number);
    bool fits = number >= -1 && number <= 1 << 30;
    if (!fits)
        parse_fail(t, loc, "this number is out of range");
    if (!t->out)
        *x = fits ? (int)number : 0;
}

void text_number(Text *t, const char *form, int *after, int n)
{
    int number = *after - 1;
    if (!text_given(t, number >= 0, form))
        return;
    Loc loc = t->tok.loc;
    text_int(t, "", &number);
    if (number < 0 || number >= n)
        parse_fail(t, loc, "the program has no%s%d", form, number);
    *after = number + 1;
}

void text_double(Text *t, const char *form, double *x)
{
    text_form(t, form);
    if (t->out) {
        out_double(t->out, *x);
        return;
    }
    char *end;
    *x = strtod(t->tok.text, &end);
    if (t->tok.kind != TK_NUMBER || *end || end == t->tok.text)
        parse_fail(t, t->tok.loc, "expected a number, found %s", found(t));
    else if (dtype_range(DT_F32, *x) > 0)
        parse_fail(t, t->tok.loc, "this number is too large for f32");
    parse_next(t);
}

int text_choice(Text *t, const char *form, int value, const char *const *words,
                const char *what)
{
    text_form(t, form);
    if (t->out) {
        out(t->out, "%s", words[value]);
        return value;
    }
    Out list;
    out_init(&list, t->arena);
    for (int i = 0; words[i]; i++) {
        if (text_given(t, false, words[i]))
            return i;
        out(&list, "%s%s", i ? ", " : "", words[i]);
    }
    parse_fail(t, t->tok.loc, "expected %s (%s), found %s", what, list.text,
               found(t));
    return 0;
}

void text_bool(Text *t, const char *form, bool *x)
{
    static const char *const words[] = {"false", "true", NULL};
    *x = text_choice(t, form, *x, words, "a truth value");
}

int text_axis(Text *t, const char *form, int axis)
{
    const Mesh *m = &t->p->mesh;
    text_form(t, form);
    if (t->out) {
        out(t->out, "%s", m->name[axis]);
        return axis;
    }
    Loc loc = t->tok.loc;
    const char *name = parse_word(t, "an axis of the mesh");
    axis = name_index(m->name, m->n, sizeof *m->name, name);
    if (axis < 0)
        parse_fail(t, loc, "the mesh has no axis '%s'", name);
    return axis < 0 ? 0 : axis;
}

/* ---- lists --------------------------------------------------------------- */

static int first_axis(uint32_t axes)
{
    return axes ? __builtin_ctz(axes) : 0;
}

void text_axes(Text *t, const char *form, uint32_t *axes)
{
    uint32_t rest = *axes & ((1u << t->p->mesh.n) - 1), all = 0;
    text_form(t, form);
    text_form(t, "{");
    if (!text_given(t, rest == 0, "}")) {
        do {
            all |= 1u << text_axis(t, "", first_axis(rest));
            rest &= rest - 1;
        } while (text_given(t, rest, ", "));
        text_form(t, "}");
    }
    if (!t->out)
        *axes = all;
}

int text_list(Text *t, const char *form, int n, int64_t *x, int most)
{
    int i = 0;
    text_form(t, form);
    text_form(t, "[");
    if (text_given(t, n == 0, "]"))
        return 0;
    do {
        if (i == most) {
            parse_fail(t, t->tok.loc, "more than %d numbers", most);
            return i;
        }
        text_int64(t, "", &x[i++]);
    } while (text_given(t, i < n, ", "));
    text_form(t, "]");
    return i;
}

int text_strings(Text *t, const char *form, int n, const char *const **list)
{
    VEC(const char *) v = {0};
    int i = 0;
    text_form(t, form);
    text_form(t, "(");
    if (!text_given(t, n == 0, ")")) {
        do {
            const char *text = t->out ? (*list)[i] : NULL;
            text_string(t, "", &text);
            if (!t->out)
                vec_push(t->arena, &v, text);
        } while (text_given(t, ++i < n, ", "));
        text_form(t, ")");
    }
    if (!t->out)
        *list = v.at;
    return i;
}

void text_loc(Text *t, const char *form, Loc *loc)
{
    text_form(t, form);
    if (t->out && (!loc->file || loc->file >= t->nfiles))
        return;
    if (t->marks)
        t->file[loc->file] = 1;
    if (!text_given(t, true, " @")) {
        *loc = (Loc){0};
        return;
    }
    Loc at = t->tok.loc;
    int file = t->out ? t->file[loc->file] : 0, line = (int)loc->line;
    int col = (int)loc->col, len = t->out ? loc->len : 1;
    text_int(t, "", &file);
    text_int(t, ":", &line);
    text_int(t, ":", &col);
    text_field_if(t, len > 1, "+", &len);
    if (t->out)
        return;
    if (file < 1 || file > t->named_source.n || line < 0 || col < 0 ||
        len < 1 || len > UINT16_MAX)
        parse_fail(t, at, "no such location in a source");
    *loc = t->failed ? (Loc){0}
                     : (Loc){t->named_source.at[file - 1], (uint16_t)len,
                             (uint32_t)line, (uint32_t)col};
}

/* ---- types --------------------------------------------------------------- */

DType text_dtype(Text *t, const char *form, DType type)
{
    static const char *const words[] = {"f32", "bf16", "f16",
                                        "i32", "i64",  NULL};
    return (DType)text_choice(t, form, (int)type, words, "an element type");
}

static void place_axis(Text *t, Type *type, AxisPlace place)
{
    Loc loc = t->tok.loc;
    int axis = text_axis(t, "", 0);
    if (type->place.ax[axis].kind != AX_R)
        parse_fail(t, loc, "the type names axis '%s' twice",
                   t->p->mesh.name[axis]);
    if (!t->failed && place.kind == AX_S && mesh_pieces(&t->p->mesh, axis) > 1)
        text_form(t, ":zz");
    if (!t->failed)
        type->place.ax[axis] = place;
}

/* Parses the axes after the '/' of a dim. */
static void parse_split(Text *t, Type *type, int d)
{
    AxisPlace place = {AX_S, (uint8_t)d, 0};
    if (!text_given(t, false, "(")) {
        place_axis(t, type, place);
        return;
    }
    for (;; place.order++) {
        place_axis(t, type, place);
        if (t->tok.kind != TK_DOT)
            break;
        parse_next(t);
    }
    text_form(t, ")");
}

/* A dim's split "/tp", or that of a stack dim, "/pp:2", which ends with "x". */
static void parse_size(Text *t, Type *type, int64_t size)
{
    Loc loc = t->tok.loc;
    Type before = *type;
    bool stack = text_given(t, false, "x");
    if (!stack && text_given(t, false, "/")) {
        parse_split(t, type, type->ndim);
        int cut = 1;
        text_field_if(t, false, ":", &cut);
        stack = type->ndim == 0 && text_given(t, false, "x");
        for (int a = 0; stack && a < t->p->mesh.n; a++)
            if (!axis_place_equal(type->place.ax[a], before.place.ax[a]))
                type->place.ax[a] = (AxisPlace){AX_CUT, (uint8_t)type->nstack,
                                                (uint8_t)cut};
        if (cut < 1 || cut > MAX_CUTS)
            parse_fail(t, loc, "there is no cut %d", cut);
        if (cut > 1 && !stack)
            parse_fail(t, loc, "a cut's number follows a stack dim only");
    }
    if (stack ? type->ndim > 0 || type->nstack == MAX_STACK
              : type->ndim == MAX_DIMS)
        parse_fail(t, loc, stack ? "a stack of more than %d"
                                 : "more than %d dims",
                   stack ? MAX_STACK : MAX_DIMS);
    if (t->failed)
        return;
    if (stack)
        type->stack[type->nstack++] = size;
    else
        type->dim[type->ndim++] = size;
}

/* "[3 x 8/dp, 64]": a comma between dims, none after a stack dim. */
static void parse_dims(Text *t, Type *type)
{
    bool more = false;
    while (!t->failed && (more || !text_given(t, false, "]"))) {
        int64_t size;
        int ndim = type->ndim;
        text_int64(t, "", &size);
        parse_size(t, type, size);
        more = text_given(t, false, ",");
        if (more ? type->ndim == ndim : type->ndim > ndim && !parse_is(t, "]"))
            text_form(t, "]");
    }
}

/* "@pp=3", or "@pp". A location, which may follow a type, has a number. */
static void parse_held(Text *t, Type *type)
{
    int at = 0;
    text_form(t, "@");
    Loc loc = t->tok.loc;
    int axis = text_axis(t, "", 0);
    bool given = text_given(t, false, "=");
    if (given)
        text_field(t, "", &at);
    if (at < 0 || at >= MAX_STAGES)
        parse_fail(t, loc, "coordinate %d is out of range", at);
    if (type->place.ax[axis].kind != AX_R)
        parse_fail(t, loc, "the type places this axis twice");
    if (!t->failed)
        type->place.ax[axis] =
            (AxisPlace){given ? AX_AT : AX_HERE, (uint8_t)at, 0};
}

Type parse_type(Text *t)
{
    static const struct {
        const char *mark;
        AxisKind kind;
    } marks[] = {{"+", AX_P}, {"^", AX_PMAX}, {"~", AX_FLAT}};
    Type type = {.dtype = text_dtype(t, "", DT_F32)};
    text_form(t, "[");
    parse_dims(t, &type);
    for (size_t i = 0; i < sizeof marks / sizeof *marks;)
        if (text_given(t, false, marks[i].mark)) {
            place_axis(t, &type, (AxisPlace){(uint8_t)marks[i].kind, 0, 0});
            i = 0;
        } else if (parse_is(t, "@") && isalpha((unsigned char)*t->at)) {
            parse_held(t, &type);
            i = 0;
        } else {
            i++;
        }
    return type;
}

void text_type(Text *t, const char *form, Type *type)
{
    text_form(t, form);
    if (t->out)
        type_print(t->out, type, &t->p->mesh);
    else
        *type = parse_type(t);
}
