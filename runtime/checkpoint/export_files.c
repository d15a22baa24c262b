/* export_files.c: writes an export as one file or as a directory.
 *
 *   --export w.safetensors        one file
 *   --export out/                 out/model.safetensors, or, if that would be
 *                                 larger than a file may be,
 *                                 out/model-00001-of-00002.safetensors, … and
 *                                 out/model.safetensors.index.json
 *   --export out/m.safetensors.index.json
 *                                 out/m-00001-of-00001.safetensors, the index
 *
 * The files of a directory are first written to a temporary directory. It is
 * renamed if the directory does not exist. Otherwise the files are moved, the
 * index last; an older model is removed before that, so that a reader never
 * finds an index with files of two models.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "checkpoint/export.h"
#include "checkpoint/safetensors.h"
#include "common/files.h"
#include "common/message.h"
#include "options/options.h"
#include "params/params.h"
#include "rt.h"

enum { MOST_NAME = 320 };

/* ---- the path ------------------------------------------------------------ */

static bool is_directory(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* Separates the path of an index into its directory and the stem of its
 * name. */
static void parse_index(RtExportTo *to)
{
    static const char *const suffix[] = {RT_INDEX_SUFFIX, ".index.json"};
    const char *slash = strrchr(to->path, '/');
    const char *name = slash ? slash + 1 : to->path;
    size_t n = strlen(name);
    for (int i = 0; i < 2; i++) {
        size_t k = strlen(suffix[i]);
        if (n > k && strcmp(name + n - k, suffix[i]) == 0) {
            n -= k;
            break;
        }
    }
    to->index = true;
    to->stem = rt_format("%.*s", (int)n, name);
    n = slash && slash > to->path ? (size_t)(slash - to->path) : 1;
    to->directory = rt_format("%.*s", (int)n, slash ? to->path : ".");
}

static void parse_path(RtExportTo *to)
{
    size_t n = strlen(to->path);
    bool slash = n > 1 && to->path[n - 1] == '/';
    if (rt_is_index(to->path)) {
        parse_index(to);
        return;
    }
    if (slash || is_directory(to->path)) {
        while (n > 1 && to->path[n - 1] == '/')
            n--;
        to->directory = rt_format("%.*s", (int)n, to->path);
        to->stem = rt_format("model");
    }
}

/* Sets the name of the temporary directory, and checks that it can be made. */
static bool probe_directory(RtExportTo *to)
{
    if (access(to->directory, F_OK) == 0 && !is_directory(to->directory))
        return rt_error("cannot write '%s': '%s' is not a directory", to->path,
                        to->directory);
    to->temporary = rt_format(is_directory(to->directory) ? "%s/.parc.%ld.tmp"
                                                          : "%s.%ld.tmp",
                              to->directory, (long)getpid());
    char *inside = rt_path_join(to->directory, ".parc");
    rt_output_remove_stale(to->directory);
    rt_output_remove_stale(inside);
    free(inside);
    if (mkdir(to->temporary, 0777) != 0)
        return rt_error("cannot write '%s': %s", to->path, strerror(errno));
    rmdir(to->temporary);
    return true;
}

bool rt_export_prepare(RtExportTo *to, const RtOptions *o,
                       const ParcModel *model)
{
    enum { HF = 1 };
    *to = (RtExportTo){.path = o->export_to};
    if (o->export_names == HF && !rt_has_file_names(model))
        return rt_error("--export-names hf: %s has no block 'names hf'; add "
                        "one to %s and compile again", model->name,
                        model->source);
    for (int i = 0; i < o->export_only.n; i++)
        if (!rt_pattern_check(model, "--export-only", o->export_only.at[i]))
            return false;
    to->part = o->export_only.n > 0;
    parse_path(to);
    if (to->directory)
        return probe_directory(to);
    if (o->export_shard_bytes)
        return rt_error("--export-shard-size: '%s' is one file; name a "
                        "directory: --export %s/", to->path, to->path);
    to->temporary = rt_output_probe(to->path);
    return to->temporary != NULL;
}

void rt_export_release(RtExportTo *to)
{
    free(to->directory);
    free(to->stem);
    free(to->temporary);
    *to = (RtExportTo){0};
}

/* ---- files of a directory ------------------------------------------------ */

static void shard_name(const RtExportTo *to, const RtExportList *l, int file,
                       char name[MOST_NAME])
{
    if (l->nfiles == 1 && !to->index)
        snprintf(name, MOST_NAME, "%.200s.safetensors", to->stem);
    else
        snprintf(name, MOST_NAME, "%.200s-%05d-of-%05d.safetensors", to->stem,
                 file + 1, l->nfiles);
}

static void index_name(const RtExportTo *to, char name[MOST_NAME])
{
    if (to->index) {
        const char *slash = strrchr(to->path, '/');
        snprintf(name, MOST_NAME, "%s", slash ? slash + 1 : to->path);
    } else {
        snprintf(name, MOST_NAME, "%s", RT_INDEX_FILE);
    }
}

/* Writes a file of the temporary directory: the text, or without one file
 * number `file` of the list. */
static const char *write_export_file(ParcRt *rt, const RtExportTo *to,
                                     const RtExportList *l, const char *name,
                                     const char *text, int file)
{
    char *path = rt_path_join(to->temporary, name);
    char *part = rt_format("%s.part", path);
    RtOutput w;
    rt_output_open(&w, path, part);
    if (!w.error && text)
        rt_output_put(&w, text, strlen(text));
    else if (!w.error)
        rt_export_file(&w, rt, l, file);
    const char *error = rt_output_close(&w);
    free(part);
    free(path);
    return error;
}

static char *index_text(const RtExportTo *to, const RtExportList *l)
{
    char *text = NULL, name[MOST_NAME];
    size_t n = 0;
    int64_t bytes = 0;
    FILE *f = open_memstream(&text, &n);
    if (!f)
        return NULL;
    for (int i = 0; i < l->n; i++)
        bytes += rt_export_bytes(l, &l->tensor[i]);
    fprintf(f, "{\n  \"metadata\": {\"total_size\": %" PRId64 "},\n"
               "  \"weight_map\": {", bytes);
    for (int i = 0; i < l->n; i++) {
        shard_name(to, l, l->tensor[i].file, name);
        fprintf(f, "%s\n    \"%s\": \"%s\"", i ? "," : "", l->tensor[i].name,
                name);
    }
    fprintf(f, "\n  }\n}\n");
    if (fclose(f) != 0) {
        free(text);
        return NULL;
    }
    return text;
}

/* A part of the weights is no model that from_pretrained could read. */
static bool has_config(const RtExportTo *to, const RtExportList *l)
{
    return l->foreign && l->model->file_config && !to->part;
}

static const char *write_files(ParcRt *rt, const RtExportTo *to,
                               const RtExportList *l, bool indexed)
{
    char name[MOST_NAME];
    const char *error = NULL;
    for (int i = 0; i < l->nfiles && !error; i++) {
        shard_name(to, l, i, name);
        error = write_export_file(rt, to, l, name, NULL, i);
    }
    if (!error && has_config(to, l))
        error = write_export_file(rt, to, l, "config.json",
                                  rt->model->file_config, 0);
    if (!error && indexed) {
        char *text = index_text(to, l);
        index_name(to, name);
        error = text ? write_export_file(rt, to, l, name, text, 0)
                     : strerror(ENOMEM);
        free(text);
    }
    return error;
}

/* ---- the directory ------------------------------------------------------- */

static const char *move_file(const RtExportTo *to, const char *name)
{
    char *from = rt_path_join(to->temporary, name);
    char *target = rt_path_join(to->directory, name);
    const char *error = rename(from, target) != 0 ? strerror(errno) : NULL;
    free(from);
    free(target);
    return error;
}

static void remove_file(const RtExportTo *to, const char *name)
{
    char *path = rt_path_join(to->directory, name);
    unlink(path);
    free(path);
}

/* Moves the files into the existing directory. */
static const char *move_files(const RtExportTo *to, const RtExportList *l,
                              bool indexed, bool config)
{
    char name[MOST_NAME], index[MOST_NAME];
    const char *error = NULL;
    index_name(to, index);
    if (indexed) {
        remove_file(to, index);
        if (!to->index)
            remove_file(to, RT_SINGLE_FILE);
        rt_sync_directory(to->directory);
    }
    for (int i = 0; i < l->nfiles && !error; i++) {
        shard_name(to, l, i, name);
        error = move_file(to, name);
    }
    if (!error && config)
        error = move_file(to, "config.json");
    if (!error && indexed)
        error = move_file(to, index);
    else if (!error)
        remove_file(to, index);
    if (!error)
        error = rmdir(to->temporary) != 0 ? strerror(errno) : NULL;
    return error;
}

static const char *export_directory(ParcRt *rt, const RtExportTo *to,
                                 const RtExportList *l)
{
    bool indexed = l->nfiles > 1 || to->index;
    bool config = has_config(to, l);
    const char *error;
    if (mkdir(to->temporary, 0777) != 0)
        return strerror(errno);
    int lock = open(to->temporary, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (lock >= 0)
        flock(lock, LOCK_EX | LOCK_NB); /* see rt_output_remove_stale */
    error = write_files(rt, to, l, indexed);
    rt_sync_directory(to->temporary);
    if (!error && is_directory(to->directory))
        error = move_files(to, l, indexed, config);
    else if (!error && rename(to->temporary, to->directory) != 0)
        error = strerror(errno);
    rt_sync_directory(to->directory);
    if (lock >= 0)
        close(lock);
    return error;
}

const char *rt_export(ParcRt *rt, const RtExportTo *to, const RtOptions *o)
{
    RtExportList l;
    const char *error;
    int64_t most =
        o->export_shard_bytes ? o->export_shard_bytes : RT_FILE_BYTES;
    rt_export_list(&l, rt->model, o, to->directory ? most : 0);
    if (to->directory) {
        error = export_directory(rt, to, &l);
    } else {
        RtOutput w;
        rt_output_open(&w, to->path, to->temporary);
        if (!w.error)
            rt_export_file(&w, rt, &l, 0);
        error = rt_output_close(&w);
    }
    rt_export_list_free(&l);
    return error;
}
