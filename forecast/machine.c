/* machine.c: reads machine files; see machine.h. */
#include "forecast/machine.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/embedded.h"
#include "base/file.h"
#include "base/text.h"
#include "runtime/common/json.h"

enum { KEY = 32, TEXT = 1024 };

/* The targets whose machines need a constant. */
enum { GPU = 1, CPU = 2, ALL = GPU | CPU };

static const struct ConstantRow {
    const char *object, *name, *unit, *meaning;
    unsigned targets;
} constant_row[] = {
#define MACHINE_CONSTANT(object, name, targets, unit, meaning) \
    {#object, #name, unit, meaning, targets},
#include "forecast/machine.def"
#undef MACHINE_CONSTANT
};

/* ---- lists --------------------------------------------------------------- */

/* A field of a row of a list. */
typedef enum FieldKind {
    FIELD_TEXT,
    FIELD_OPTION, /* a text that may be absent */
    FIELD_SIZE,
    FIELD_OPTIONAL_SIZE,
    FIELD_CONSTANT
} FieldKind;
typedef struct Field {
    const char *name;
    FieldKind kind;
    size_t at; /* in the row */
    const char *const *words; /* that a text can be; NULL: anything */
} Field;
#define FIELD(row, name, kind, words) {#name, FIELD_##kind, offsetof(row, name), words}

static const char *const passes[] = {"forward", "backward", NULL};
static const char *const yes[] = {"yes", NULL};
static const char *const forms[] = {"streaming", "row", "column", NULL};
static const char *const kinds[] = {"all_gather", "reduce_scatter", "all_reduce",
                                    "all_to_all", NULL};

static const Field tile_field[] = {
    FIELD(MachineTile, m, SIZE, NULL),
    FIELD(MachineTile, n, SIZE, NULL),
    FIELD(MachineTile, rate, CONSTANT, NULL),
    {0},
};
static const Field attention_field[] = {
    FIELD(MachineAttention, head, SIZE, NULL),
    FIELD(MachineAttention, keys, OPTIONAL_SIZE, NULL),
    FIELD(MachineAttention, type, OPTION, NULL),
    FIELD(MachineAttention, dropout, OPTION, yes),
    FIELD(MachineAttention, pass, TEXT, passes),
    FIELD(MachineAttention, rate, CONSTANT, NULL),
    FIELD(MachineAttention, per_tile, CONSTANT, NULL),
    {0},
};
static const Field collective_field[] = {
    FIELD(MachineCollective, kind, TEXT, kinds),
    FIELD(MachineCollective, nodes, SIZE, NULL),
    FIELD(MachineCollective, ranks, SIZE, NULL),
    FIELD(MachineCollective, start, CONSTANT, NULL),
    FIELD(MachineCollective, fill, CONSTANT, NULL),
    FIELD(MachineCollective, rate, CONSTANT, NULL),
    FIELD(MachineCollective, blocks, CONSTANT, NULL),
    {0},
};
static const Field product_field[] = {
    FIELD(MachineProduct, type, TEXT, NULL),
    FIELD(MachineProduct, batch, SIZE, NULL),
    FIELD(MachineProduct, m, SIZE, NULL),
    FIELD(MachineProduct, n, SIZE, NULL),
    FIELD(MachineProduct, k, SIZE, NULL),
    FIELD(MachineProduct, rate, CONSTANT, NULL),
    {0},
};
static const Field kernel_field[] = {
    FIELD(MachineKernel, form, TEXT, forms),
    FIELD(MachineKernel, bytes, SIZE, NULL),
    FIELD(MachineKernel, rate, CONSTANT, NULL),
    {0},
};

typedef struct Reader {
    Arena *arena;
    RtJson json;
    Machine *machine;
    const char *where; /* "hbm.rate" */
} Reader;

static void fail(Reader *r, const char *what)
{
    const char *text = *r->where ? arena_printf(r->arena, "%s: %s", r->where, what) : what;
    rt_json_fail(&r->json, text);
}

/* ---- values -------------------------------------------------------------- */

static const char *read_text(Reader *r)
{
    char text[TEXT];
    rt_json_string(&r->json, text, sizeof text);
    return r->json.error ? "" : arena_copy(r->arena, text, strlen(text) + 1);
}

/* The smallest and the largest value of a constant of this unit. */
typedef struct Limits {
    const char *unit;
    double least, most;
} Limits;
static const Limits limits[] = {
    {"number", 1, 1e6}, {"part", 1e-6, 10},    {"bytes/s", 1, 1e18},
    {"flop/s", 1, 1e21}, {"bytes", 0, 1e18},   {"s", 0, 1e3},
    {"", 0, 1e6},       {"rate", 1e-6, 1e21},
};

static void check_limits(Reader *r, const Constant *c, const char *unit)
{
    const Limits *l = table_find(limits, unit);
    if (!(c->value >= l->least && c->value <= l->most))
        fail(r, arena_printf(r->arena, "its 'value' has to be from %g to %g", l->least,
                             l->most));
    if (strcmp(unit, "number") == 0 && c->value != floor(c->value))
        fail(r, "its 'value' has to be a whole number");
    if (!(c->spread >= 0 && c->spread <= 10))
        fail(r, "its 'spread' has to be from 0 to 10");
}

static void read_constant(Reader *r, Constant *c, const char *unit)
{
    char key[KEY];
    bool valued = false;
    if (c->from)
        fail(r, "is given twice");
    rt_json_object(&r->json);
    while (rt_json_key(&r->json, key, sizeof key)) {
        valued |= strcmp(key, "value") == 0;
        if (strcmp(key, "value") == 0)
            c->value = rt_json_number(&r->json);
        else if (strcmp(key, "spread") == 0)
            c->spread = rt_json_number(&r->json);
        else if (strcmp(key, "from") == 0)
            c->from = read_text(r);
        else if (strcmp(key, "date") == 0)
            c->date = read_text(r);
        else
            fail(r, "a constant has 'value', 'from', 'spread' and 'date' only");
    }
    if (!valued)
        fail(r, "a constant needs its 'value'");
    if (!c->from || !*c->from || !c->date || !*c->date)
        fail(r, "a constant needs its source ('from') and the source's 'date'");
    check_limits(r, c, unit);
}

/* Reads a text that has to be one of these words; NULL: any text. */
static const char *read_word(Reader *r, const char *const *words)
{
    const char *text = read_text(r), *all = "";
    for (int i = 0; words && words[i]; i++) {
        if (strcmp(words[i], text) == 0)
            return text;
        all = arena_printf(r->arena, "%s%s%s", all, i ? ", " : "", words[i]);
    }
    if (words)
        fail(r, arena_printf(r->arena, "'%s' is none of: %s", text, all));
    return text;
}

static void read_size(Reader *r, int64_t *size)
{
    *size = rt_json_integer(&r->json);
    if (*size < 1)
        fail(r, "it has to be a whole number from 1");
}

static void read_row(Reader *r, const char *list, const Field *field, char *row)
{
    char key[KEY];
    uint32_t seen = 0, all = 0;
    rt_json_object(&r->json);
    while (rt_json_key(&r->json, key, sizeof key)) {
        r->where = arena_printf(r->arena, "%s.%s", list, key);
        const Field *f = field;
        while (f->name && strcmp(f->name, key) != 0)
            f++;
        if (!f->name)
            fail(r, "there is no such field");
        else if (f->kind == FIELD_TEXT || f->kind == FIELD_OPTION)
            *(const char **)(void *)(row + f->at) = read_word(r, f->words);
        else if (f->kind == FIELD_SIZE || f->kind == FIELD_OPTIONAL_SIZE)
            read_size(r, (int64_t *)(void *)(row + f->at));
        else
            read_constant(r, (Constant *)(void *)(row + f->at),
                          strcmp(f->name, "rate") == 0 ? "rate" : "");
        seen |= 1u << (f - field);
    }
    r->where = list;
    for (const Field *f = field; f->name; f++)
        all |= f->kind == FIELD_OPTION || f->kind == FIELD_OPTIONAL_SIZE
                   ? 0
                   : 1u << (f - field);
    if ((seen & all) != all)
        fail(r, "an entry lacks a field");
}

/* Reads a list of rows of type `Row` into a VEC. */
#define read_rows(r, list, Row, field)                                   \
    do {                                                                 \
        rt_json_list(&(r)->json);                                        \
        while (rt_json_next(&(r)->json)) {                               \
            vec_push((r)->arena, list, (Row){0});                        \
            read_row(r, key, field, (char *)&(list)->at[(list)->n - 1]); \
        }                                                                \
    } while (0)

/* ---- the file ------------------------------------------------------------ */

static void read_object(Reader *r, const char *object)
{
    char key[KEY];
    rt_json_object(&r->json);
    while (rt_json_key(&r->json, key, sizeof key)) {
        r->where = arena_printf(r->arena, "%s.%s", object, key);
        int i = 0;
        while (i < MACHINE_CONSTANTS && (strcmp(constant_row[i].object, object) != 0 ||
                                         strcmp(constant_row[i].name, key) != 0))
            i++;
        if (i == MACHINE_CONSTANTS)
            fail(r, "there is no such constant");
        else
            read_constant(r, &r->machine->constant[i], constant_row[i].unit);
    }
    r->where = "";
}

static void read_machine(Reader *r)
{
    char key[KEY];
    Machine *m = r->machine;
    rt_json_object(&r->json);
    while (rt_json_key(&r->json, key, sizeof key)) {
        if (strcmp(key, "name") == 0)
            m->name = read_text(r);
        else if (strcmp(key, "target") == 0)
            m->target = read_text(r);
        else if (strcmp(key, "description") == 0)
            m->description = read_text(r);
        else if (strcmp(key, "tile") == 0)
            read_rows(r, &m->tile, MachineTile, tile_field);
        else if (strcmp(key, "attention") == 0)
            read_rows(r, &m->attention, MachineAttention, attention_field);
        else if (strcmp(key, "collective") == 0)
            read_rows(r, &m->collective, MachineCollective, collective_field);
        else if (strcmp(key, "product") == 0)
            read_rows(r, &m->product, MachineProduct, product_field);
        else if (strcmp(key, "kernel") == 0)
            read_rows(r, &m->kernel, MachineKernel, kernel_field);
        else
            read_object(r, arena_copy(r->arena, key, strlen(key) + 1));
        r->where = "";
    }
    if (rt_json_peek(&r->json) >= 0)
        fail(r, "text follows the machine");
}

static void check_complete(Reader *r)
{
    const Machine *m = r->machine;
    bool cpu = m->target && strcmp(m->target, "cpu") == 0;
    if (!cpu && (!m->target || strcmp(m->target, "cuda") != 0))
        fail(r, "the machine's 'target' has to be \"cuda\" or \"cpu\"");
    for (int i = 0; i < MACHINE_CONSTANTS; i++)
        if (!m->constant[i].from && (constant_row[i].targets & (cpu ? CPU : GPU)))
            fail(r, arena_printf(r->arena, "the constant %s.%s is missing (%s)",
                                 constant_row[i].object, constant_row[i].name,
                                 constant_row[i].meaning));
    if (!m->name || !*m->name)
        fail(r, "the machine has no 'name'");
    if (!m->attention.n || (!cpu && (!m->tile.n || !m->collective.n)))
        fail(r, "the lists 'tile', 'attention' and 'collective' need an entry each");
}

/* A CPU's matmuls have the time of their flops: tiles of one element on one processor. */
static void add_defaults(Reader *r)
{
    Machine *m = r->machine;
    if (strcmp(m->target, "cpu") != 0)
        return;
    m->constant[MACHINE_device_sms].value = 1;
    if (!m->tile.n)
        vec_push(r->arena, &m->tile, ((MachineTile){1, 1, {.value = 1}}));
}

static int line_of(const RtJson *j)
{
    int line = 1;
    for (int64_t i = 0; i < j->at && i < j->end; i++)
        line += j->text[i] == '\n';
    return line;
}

static const Machine *with_links(Machine *m)
{
    m->link[0] = (Link){machine_value(m, node_hop), machine_value(m, node_link)};
    m->link[1] = (Link){machine_value(m, node_nic_hop), machine_value(m, node_nic)};
    return m;
}

static const Machine *parse(Arena *a, const char *file, const char *text, size_t size,
                            const char **error)
{
    Reader r = {.arena = a, .machine = NEW(a, Machine), .where = ""};
    r.json = (RtJson){.text = (const unsigned char *)text, .end = (int64_t)size};
    read_machine(&r);
    if (!r.json.error)
        check_complete(&r);
    if (!r.json.error) {
        add_defaults(&r);
        return with_links(r.machine);
    }
    *error = arena_printf(a, "%s:%d: %s", file, line_of(&r.json), r.json.error);
    return NULL;
}

/* ---- all constants -------------------------------------------------------- */

/* The texts and sizes of a row of a list: "collective all_gather, nodes 1, ranks 8". */
static const char *row_name(Arena *a, const char *list, const Field *field, const char *row)
{
    const char *name = list, *by = " ";
    for (const Field *f = field; f->name; f++) {
        const void *at = row + f->at;
        if (f->kind == FIELD_TEXT || f->kind == FIELD_OPTION) {
            const char *text = *(const char *const *)at;
            if (!text)
                continue;
            name = arena_printf(a, "%s%s%s", name, by, text);
        } else if (f->kind != FIELD_CONSTANT) {
            int64_t size = *(const int64_t *)at;
            if (!size)
                continue;
            name = arena_printf(a, "%s%s%s %lld", name, by, f->name, (long long)size);
        }
        by = ", ";
    }
    return name;
}

static void each_of_row(Arena *a, const char *list, const Field *field, const char *row,
                        ConstantVisit *visit, void *context)
{
    const char *name = row_name(a, list, field, row);
    for (const Field *f = field; f->name; f++)
        if (f->kind == FIELD_CONSTANT)
            visit(context, arena_printf(a, "%s: %s", name, f->name), "", "",
                  (const Constant *)(const void *)(row + f->at));
}

/* The constants of all rows of a list. */
#define each_of_list(m, list, field)                                              \
    for (int i = 0; i < (m)->list.n; i++)                                         \
        each_of_row(a, #list, field, (const char *)&(m)->list.at[i], visit, context)

void machine_each_constant(const Machine *m, Arena *a, ConstantVisit *visit, void *context)
{
    for (int i = 0; i < MACHINE_CONSTANTS; i++)
        if (m->constant[i].from)
            visit(context, arena_printf(a, "%s.%s", constant_row[i].object,
                                        constant_row[i].name),
                  constant_row[i].unit, constant_row[i].meaning, &m->constant[i]);
    each_of_list(m, tile, tile_field);
    each_of_list(m, attention, attention_field);
    each_of_list(m, collective, collective_field);
    each_of_list(m, product, product_field);
    each_of_list(m, kernel, kernel_field);
}

/* ---- the machines that parc contains -------------------------------------- */

static const char *name_of(Arena *a, const EmbeddedFile *f)
{
    return arena_printf(a, "%.*s", (int)(strlen(f->name) - strlen(".json")), f->name);
}

const char *machine_names(Arena *a)
{
    const char *names = "";
    for (const EmbeddedFile *f = machines_files; f->name; f++)
        names = arena_printf(a, "%s%s%s", names, *names ? ", " : "", name_of(a, f));
    return names;
}

const Machine *machine_load(Arena *a, const char *name, const char **error)
{
    for (const EmbeddedFile *f = machines_files; f->name; f++)
        if (strcmp(name_of(a, f), name) == 0)
            return parse(a, arena_printf(a, "machines/%s", f->name), f->text, f->size,
                         error);
    size_t size;
    const char *text = file_read(a, name, &size);
    if (text)
        return parse(a, name, text, size, error);
    *error = arena_printf(a, "no machine is called '%s', and no file can be read there (%s); parc knows %s",
                          name, strerror(errno), machine_names(a));
    return NULL;
}
