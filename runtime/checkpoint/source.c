/* source.c: opens the files of one argument of --init.
 *
 * A sharded model of Hugging Face is several safetensors files and an index,
 * which names the file of each tensor:
 *
 *   {"metadata": {"total_size": 96},
 *    "weight_map": {"a.weight": "model-00001-of-00002.safetensors", …}}
 *
 * The index may be damaged or malicious: the names of files in it must not
 * leave its directory.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "checkpoint/safetensors.h"
#include "common/files.h"
#include "common/json.h"
#include "common/message.h"
#include "params/params.h"

enum { MOST_FILES = 10000, FILE_NAME = 256 };

bool rt_is_index(const char *path)
{
    static const char suffix[] = ".index.json";
    size_t n = strlen(path), k = sizeof suffix - 1;
    return n >= k && strcmp(path + n - k, suffix) == 0;
}

bool rt_is_file_name(const char *name)
{
    return *name && !strchr(name, '/') && strcmp(name, ".") != 0 &&
           strcmp(name, "..") != 0;
}

/* ---- the index of a sharded model ---------------------------------------- */

typedef struct Index {
    RtJson j;
    RtEntry *entry;
    int n;
    int64_t capacity;
    char **file;
    int nfiles;
} Index;

/* The number of a file in the index; -1 after an error. */
static int file_number(Index *x, const char *name, int64_t at)
{
    for (int i = x->nfiles - 1; i >= 0; i--)
        if (strcmp(x->file[i], name) == 0)
            return i;
    if (!rt_is_file_name(name) || x->nfiles == MOST_FILES) {
        x->j.at = at;
        rt_json_fail(&x->j, x->nfiles == MOST_FILES
                                ? "the index names too many files"
                                : "this is not the name of a file in the "
                                  "directory of the index");
        return -1;
    }
    x->file[x->nfiles] = rt_format("%s", name);
    return x->nfiles++;
}

static void add_entry(Index *x, const char *name, int file)
{
    x->entry = rt_grow(x->entry, x->n, &x->capacity, sizeof *x->entry);
    x->entry[x->n++] = (RtEntry){
        .name = rt_format("%s", name), .at = x->j.key_at, .file = file};
}

static void read_map(Index *x)
{
    char name[RT_NAME], file[FILE_NAME];
    rt_json_object(&x->j);
    while (rt_json_key(&x->j, name, sizeof name)) {
        rt_json_peek(&x->j);
        int64_t at = x->j.at;
        rt_json_string(&x->j, file, sizeof file);
        int number = x->j.error ? -1 : file_number(x, file, at);
        if (number >= 0)
            add_entry(x, name, number);
    }
}

static void read_weight_index(Index *x)
{
    char key[RT_JSON_KEY];
    bool found = false;
    rt_json_object(&x->j);
    while (rt_json_key(&x->j, key, sizeof key))
        if (strcmp(key, "weight_map") == 0 && !found) {
            read_map(x);
            found = true;
        } else {
            rt_json_skip(&x->j);
        }
    if (!x->j.error && rt_json_peek(&x->j) >= 0)
        rt_json_fail(&x->j, "something follows the last '}'");
    if (!found || x->n == 0)
        rt_json_fail(&x->j, "the index has no \"weight_map\" with tensors");
    rt_json_sort(&x->j, x->entry, x->n, sizeof *x->entry);
}

/* ---- files --------------------------------------------------------------- */

/* Opens the files, whose names are relative to the directory of the source's
 * path. */
static bool open_files(RtSource *s, char *const *name, int n)
{
    const char *slash = strrchr(s->path, '/');
    RT_OWNED char *directory =
        rt_format("%.*s", slash ? (int)(slash - s->path) + 1 : 0, s->path);
    s->file = rt_allocate((size_t)n * sizeof *s->file);
    s->file_path = rt_allocate((size_t)n * sizeof *s->file_path);
    for (int i = 0; i < n; i++) {
        s->file_path[i] = rt_path_join(directory, name[i]);
        s->nfiles++;
        if (access(s->file_path[i], F_OK) != 0)
            return rt_say("%s: error: the file '%s' of this index does not "
                          "exist", s->path, s->file_path[i]);
        if (!rt_tensor_file_open(&s->file[i], s->file_path[i]))
            return false;
    }
    return true;
}

