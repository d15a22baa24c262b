/* config_file.c: reads a config.json into settings with locations.
 *
 *   {"hidden_size": 2048,                  hidden_size = 2048
 *    "rope_parameters": {                  rope_theta = 10000.0
 *      "rope_theta": 10000.0},
 *    "id2label": {"0": "cat"},             id2label = an object, num_labels = 1
 *    "text_config": {"model_type": "x"}}   text_config = an object, and a part with the
 *                                          entries of the object
 */
#include "driver/options/config_file.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/text.h"
#include "runtime/common/json.h"

enum { KEY = 256, TEXT = 1024, MAX_CONFIG = 16 << 20, MAX_LIST_DEPTH = 8 };

/* The depths of parts: thinker_config.text_config has depth 2. */
enum { MAX_PARTS = 2, ROPE };

typedef struct Reader {
    Arena *arena;
    uint16_t source;
    RtJson json;
    Loc loc;            /* the location of text[loc_at] */
    int64_t loc_at;
    ConfigFile *config;
} Reader;

/* The length of text[from … to), cut at its first line. */
static uint16_t length_of(const Reader *r, int64_t from, int64_t to)
{
    const unsigned char *line = r->json.text + from;
    const unsigned char *end = memchr(line, '\n', (size_t)(to - from));
    int64_t size = end ? end - line : to - from;
    return size < 1 ? 1 : size > UINT16_MAX ? UINT16_MAX : (uint16_t)size;
}

/* The location of text[from … to). Calls come in the order of the text. */
static Loc range_of(Reader *r, int64_t from, int64_t to)
{
    for (; r->loc_at < from; r->loc_at++) {
        bool ends = r->json.text[r->loc_at] == '\n';
        r->loc.line += ends;
        r->loc.col = ends ? 1 : r->loc.col + 1;
    }
    Loc loc = r->loc;
    loc.len = length_of(r, from, to);
    return loc;
}

/* ---- values -------------------------------------------------------------- */

static void read_number(Reader *r, Expr *e)
{
    RtJson *j = &r->json, start = *j;
    bool whole = true;
    e->number = rt_json_number(j);
    e->kind = EX_FLOAT;
    for (int64_t i = start.at; i < j->at; i++)
        whole = whole && !strchr(".eE", j->text[i]);
    if (isinf(e->number))
        rt_json_fail(j, "a number that is too large");
    if (j->error || !whole)
        return;
    e->integer = rt_json_signed(&start);
    if (!start.error)
        e->kind = EX_INT;
}

static void read_word(RtJson *j, Expr *e)
{
    e->kind = EX_BOOL;
    if (rt_json_word(j, "true"))
        e->integer = 1;
    else if (!rt_json_word(j, "false"))
        e->kind = rt_json_word(j, "null") ? EX_NONE : EX_FLOAT;
}

static Expr *read_value(Reader *r, int depth);

/* Returns whether no item is an object. */
static bool read_list(Reader *r, Expr *e, int depth)
{
    VEC(Arg) item = {0};
    bool plain = true;
    if (depth == MAX_LIST_DEPTH)
        rt_json_fail(&r->json, "lists are nested too deeply");
    e->kind = EX_TUPLE;
    rt_json_list(&r->json);
    while (rt_json_next(&r->json)) {
        Expr *value = read_value(r, depth + 1);
        plain = plain && value;
        vec_push(r->arena, &item, ((Arg){.value = value}));
    }
    e->arg = item.at;
    e->nargs = item.n;
    return plain;
}

/* The value; NULL for an object and for a list with objects. */
static Expr *read_value(Reader *r, int depth)
{
    RtJson *j = &r->json;
    Expr *e = NEW(r->arena, Expr);
    int c = rt_json_peek(j);
    int64_t from = j->at;
    e->loc = range_of(r, from, from);
    bool plain = c != '{';
    if (c == '{') {
        rt_json_skip(j);
    } else if (c == '[') {
        plain = read_list(r, e, depth);
    } else if (c == '"') {
        char text[TEXT];
        e->kind = EX_STRING;
        rt_json_string(j, text, sizeof text);
        e->name = arena_strndup(r->arena, text, strlen(text));
    } else {
        read_word(j, e);
        if (e->kind == EX_FLOAT)
            read_number(r, e);
    }
    e->loc.len = length_of(r, from, j->at);
    e->range = e->loc;
    return plain ? e : NULL;
}

