/* compare_read.c: reads a plan that parc printed as JSON into a comparison.
 *
 *   "collectives": [{"kind": "all_gather", "axis": "dp", "tensor": "layers.*", …}]
 *
 * becomes the row "all_gather over dp: layers.* (forward)" with the bytes that a rank
 * sends. Keys that the comparison does not use are skipped.
 */
#include "compare/compare.h"

#include <string.h>

#include "runtime/common/json.h"

enum { KEY = 64, TEXT = 512 };

/* The fields of an entry of "collectives", "at_peak", "work" or "time.statements". */
typedef struct Entry {
    char id[TEXT], kind[TEXT], axis[TEXT], tensor[TEXT], phase[TEXT], why[TEXT];
    char source[TEXT], name[TEXT], class[TEXT], path[TEXT];
    double bytes, count, exposed, sent;
} Entry;

typedef struct Statement {
    const char *id, *path;
} Statement;

typedef struct Reader {
    Comparison *c;
    RtJson json;
    int side;
    VEC(Statement) work;
    const char *model, *plan, *mesh;
} Reader;

static void add(Reader *r, SectionKind s, const char *name, double value,
                const char *note)
{
    if (!(value >= 0 && value < 1e30))
        rt_json_fail(&r->json, "a number is not that of a plan");
    CompareRow *row = compare_row(r->c, s, name);
    row->value[r->side] += value;
    row->has[r->side] = true;
    if (note && *note && !row->note[r->side])
        row->note[r->side] = note;
}

static const char *kept(Reader *r, const char *text)
{
    return arena_copy(r->c->arena, text, strlen(text) + 1);
}

/* ---- entries ------------------------------------------------------------- */

static void read_entry(Reader *r, Entry *e)
{
    char key[KEY];
    *e = (Entry){0};
    const struct {
        const char *key;
        char *to;
    } text[] = {{"id", e->id}, {"kind", e->kind}, {"axis", e->axis},
                {"tensor", e->tensor}, {"phase", e->phase}, {"why", e->why},
                {"source", e->source}, {"name", e->name}, {"class", e->class},
                {"path", e->path}};
    const struct {
        const char *key;
        double *to;
    } number[] = {{"bytes", &e->bytes}, {"count", &e->count},
                  {"exposed_seconds", &e->exposed}, {"sent", &e->sent}};
    rt_json_object(&r->json);
    while (rt_json_key(&r->json, key, sizeof key)) {
        bool known = false;
        for (size_t i = 0; i < sizeof text / sizeof *text && !known; i++)
            if ((known = strcmp(key, text[i].key) == 0))
                rt_json_string(&r->json, text[i].to, TEXT);
        for (size_t i = 0; i < sizeof number / sizeof *number && !known; i++)
            if ((known = strcmp(key, number[i].key) == 0))
                *number[i].to = rt_json_number(&r->json);
        if (!known)
            rt_json_skip(&r->json);
    }
}

static void take_collective(Reader *r, const Entry *e)
{
    Arena *a = r->c->arena;
    const char *name = arena_printf(a, "%s over %s: %s (%s)", e->kind, e->axis, e->tensor,
                                    e->phase);
    add(r, SECTION_COLLECTIVES, name, e->sent * e->count, arena_printf(a, "%s  (%s)", e->why, e->source));
    CompareRow *row = compare_row(r->c, SECTION_COLLECTIVES, name);
    row->calls[r->side] += e->count;
    row->each[r->side] = e->bytes;
}

static void take_block(Reader *r, const Entry *e)
{
    add(r, SECTION_NAMES, arena_printf(r->c->arena, "%s (%s)", e->name, e->class), e->bytes,
        kept(r, e->source));
}

static void take_work(Reader *r, const Entry *e)
{
    bool update = strcmp(e->phase, "optimizer") == 0;
    Statement s = {kept(r, e->id), update     ? "optimizer"
                                   : *e->path ? kept(r, e->path)
                                              : "the model"};
    vec_push(r->c->arena, &r->work, s);
}

/* The statements of "time" are those of "work", in the same order. */
static void take_time(Reader *r, const Entry *e, int i)
{
    if (i >= r->work.n || strcmp(r->work.at[i].id, e->id) != 0)
        rt_json_fail(&r->json, "the statements of 'time' are not those of 'work'");
    if (r->json.error || e->exposed <= 0)
        return;
    const char *path = r->work.at[i].path;
    add(r, SECTION_MODULES, path, e->exposed, NULL);
    add(r, SECTION_PARTS, arena_printf(r->c->arena, "%s: %s", path, e->class), e->exposed,
        NULL);
}

typedef enum ListKind {
    LIST_COLLECTIVES,
    LIST_TRAFFIC,
    LIST_BLOCKS,
    LIST_WORK,
    LIST_TIMES
} ListKind;

static void read_list(Reader *r, ListKind kind)
{
    Entry e;
    rt_json_list(&r->json);
    for (int i = 0; rt_json_next(&r->json); i++) {
        read_entry(r, &e);
        if (r->json.error)
            return;
        if (kind == LIST_COLLECTIVES)
            take_collective(r, &e);
        else if (kind == LIST_TRAFFIC)
            add(r, SECTION_TOTALS, arena_printf(r->c->arena, "sent over %s", e.axis), e.sent,
                NULL);
        else if (kind == LIST_BLOCKS)
            take_block(r, &e);
        else if (kind == LIST_WORK)
            take_work(r, &e);
        else
            take_time(r, &e, i);
    }
}

