/* config.c: compares a model with the config.json next to its weights.
 *
 * Weights of another shape are refused. Other settings, such as rope_theta or
 * the eps of a norm, change no shape: the model would silently compute
 * something else. Each entry of the model's own config.json (`names hf { config
 * { … } }`) is therefore compared with the entry of the same name.
 *
 *   {"rope_theta": 10000.0, "rope_scaling": {"type": "linear", …}}
 *   config.json: note: rope_theta is 10000; the program has 500000
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "checkpoint/weights.h"
#include "common/files.h"
#include "common/json.h"
#include "common/message.h"

enum { MOST_ENTRIES = 256, MOST_NOTES = 8 };

/* A number, a string, true, false or null; lists are not compared. */
typedef struct Entry {
    char key[64], text[128]; /* text: the value as JSON writes it */
    bool is_number;
    double number;
} Entry;

typedef struct Config {
    Entry entry[MOST_ENTRIES];
    int n;
} Config;

/* Whether entries with these keys may differ: they do not change what the model
 * computes in training for a given loss. */
static bool is_ignored(const char *key)
{
    static const char *const keys[] = {
        "bos_token_id", "eos_token_id", "max_position_embeddings",
        "resid_pdrop",  "embd_pdrop",   "attn_pdrop"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (strcmp(key, keys[i]) == 0)
            return true;
    return false;
}

static void read_value(RtJson *j, Entry *e)
{
    static const char *const words[] = {"true", "false", "null"};
    int c = rt_json_peek(j);
    if (c == '"') {
        rt_json_string(j, e->text, sizeof e->text);
        return;
    }
    for (int i = 0; i < 3; i++)
        if (rt_json_word(j, words[i])) {
            snprintf(e->text, sizeof e->text, "%s", words[i]);
            return;
        }
    e->is_number = true;
    e->number = rt_json_number(j);
    snprintf(e->text, sizeof e->text, "%.9g", e->number);
}

/* Reads an object. The entries of the objects rope_parameters and rope_scaling
 * count as its own: versions of transformers differ in this. */
static void read_entries(RtJson *j, Config *c, bool outer)
{
    Entry e = {0};
    rt_json_object(j);
    while (rt_json_key(j, e.key, sizeof e.key)) {
        int next = rt_json_peek(j);
        bool rope = outer && next == '{' && strncmp(e.key, "rope_", 5) == 0;
        if (rope) {
            read_entries(j, c, false);
        } else if (next == '{' || next == '[') {
            rt_json_skip(j);
        } else {
            read_value(j, &e);
            if (c->n < MOST_ENTRIES)
                c->entry[c->n++] = e;
        }
        e = (Entry){0};
    }
}

static const Entry *config_entry(const Config *c, const char *key)
{
    for (int i = 0; i < c->n; i++)
        if (strcmp(c->entry[i].key, key) == 0)
            return &c->entry[i];
    return NULL;
}

static bool same_entry(const Entry *a, const Entry *b)
{
    return a->is_number == b->is_number &&
           (a->is_number ? a->number == b->number
                         : strcmp(a->text, b->text) == 0);
}

/* Whether a file is that of a model of this type, if types are known. */
static bool is_of_type(const Config *c, const Entry *type)
{
    const Entry *own = config_entry(c, "model_type");
    return !type || !own || same_entry(own, type);
}

/* Reads a file, or the object in it that has this model_type, such as text_config. */
static void read_config(RtJson *j, Config *c, const Entry *type)
{
    RtJson start = *j, inner = *j;
    char key[64];
    read_entries(j, c, true);
    if (j->error || is_of_type(c, type))
        return;
    rt_json_object(&inner);
    while (rt_json_key(&inner, key, sizeof key)) {
        c->n = 0;
        if (rt_json_peek(&inner) == '{')
            read_entries(&inner, c, true);
        else
            rt_json_skip(&inner);
        if (config_entry(c, "model_type") && is_of_type(c, type))
            return;
    }
    c->n = 0;
    read_entries(&start, c, true);
}

/* A model with scaled rotary embeddings computes something else. The block
 * `names hf` of a program that scales them has the entry rope_type. */
static void note_scaling(const char *path, const Config *own,
                         const Config *other)
{
    const Entry *e = config_entry(other, "rope_type");
    e = e ? e : config_entry(other, "type");
    if (e && strcmp(e->text, "default") != 0 &&
        config_entry(own, "rope_theta") && !config_entry(own, "rope_type"))
        rt_say("%s: note: rotary embeddings are scaled ('%s'); the program "
               "does not scale them", path, e->text);
}

static void note_differences(const char *path, const Config *own,
                             const Config *other)
{
    int notes = 0;
    for (int i = 0; i < own->n && notes < MOST_NOTES; i++) {
        const Entry *expected = &own->entry[i];
        const Entry *e = config_entry(other, expected->key);
        if (e && !is_ignored(e->key) && !same_entry(expected, e)) {
            rt_say("%s: note: %s is %s; the program has %s", path, e->key,
                   e->text, expected->text);
            notes++;
        }
    }
    note_scaling(path, own, other);
}

void rt_config_compare(const char *path, const ParcModel *model)
{
    int64_t size;
    if (!model->file_config || access(path, R_OK) != 0)
        return;
    const unsigned char *map = rt_input_map(path, &size);
    if (!map)
        return;
    RT_OWNED Config *config = rt_allocate(2 * sizeof *config);
    RtJson own = {.text = (const unsigned char *)model->file_config,
                  .end = (int64_t)strlen(model->file_config)};
    RtJson other = {.text = map, .end = size};
    read_config(&own, &config[0], NULL);
    read_config(&other, &config[1], config_entry(&config[0], "model_type"));
    if (other.error)
        rt_say("%s: byte %lld: note: %s", path, (long long)other.at,
               other.error);
    else
        note_differences(path, &config[0], &config[1]);
    rt_input_unmap(map, size);
}
