/* print_parts.c: prints what the header and the ops of a program share:
 * locations, strings, lists and axes. */
#include "ir/text/print.h"

const char *const ir_stage_words[] = {"global", "placed", "partitioned",
                                      "stored", "fused",  NULL};
const char *const ir_init_words[] = {"zeros",   "ones",   "normal",
                                     "uniform", "arange", "copy", NULL};
const char *const ir_layout_words[] = {"none", "R", "S", "P", NULL};

void print_loc(Printer *w, Loc loc)
{
    if (!loc.file || loc.file >= w->nfiles)
        return;
    if (w->marks)
        w->file[loc.file] = 1;
    out(w->o, " @%u:%u:%u", (unsigned)w->file[loc.file], (unsigned)loc.line,
        (unsigned)loc.col);
    if (loc.len > 1)
        out(w->o, "+%u", (unsigned)loc.len);
}

void print_string(Printer *w, const char *before, const char *s)
{
    out(w->o, "%s", before);
    out_json_string(w->o, s);
}

void print_strings(Printer *w, int n, const char *const *s)
{
    for (int i = 0; i < n; i++)
        print_string(w, i ? ", " : "", s[i]);
}

void print_axes(Printer *w, uint32_t axes)
{
    const char *between = "";
    out(w->o, "{");
    for (int a = 0; a < w->p->mesh.n; a++)
        if (axes >> a & 1) {
            out(w->o, "%s%s", between, w->p->mesh.name[a]);
            between = ", ";
        }
    out(w->o, "}");
}

void print_list(Printer *w, int n, const int64_t *v)
{
    out(w->o, "[");
    for (int i = 0; i < n; i++)
        out(w->o, "%s%lld", i ? ", " : "", (long long)v[i]);
    out(w->o, "]");
}
