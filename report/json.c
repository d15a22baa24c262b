/* json.c: prints the fields of JSON objects; see json.h. */
#include "report/json.h"

void json_name(Out *o, const char *name)
{
    char last = o->text[o->size - 1];
    out(o, "%s\"%s\": ", last == '{' || last == ' ' ? "" : ", ", name);
}

void json_text(Out *o, const char *name, const char *text)
{
    json_name(o, name);
    if (text)
        out_json_string(o, text);
    else
        out(o, "null");
}

void json_number(Out *o, const char *name, int64_t n)
{
    json_name(o, name);
    out(o, "%lld", (long long)n);
}

void json_real(Out *o, const char *name, double x)
{
    json_name(o, name);
    out_double(o, x);
}

void json_shape(Out *o, int ndim, const int64_t *dim)
{
    json_name(o, "shape");
    out(o, "[");
    for (int d = 0; d < ndim; d++)
        out(o, "%s%lld", d ? ", " : "", (long long)dim[d]);
    out(o, "]");
}
