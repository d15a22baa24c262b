/* path.c: compares and joins the paths of files. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/files.h"
#include "common/message.h"

bool rt_output_is_stdout(const char *path)
{
    return strcmp(path, "-") == 0;
}

const char *rt_output_name(const char *path)
{
    return rt_output_is_stdout(path) ? "standard output" : path;
}

bool rt_is_regular(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

/* Whether both paths name one entry of one directory, existing or not. */
static bool is_same_entry(const char *a, const char *b)
{
    const char *path[2] = {a, b}, *name[2];
    struct stat directory[2];
    for (int i = 0; i < 2; i++) {
        const char *slash = strrchr(path[i], '/');
        size_t n = slash ? (size_t)(slash - path[i]) + 1 : 0;
        char *parent = n ? strndup(path[i], n) : strdup(".");
        bool found = parent && stat(parent, &directory[i]) == 0;
        free(parent);
        if (!found)
            return false;
        name[i] = path[i] + n;
    }
    return directory[0].st_dev == directory[1].st_dev &&
           directory[0].st_ino == directory[1].st_ino &&
           strcmp(name[0], name[1]) == 0;
}

/* Several outputs may write to one device or pipe. */
bool rt_is_same_file(const char *a, const char *b)
{
    struct stat x, y;
    if (rt_output_is_stdout(a) || rt_output_is_stdout(b))
        return strcmp(a, b) == 0;
    if (stat(a, &x) != 0 || stat(b, &y) != 0)
        return strcmp(a, b) == 0 || is_same_entry(a, b);
    return S_ISREG(x.st_mode) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

char *rt_path_join(const char *directory, const char *name)
{
    size_t n = strlen(directory);
    bool slash = n > 0 && directory[n - 1] != '/';
    return rt_format("%s%s%s", directory, slash ? "/" : "", name);
}
