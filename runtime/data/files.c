/* files.c: a source of samples: one file, or several files one after another.
 *
 *   u16:day1.bin;day2.bin     two files; the prefix holds for both
 *   bytes:books/[a-m]*.txt    the files that match, in the order of their names
 *
 * A sample never crosses the end of a file. A file whose name contains the
 * characters of a pattern is taken by its name if it exists.
 */
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/message.h"
#include "data/samples.h"

static const struct {
    const char *prefix;
    int width;
} prefixes[] = {{"u16:", 2}, {"u32:", 4}, {"bytes:", 1}, {"", 0}};

static bool add_file(RtSource *s, const char *path, RtElement type,
                     const RtRow *row)
{
    s->file = rt_grow(s->file, s->nfiles, &s->capacity, sizeof *s->file);
    RtDataFile *f = &s->file[s->nfiles++];
    bool good = rt_data_file_open(f, path, type, row);
    f->before = s->samples;
    s->bytes += f->size;
    s->elements += f->elements;
    s->samples += good ? f->samples : 0;
    return good;
}

/* Adds the file `path`, or the files that match it. */
static bool add_files(RtSource *s, const char *path, RtElement type,
                      const RtRow *row)
{
    if (!*path)
        return rt_error("data: a source has an empty file name; write FILE, or "
                        "FILE;FILE");
    if (!strpbrk(path, "*?[") || access(path, F_OK) == 0)
        return add_file(s, path, type, row);
    glob_t found = {0};
    int status = glob(path, GLOB_ERR, NULL, &found);
    bool good = status == 0;
    if (!good)
        rt_error("cannot read '%s': %s", path,
                 status == GLOB_NOMATCH ? "no file matches"
                                        : "a directory cannot be read");
    for (size_t i = 0; good && i < found.gl_pathc; i++)
        good = add_file(s, found.gl_pathv[i], type, row);
    globfree(&found);
    return good;
}

bool rt_files_open(RtSource *s, const char *spec, const RtRow *row)
{
    s->text = rt_format("%s", spec);
    RtElement type = {0};
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++) {
        size_t n = strlen(prefixes[i].prefix);
        if (strncmp(spec, prefixes[i].prefix, n) == 0) {
            type.width = prefixes[i].width;
            spec += n;
            break;
        }
    }
    bool good = true;
    while (good && spec) {
        const char *end = strchr(spec, ';');
        int n = end ? (int)(end - spec) : (int)strlen(spec);
        char *path = rt_format("%.*s", n, spec);
        good = add_files(s, path, type, row);
        free(path);
        spec = end ? end + 1 : NULL;
    }
    return good;
}

void rt_files_close(RtSource *s)
{
    for (int i = 0; i < s->nfiles; i++)
        rt_data_file_close(&s->file[i]);
    free(s->file);
    free(s->text);
    *s = (RtSource){0};
}

RtSample rt_files_sample(const RtSource *s, int64_t at, const RtRow *row)
{
    int low = 0, high = s->nfiles;
    while (high - low > 1) {
        int middle = low + (high - low) / 2;
        if (s->file[middle].before <= at)
            low = middle;
        else
            high = middle;
    }
    const RtDataFile *f = &s->file[low];
    return (RtSample){f, (at - f->before) * row->n};
}