/* Finds the tensors that the index lists in the files. */
static bool find_listed(RtSource *s)
{
    for (int i = 0; i < s->n; i++) {
        RtEntry *e = &s->entry[i];
        e->tensor = rt_tensor_find(&s->file[e->file], e->name);
        if (!e->tensor)
            return rt_fault(s->path, e->at, "'%s' is not in '%s'", e->name,
                            s->file_path[e->file]);
    }
    return true;
}

static bool open_index(RtSource *s)
{
    int64_t size;
    const unsigned char *map = rt_input_map(s->path, &size);
    if (!map)
        return false;
    Index x = {.j = {.text = map, .end = size}};
    x.file = rt_allocate(MOST_FILES * sizeof *x.file);
    read_weight_index(&x);
    s->entry = x.entry;
    s->n = x.n;
    if (x.j.error)
        rt_fault(s->path, x.j.at, "%s", x.j.error);
    bool good =
        !x.j.error && open_files(s, x.file, x.nfiles) && find_listed(s);
    for (int i = 0; i < x.nfiles; i++)
        free(x.file[i]);
    free(x.file);
    rt_input_unmap(map, size);
    return good;
}

static bool open_single(RtSource *s)
{
    s->file = rt_allocate(sizeof *s->file);
    s->nfiles = 1;
    if (!rt_tensor_file_open(&s->file[0], s->path))
        return false;
    s->entry = rt_allocate((size_t)s->file[0].n * sizeof *s->entry);
    for (; s->n < s->file[0].n; s->n++) {
        RtTensor *t = &s->file[0].tensor[s->n];
        s->entry[s->n] = (RtEntry){
            .name = rt_format("%s", t->name), .at = t->at, .tensor = t};
    }
    return true;
}

/* The file or index in a directory, as transformers selects it; NULL after a
 * message. */
static char *in_directory(const char *directory)
{
    static const char *const names[] = {RT_SINGLE_FILE, RT_INDEX_FILE};
    for (int i = 0; i < 2; i++) {
        char *path = rt_path_join(directory, names[i]);
        if (access(path, F_OK) == 0)
            return path;
        free(path);
    }
    rt_error("cannot read '%s': the directory has neither %s nor %s; name the "
             "file", directory, names[0], names[1]);
    return NULL;
}

bool rt_source_open(RtSource *s, const char *path)
{
    struct stat st;
    bool directory = stat(path, &st) == 0 && S_ISDIR(st.st_mode);
    *s = (RtSource){0};
    s->path = directory ? in_directory(path) : rt_format("%s", path);
    if (!s->path)
        return false;
    if (directory || rt_is_index(s->path)) {
        const char *slash = strrchr(s->path, '/');
        s->directory = slash
                           ? rt_format("%.*s", (int)(slash - s->path), s->path)
                           : rt_format(".");
    }
    return rt_is_index(s->path) ? open_index(s) : open_single(s);
}

void rt_source_close(RtSource *s)
{
    for (int i = 0; i < s->nfiles; i++) {
        rt_tensor_file_close(&s->file[i]);
        if (s->file_path)
            free(s->file_path[i]);
    }
    free(s->file);
    free(s->file_path);
    for (int i = 0; i < s->n; i++)
        free(s->entry[i].name);
    free(s->entry);
    free(s->directory);
    free(s->path);
    *s = (RtSource){0};
}

RtTensor *rt_source_find(const RtSource *s, const char *name)
{
    const RtEntry *e = rt_named_find(s->entry, s->n, sizeof *e, name);
    return e ? e->tensor : NULL;
}
