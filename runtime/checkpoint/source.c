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
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "checkpoint/source.h"
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

/* An entry of the weight_map: the position of the name, and the file. */
typedef struct Entry {
    char *name;
    int file;
    int64_t at;
} Entry;

typedef struct Index {
    RtJson j;
    const char *path;
    Entry *entry;
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
    x->entry[x->n++] = (Entry){rt_format("%s", name), file, x->j.key_at};
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

static int by_name(const void *a, const void *b)
{
    const Entry *x = a, *y = b;
    int order = strcmp(x->name, y->name);
    return order ? order : (x->at > y->at) - (x->at < y->at);
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
    if (x->n > 0)
        qsort(x->entry, (size_t)x->n, sizeof x->entry[0], by_name);
    for (int i = 1; i < x->n && !x->j.error; i++)
        if (strcmp(x->entry[i - 1].name, x->entry[i].name) == 0) {
            x->j.at = x->entry[i].at;
            rt_json_fail(&x->j, "a second tensor of the same name");
        }
}

static void free_index(Index *x)
{
    for (int i = 0; i < x->n; i++)
        free(x->entry[i].name);
    for (int i = 0; i < x->nfiles; i++)
        free(x->file[i]);
    free(x->entry);
    free(x->file);
}

/* ---- files --------------------------------------------------------------- */

/* Opens the files, whose names are relative to the directory of the source's
 * path. */
static bool open_files(RtSource *s, char *const *name, int n)
{
    const char *slash = strrchr(s->path, '/');
    char *directory =
        rt_format("%.*s", slash ? (int)(slash - s->path) + 1 : 0, s->path);
    bool good = true;
    s->file = rt_allocate((size_t)n * sizeof *s->file);
    s->file_path = rt_allocate((size_t)n * sizeof *s->file_path);
    for (int i = 0; i < n && good; i++) {
        s->file_path[i] = rt_path_join(directory, name[i]);
        s->nfiles++;
        good = access(s->file_path[i], F_OK) == 0;
        if (!good)
            rt_say("%s: error: the file '%s' of this index does not exist",
                   s->path, s->file_path[i]);
        good = good && rt_tensor_file_open(&s->file[i], s->file_path[i]);
    }
    free(directory);
    return good;
}

/* Takes the tensors that the index lists from the files. */
static bool take_listed(RtSource *s, const Index *x)
{
    s->tensor = rt_allocate((size_t)x->n * sizeof(RtTensor *));
    for (int i = 0; i < x->n; i++) {
        const Entry *e = &x->entry[i];
        RtTensor *t = rt_tensor_find(&s->file[e->file], e->name);
        if (!t)
            return rt_fault(s->path, e->at, "'%s' is not in '%s'", e->name,
                            s->file_path[e->file]);
        s->tensor[s->n++] = t;
    }
    return true;
}

static bool open_index(RtSource *s)
{
    int64_t size;
    const unsigned char *map = rt_input_map(s->path, &size);
    if (!map)
        return false;
    Index x = {.j = {.text = map, .end = size}, .path = s->path};
    x.file = rt_allocate(MOST_FILES * sizeof *x.file);
    read_weight_index(&x);
    if (x.j.error)
        rt_fault(s->path, x.j.at, "%s", x.j.error);
    bool good =
        !x.j.error && open_files(s, x.file, x.nfiles) && take_listed(s, &x);
    free_index(&x);
    rt_input_unmap(map, size);
    return good;
}

static bool open_single(RtSource *s)
{
    s->file = rt_allocate(sizeof *s->file);
    s->nfiles = 1;
    if (!rt_tensor_file_open(&s->file[0], s->path))
        return false;
    s->n = s->file[0].n;
    s->tensor = rt_allocate(((size_t)s->n + 1) * sizeof(RtTensor *));
    for (int i = 0; i < s->n; i++)
        s->tensor[i] = &s->file[0].tensor[i];
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
    free(s->tensor);
    free(s->directory);
    free(s->path);
    *s = (RtSource){0};
}

/* Compares a name with a tensor of the list. */
static int compare_name(const void *name, const void *tensor)
{
    return strcmp(name, (*(RtTensor *const *)tensor)->name);
}

RtTensor *rt_source_find(const RtSource *s, const char *name)
{
    RtTensor **t = s->n > 0 ? bsearch(name, s->tensor, (size_t)s->n, sizeof *t,
                                      compare_name)
                            : NULL;
    return t ? *t : NULL;
}
