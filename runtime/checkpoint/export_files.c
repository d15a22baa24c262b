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
#include <math.h>
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
    RT_OWNED char *inside = rt_path_join(to->directory, ".parc");
    rt_output_remove_stale(to->directory);
    rt_output_remove_stale(inside);
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
    if (o->export_ema && model->ema <= 0)
        return rt_error("--export-ema: %s keeps no averages of its weights; compile with "
                        "-D ema=0.999", model->name);
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

/* The files of an export are numbered in the order in which they are moved:
 * those with tensors, config.json, the index. */
enum { CONFIG, INDEX };

/* The name of file i; false if the export has no such file. A part of the
 * weights is no model that from_pretrained could read. */
static bool file_name(const RtExportTo *to, const RtExportList *l, int i,
                      char name[MOST_NAME])
{
    const char *slash = strrchr(to->path, '/');
    bool indexed = l->nfiles > 1 || to->index;
    if (i < l->nfiles && indexed) {
        snprintf(name, MOST_NAME, "%.200s-%05d-of-%05d.safetensors", to->stem,
                 i + 1, l->nfiles);
    } else if (i < l->nfiles) {
        snprintf(name, MOST_NAME, "%.200s.safetensors", to->stem);
    } else if (i == l->nfiles + CONFIG) {
        snprintf(name, MOST_NAME, "config.json");
        return l->foreign && l->model->file_config && !to->part;
    } else {
        snprintf(name, MOST_NAME, "%s",
                 !to->index ? RT_INDEX_FILE : slash ? slash + 1 : to->path);
        return indexed;
    }
    return true;
}

static void write_index(RtOutput *w, const RtExportTo *to,
                        const RtExportList *l)
{
    char name[MOST_NAME];
    int64_t bytes = 0;
    FILE *f = rt_output_stream(w);
    if (!f)
        return;
    for (int i = 0; i < l->n; i++)
        bytes += rt_export_bytes(l, &l->tensor[i]);
    fprintf(f, "{\n  \"metadata\": {\"total_size\": %" PRId64 "},\n"
               "  \"weight_map\": {", bytes);
    for (int i = 0; i < l->n; i++) {
        file_name(to, l, l->tensor[i].file, name);
        fprintf(f, "%s\n    \"%s\": \"%s\"", i ? "," : "", l->tensor[i].name,
                name);
    }
    fprintf(f, "\n  }\n}\n");
    fclose(f);
}

/* Writes file i to the temporary directory. */
static const char *write_file(ParcRt *rt, const RtExportTo *to,
                              const RtExportList *l, int i, const char *name)
{
    RT_OWNED char *path = rt_path_join(to->temporary, name);
    RT_OWNED char *part = rt_format("%s.part", path);
    const char *config = l->model->file_config;
    RtOutput w;
    rt_output_open(&w, path, part);
    if (!w.error && i < l->nfiles)
        rt_export_file(&w, rt, l, i);
    else if (!w.error && i == l->nfiles + CONFIG)
        rt_output_put(&w, config, strlen(config));
    else if (!w.error)
        write_index(&w, to, l);
    return rt_output_close(&w);
}

static const char *write_files(ParcRt *rt, const RtExportTo *to,
                               const RtExportList *l)
{
    char name[MOST_NAME];
    const char *error = NULL;
    for (int i = 0; i <= l->nfiles + INDEX && !error; i++)
        if (file_name(to, l, i, name))
            error = write_file(rt, to, l, i, name);
    return error;
}

/* ---- the directory ------------------------------------------------------- */

static const char *move_file(const RtExportTo *to, const char *name)
{
    RT_OWNED char *from = rt_path_join(to->temporary, name);
    RT_OWNED char *target = rt_path_join(to->directory, name);
    return rename(from, target) != 0 ? strerror(errno) : NULL;
}

static void remove_file(const RtExportTo *to, const char *name)
{
    RT_OWNED char *path = rt_path_join(to->directory, name);
    unlink(path);
}

/* Moves the files into the existing directory. */
static const char *move_files(const RtExportTo *to, const RtExportList *l)
{
    char name[MOST_NAME];
    const char *error = NULL;
    int last = l->nfiles + INDEX;
    if (file_name(to, l, last, name)) {
        remove_file(to, name);
        if (!to->index)
            remove_file(to, RT_SINGLE_FILE);
        rt_sync_directory(to->directory);
    }
    for (int i = 0; i <= last && !error; i++)
        if (file_name(to, l, i, name))
            error = move_file(to, name);
        else if (i == last)
            remove_file(to, name);
    return error || rmdir(to->temporary) == 0 ? error : strerror(errno);
}

static const char *export_directory(ParcRt *rt, const RtExportTo *to,
                                    const RtExportList *l)
{
    const char *error;
    if (mkdir(to->temporary, 0777) != 0)
        return strerror(errno);
    int lock = open(to->temporary, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (lock >= 0)
        flock(lock, LOCK_EX | LOCK_NB); /* see rt_output_remove_stale */
    error = write_files(rt, to, l);
    rt_sync_directory(to->temporary);
    if (!error && is_directory(to->directory))
        error = move_files(to, l);
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
    if (o->export_ema && rt->updates > 0)
        l.average = 1 - pow(rt->model->ema, (double)rt->updates);
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
