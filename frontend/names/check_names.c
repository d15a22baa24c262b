/* check_names.c: checks blocks `names hf { … }` as far as they need no sizes:
 * settings, layouts and patterns. lower_names.c resolves them.
 */
#include <ctype.h>
#include <string.h>

#include "base/text.h"
#include "frontend/names/names.h"
#include "ir/path.h"

bool names_has_parts(const NameItem *item)
{
    for (int i = 0; i < item->nlayouts; i++)
        if (item->layout[i]->kind == EX_NAME && strcmp(item->layout[i]->name, "each") == 0)
            return true;
    return false;
}

/* The number of elements' numbers that a path of parameters gives, or that a
 * tensor's name uses: one for each '*', range or index. */
static int count_numbers(const char *text, bool is_file)
{
    int n = 0;
    for (int i = 0; i < path_depth(text); i++) {
        size_t size;
        PathIndex x;
        const char *s = path_segment(text, i, &size);
        if (is_file ? path_index(s, size, &x) : path_is_open(s, size))
            n++;
        else
            for (size_t k = 0; k < size; k++)
                n += s[k] == '*';
    }
    return n;
}

/* Names become parts of JSON and of C strings. Letters may be those of UTF-8. */
static bool is_plain(const char *text)
{
    for (const char *c = text; *c; c++)
        if (!isalnum((unsigned char)*c) && !strchr("._-*+", *c) &&
            (unsigned char)*c < 0x80)
            return false;
    return *text != 0;
}

/* Whether a segment of a tensor's name was meant as an index or a range, but is
 * no index: "2*i", "2i+", "0-3". */
static bool is_bad_index(const char *s, size_t size)
{
    PathIndex x;
    size_t digits = strspn(s, "0123456789");
    if (path_index(s, size, &x) || digits >= size)
        return false;
    return memchr(s, '+', size) || (size > 1 && strncmp(s, "i*", 2) == 0) ||
           (digits > 0 && strchr("i*-", s[digits]));
}

/* A segment of a path of parameters is a name, or numbers of elements. */
static bool is_bad_segment(const char *s, size_t size)
{
    PathIndex x;
    return size > 1 && (memchr(s, '*', size) || path_index(s, size, &x));
}

/* Reports a bad segment of a path, with the form of good ones. */
static bool check_segments(Diag *d, const Path *path,
                           bool (*is_bad)(const char *, size_t),
                           const char *what, const char *help)
{
    for (int i = 0; i < path_depth(path->text); i++) {
        size_t size;
        const char *s = path_segment(path->text, i, &size);
        if (!is_bad(s, size))
            continue;
        diag_error(d, path->loc, "'%.*s' is no %s", (int)size, s, what);
        diag_help(d, "%s", help);
        return false;
    }
    return true;
}

static bool is_layout(const Expr *e, const char *name)
{
    return (e->kind == EX_NAME || e->kind == EX_CALL) && strcmp(e->name, name) == 0;
}

static void check_paths(Diag *d, const NameItem *item)
{
    bool each = names_has_parts(item);
    bool named =
        check_segments(d, &item->file, is_bad_index, "index of an element",
                       "write '*' for the element's number i, or an index such "
                       "as 2i, i+1 or 2i+1, with a factor of at most 1000");
    for (int i = 0; i < item->npaths; i++) {
        const Path *path = &item->path[i];
        if (!check_segments(d, path, is_bad_segment, "name or element",
                            "write a name, '*', or elements of an array such "
                            "as 3 or 0-3") ||
            !named || count_numbers(path->text, false) + each ==
                          count_numbers(item->file.text, true))
            continue;
        if (each)
            diag_error(d, path->loc, "with 'each' '%s' needs one '*' more than '%s'",
                       item->file.text, path->text);
        else
            diag_error(d, path->loc, "'%s' and '%s' need the same number of '*'", path->text,
                       item->file.text);
        diag_help(d, "a range such as 0-3 and an index such as 2i count as "
                  "'*', a single number does not");
    }
    if (!is_plain(item->file.text)) {
        diag_error(d, item->file.loc, "'%s' is no name of a tensor",
                   item->file.text);
        diag_help(d, "names consist of letters, digits, '.', '_', '-' and '*'");
    }
}

/* The layouts and their arguments. */
static const struct {
    const char *name, *signature, *example;
} layouts[] = {
    {"each", NULL, "each"},
    {"transpose", NULL, "transpose"},
    {"rotary", "heads", "rotary(n_heads)"},
    {"concat", "dim", "concat(-1)"},
};
enum { LAYOUTS = sizeof layouts / sizeof *layouts };