/* ---- objects ------------------------------------------------------------- */

static void read_mesh(Reader *r)
{
    char key[KEY], name[TEXT];
    r->mesh = "";
    rt_json_list(&r->json);
    while (rt_json_next(&r->json)) {
        int64_t size = 0;
        *name = 0;
        rt_json_object(&r->json);
        while (rt_json_key(&r->json, key, sizeof key))
            if (strcmp(key, "name") == 0)
                rt_json_string(&r->json, name, sizeof name);
            else if (strcmp(key, "size") == 0)
                size = rt_json_integer(&r->json);
            else
                rt_json_skip(&r->json);
        r->mesh = arena_printf(r->c->arena, "%s%s%s=%lld", r->mesh,
                               *r->mesh ? " x " : "", name, (long long)size);
    }
}

/* Classes of memory at the peak; the peak itself, and what is not live then. */
static void read_memory(Reader *r)
{
    char key[KEY];
    rt_json_object(&r->json);
    while (rt_json_key(&r->json, key, sizeof key)) {
        double n = rt_json_number(&r->json);
        if (strcmp(key, "peak") == 0)
            add(r, SECTION_TOTALS, "memory of a rank", n, NULL);
        else if (strcmp(key, "host") == 0 && n > 0)
            add(r, SECTION_TOTALS, "host memory of a rank", n, NULL);
        else if (strcmp(key, "lower_bound") != 0 && strcmp(key, "staging") != 0 &&
                 strcmp(key, "host") != 0)
            add(r, SECTION_MEMORY, key, n, NULL);
    }
}

static void read_classes(Reader *r)
{
    char key[KEY];
    rt_json_object(&r->json);
    while (rt_json_key(&r->json, key, sizeof key))
        add(r, SECTION_CLASSES, key, rt_json_number(&r->json), NULL);
}

static void read_time(Reader *r)
{
    static const struct {
        const char *key, *name;
    } total[] = {{"step_seconds", "step"},
                 {"mfu", "MFU"},
                 {"exposed_seconds", "waits for collectives"},
                 {"bubble_seconds", "waits for stages"}};
    char key[KEY];
    rt_json_object(&r->json);
    r->c->timed[r->side] = true;
    while (rt_json_key(&r->json, key, sizeof key)) {
        size_t i = 0;
        while (i < sizeof total / sizeof *total && strcmp(total[i].key, key) != 0)
            i++;
        if (i < sizeof total / sizeof *total)
            add(r, SECTION_TOTALS, total[i].name, rt_json_number(&r->json), NULL);
        else if (strcmp(key, "by_class") == 0)
            read_classes(r);
        else if (strcmp(key, "statements") == 0)
            read_list(r, LIST_TIMES);
        else
            rt_json_skip(&r->json);
    }
}

static const char *read_name(Reader *r)
{
    char text[TEXT];
    rt_json_string(&r->json, text, sizeof text);
    return r->json.error ? "" : kept(r, text);
}

static void read_plan(Reader *r)
{
    char key[KEY];
    rt_json_object(&r->json);
    while (rt_json_key(&r->json, key, sizeof key))
        if (strcmp(key, "model") == 0)
            r->model = read_name(r);
        else if (strcmp(key, "plan") == 0)
            r->plan = read_name(r);
        else if (strcmp(key, "mesh") == 0)
            read_mesh(r);
        else if (strcmp(key, "collectives") == 0)
            read_list(r, LIST_COLLECTIVES);
        else if (strcmp(key, "traffic") == 0)
            read_list(r, LIST_TRAFFIC);
        else if (strcmp(key, "work") == 0)
            read_list(r, LIST_WORK);
        else if (strcmp(key, "memory") == 0)
            read_memory(r);
        else if (strcmp(key, "at_peak") == 0)
            read_list(r, LIST_BLOCKS);
        else if (strcmp(key, "time") == 0)
            read_time(r);
        else if (strcmp(key, "model_flops") == 0)
            add(r, SECTION_TOTALS, "flops of the model", rt_json_number(&r->json), NULL);
        else if (strcmp(key, "recomputed_flops") == 0)
            add(r, SECTION_TOTALS, "recomputed flops", rt_json_number(&r->json), NULL);
        else
            rt_json_skip(&r->json);
    if (!r->json.error && (!r->model || !r->mesh))
        rt_json_fail(&r->json, "it is no plan: it has no 'model' and 'mesh'");
    if (rt_json_peek(&r->json) >= 0)
        rt_json_fail(&r->json, "text follows the plan");
}

const char *compare_read(Comparison *c, int side, const char *text, size_t size)
{
    Reader r = {.c = c, .side = side};
    r.json = (RtJson){.text = (const unsigned char *)text, .end = (int64_t)size};
    read_plan(&r);
    if (r.json.error) {
        int line = 1;
        for (int64_t i = 0; i < r.json.at && i < r.json.end; i++)
            line += text[i] == '\n';
        return arena_printf(c->arena, "line %d: %s", line, r.json.error);
    }
    bool named = r.plan && *r.plan;
    c->title[side] = arena_printf(c->arena, "%s%s%s on %s", r.model,
                                  named ? " under plan " : "", named ? r.plan : "",
                                  *r.mesh ? r.mesh : "one rank");
    return NULL;
}