/* ---- entries ------------------------------------------------------------- */

static void add_entry(Reader *r, const char *key, Loc loc, Expr *value)
{
    const char *name = arena_strndup(r->arena, key, strlen(key));
    vec_push(r->arena, &r->config->entry, ((Setting){.name = {name, loc}, .value = value}));
}

/* transformers derives the number of labels from their names. */
static void add_labels(Reader *r, Loc loc)
{
    RtJson names = r->json;
    Expr *count = NEW(r->arena, Expr);
    char key[KEY];
    *count = (Expr){.kind = EX_INT, .loc = loc, .range = loc};
    rt_json_object(&names);
    while (rt_json_key(&names, key, sizeof key)) {
        rt_json_skip(&names);
        count->integer++;
    }
    add_entry(r, "num_labels", loc, count);
}

/* The value of an entry; the default of rotary embeddings is none. */
static Expr *read_member(Reader *r, int depth)
{
    Expr *e = read_value(r, 0);
    if (depth == ROPE && e && e->kind == EX_STRING && strcmp(e->name, "default") == 0)
        e->kind = EX_NONE;
    return e;
}

static void read_entries(Reader *r, int depth);

/* Reads the next value, an object, as a part of the file. The reader is a copy. */
static void read_part(Reader r, int depth)
{
    ConfigFile *outer = r.config;
    r.config = NEW(r.arena, ConfigFile);
    r.config->loc = range_of(&r, r.json.at, r.json.at + 1);
    read_entries(&r, depth + 1);
    if (!r.json.error)
        vec_push(r.arena, &outer->part, r.config);
}

/* The entries of the objects rope_parameters and rope_scaling count as those of the object
 * around them: versions of transformers differ in this. Older ones have `type` for rope_type.
 * Other objects are parts, down to MAX_PARTS levels. */
static void read_entries(Reader *r, int depth)
{
    char key[KEY];
    rt_json_object(&r->json);
    while (rt_json_key(&r->json, key, sizeof key)) {
        Loc loc = range_of(r, r->json.key_at, r->json.key_at + (int64_t)strlen(key) + 2);
        bool object = rt_json_peek(&r->json) == '{';
        if (object && strcmp(key, "id2label") == 0)
            add_labels(r, loc);
        bool rope = object && depth != ROPE && starts_with(key, "rope_");
        if (object && !rope && depth < MAX_PARTS)
            read_part(*r, depth);
        if (rope)
            read_entries(r, ROPE);
        else
            add_entry(r, depth == ROPE && strcmp(key, "type") == 0 ? "rope_type" : key, loc,
                      read_member(r, depth));
    }
}

/* ---- the file ------------------------------------------------------------ */

static char *read_text(Arena *a, Diag *d, const Argument *path, const char **name, size_t *size)
{
    struct stat info;
    bool directory = stat(path->text, &info) == 0 && S_ISDIR(info.st_mode);
    *name = directory ? arena_printf(a, "%s/config.json", path->text) : path->text;
    char *text = file_read(a, *name, size);
    if (!text)
        diag_error(d, path->loc, "cannot read '%s': %s", *name, strerror(errno));
    else if (*size > MAX_CONFIG)
        diag_error(d, path->loc, "'%s' is larger than 16 MiB", *name);
    return text && *size <= MAX_CONFIG ? text : NULL;
}

const ConfigFile *config_file_read(Arena *a, Diag *d, const Argument *path)
{
    const char *name;
    size_t size;
    const char *text = read_text(a, d, path, &name, &size);
    if (!text)
        return NULL;
    Reader r = {.arena = a, .config = NEW(a, ConfigFile)};
    r.source = diag_source(d, name, text, size);
    r.json = (RtJson){.text = (const unsigned char *)text, .end = (int64_t)size};
    r.loc = r.config->loc = (Loc){r.source, 1, 1, 1};
    read_entries(&r, 0);
    if (!r.json.error && rt_json_peek(&r.json) >= 0)
        rt_json_fail(&r.json, "the file goes on after its object");
    if (!r.json.error)
        return r.config;
    diag_error(d, range_of(&r, r.json.at, r.json.at + 1), "%s", r.json.error);
    return NULL;
}
