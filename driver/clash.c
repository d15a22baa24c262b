/* clash.c: checks that no output overwrites the model or another output. */
#include <string.h>
#include <sys/stat.h>

#include "driver/options.h"

/* Whether two outputs overwrite each other. Devices and pipes accept several
 * outputs. */
static bool same_file(const char *a, const char *b)
{
    struct stat x, y;
    bool there = stat(a, &x) == 0;
    if (!there || stat(b, &y) != 0)
        return !there && strcmp(a, b) == 0;
    return S_ISREG(x.st_mode) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* Output i of the command line. Its text is NULL for standard output and for an
 * option that is not given. */
static Argument output_at(const Options *o, int i)
{
    if (i == o->emit.n)
        return o->binary;
    return (Argument){o->emit.at[i].file, o->emit.at[i].loc};
}

/* The first output before i that is the same file; text NULL if none is. */
static Argument same_before(const Options *o, int i)
{
    Argument output = output_at(o, i);
    for (int j = 0; j < i; j++) {
        Argument other = output_at(o, j);
        if (other.text && same_file(output.text, other.text))
            return other;
    }
    return (Argument){0};
}

bool clash_check(Diag *d, const Options *o)
{
    int before = diag_error_count(d);
    for (int i = 0; i <= o->emit.n; i++) {
        Argument output = output_at(o, i);
        if (!output.text)
            continue;
        Argument other = same_before(o, i);
        if (same_file(output.text, o->input.text))
            diag_error(d, output.loc, "this output would overwrite the model");
        else if (other.text)
            diag_twice(d, output.loc, other.loc, "two outputs go to '%s'",
                       output.text);
    }
    return diag_error_count(d) == before;
}