static void check_layout(Arena *a, Diag *d, const Expr *e)
{
    NameList names = {.arena = a};
    Signature s;
    Bound bound;
    for (int i = 0; i < LAYOUTS; i++) {
        names_add(&names, layouts[i].name, (Loc){0});
        bool same = is_layout(e, layouts[i].name);
        if (same && layouts[i].signature && e->kind == EX_CALL) {
            signature_of_text(a, e->name, layouts[i].signature, &s);
            bind_call(a, d, &s, e, &bound);
            return;
        }
        if (same && !layouts[i].signature == (e->kind == EX_NAME))
            return;
        if (same) {
            diag_error(d, e->range, "write the layout as in %s",
                       layouts[i].example);
            return;
        }
    }
    if (e->kind == EX_NAME || e->kind == EX_CALL) {
        diag_error(d, e->range, "unknown layout '%s'", e->name);
        names_suggest_or_list(d, &names, e->name);
    } else {
        diag_error(d, e->range, "this is no layout");
        diag_help(d, "the layouts are each, transpose, rotary and concat");
    }
}

/* A concatenation ends the layouts of several parameters. */
static void check_item(Arena *a, Diag *d, const NameItem *item)
{
    check_paths(d, item);
    bool joins = false;
    for (int i = 0; i < item->nlayouts; i++) {
        const Expr *e = item->layout[i];
        bool concat = e->kind == EX_CALL && strcmp(e->name, "concat") == 0;
        check_layout(a, d, e);
        if (i > 0 && is_layout(e, "each"))
            diag_error(d, e->range, "'each' must be the first layout");
        if (concat && i < item->nlayouts - 1)
            diag_error(d, e->range, "'concat' must be the last layout");
        if (concat && item->npaths == 1)
            diag_error(d, e->range, "'concat' needs several parameters: "
                       "[a, b] -> file: concat(-1)");
        joins = joins || concat;
    }
    if (item->npaths > 1 && !joins) {
        diag_error(d, item->loc, "several parameters in one tensor need the "
                   "layout 'concat'");
        diag_help(d, "concat(-1) joins them along the last dim");
    }
}

/* Checks the name of an entry of an object, "rope_scaling.factor". driver/options/config_file.c
 * reads the entries of objects rope_… only. */
static void check_object(Diag *d, const Setting *s)
{
    const char *name = s->name.name, *dot = strchr(name, '.');
    if (!dot)
        return;
    if (!starts_with(name, "rope_") || strchr(dot + 1, '.'))
        diag_error(d, s->name.loc, "only objects rope_… have entries: rope_scaling.factor = …");
    else if (s->value->kind == EX_NAME && strcmp(s->value->name, "any") == 0)
        diag_error(d, s->value->range, "an entry of an object cannot be 'any'");
}

static void check_settings(Diag *d, const NamesDecl *n)
{
    for (int i = 0; i < n->setting.n; i++) {
        const Setting *s = &n->setting.at[i];
        if (strcmp(s->name.name, "prefix") != 0)
            diag_error(d, s->name.loc, "unknown setting '%s'; 'prefix' is the "
                       "only one", s->name.name);
        else if (s->value->kind != EX_STRING)
            diag_error(d, s->value->range, "'prefix' must be a string, such "
                       "as \"transformer.\"");
    }
    for (int i = 0; i < n->setting.n; i++)
        names_check_new(d, n->setting.at, i, "set");
    for (int i = 0; i < n->config.n; i++) {
        names_check_new(d, n->config.at, i, "set");
        check_object(d, &n->config.at[i]);
    }
    if (n->config_word.name && strcmp(n->config_word.name, "config") != 0)
        diag_error(d, n->config_word.loc, "expected a line 'path -> name' or "
                   "config { … }, not '%s'", n->config_word.name);
}

void check_names(Arena *a, Diag *d, const File *file)
{
    for (int i = 0; i < file->names.n; i++) {
        const NamesDecl *n = file->names.at[i];
        if (strcmp(n->name.name, "hf") != 0)
            diag_error(d, n->name.loc, "unknown names '%s'; only 'names hf' is "
                       "known", n->name.name);
        if (i > 0)
            diag_twice(d, n->name.loc, file->names.at[0]->name.loc,
                       "a file has one block of names: merge the two");
        check_settings(d, n);
        for (int k = 0; k < n->item.n; k++)
            check_item(a, d, &n->item.at[k]);
    }
}
