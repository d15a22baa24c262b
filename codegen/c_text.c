/* c_text.c: makes text of a PDL program valid in emitted C, as a name, a string
 * or a comment; formats float literals; names the C types of elements. */
#include "codegen/c_text.h"

#include "base/text.h"
#include "ir/ir.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

enum { MAX_NAME = 60 };

static bool is_name_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

const char *c_identifier(Arena *a, const char *text)
{
    char *name = arena_alloc(a, MAX_NAME + 2), *to = name;
    if (!is_name_letter(*text))
        *to++ = '_';
    for (const char *c = text; *c && to < name + MAX_NAME; c++)
        if (is_name_letter(*c) || isdigit((unsigned char)*c))
            *to++ = *c;
        else if (to == name || to[-1] != '_')
            *to++ = '_';
    return name;
}

const char *c_model_name(Arena *a, const char *name)
{
    static const char updated[] = ".new";
    size_t n = strlen(name), tail = sizeof updated - 1;
    if (n < tail || strcmp(name + n - tail, updated) != 0)
        tail = 0;
    size_t at = n - tail;
    while (at > 0 && isdigit((unsigned char)name[at - 1]))
        at--;
    if (at < 2 || at == n - tail || name[at - 1] != '.')
        return name;
    return arena_printf(a, "%.*s%s", (int)(at - 1), name, name + n - tail);
}

/* Whether a name looks like one that the included headers declare (types and
 * macros): int64_t, ParcPart, NULL, PARC_F32. */
static bool is_of_headers(const char *name)
{
    enum { SHORTEST_MACRO = 3 };
    size_t n = strlen(name);
    bool capitals = n >= SHORTEST_MACRO;
    for (const char *c = name; *c; c++)
        capitals &= *c < 'a' || *c > 'z';
    return capitals || starts_with(name, "parc_") ||
           starts_with(name, "Parc") || starts_with(name, "PARC_") ||
           (n > 2 && strcmp(name + n - 2, "_t") == 0);
}

bool c_is_reserved(const char *name)
{
    static const char *const word[] = {
        "auto",     "break",    "case",     "char",   "const",   "continue",
        "default",  "do",       "double",   "else",   "enum",    "extern",
        "float",    "for",      "goto",     "if",     "inline",  "int",
        "long",     "register", "restrict", "return", "short",   "signed",
        "sizeof",   "static",   "struct",   "switch", "typedef", "union",
        "unsigned", "void",     "volatile", "while",  "bool",    "true",
        "false",    "asm",      "typeof",   "main",   "linux",   "unix",
    };
    return table_find(word, name) || is_of_headers(name);
}

const char *c_string_body(Arena *a, const char *text)
{
    Out o;
    out_init(&o, a);
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\')
            out(&o, "\\%c", c);
        else if (c == '\n')
            out(&o, "\\n");
        else if (c == '?')
            out(&o, "\\?"); /* no trigraphs */
        else if (c < 0x20 || c == 0x7f)
            out(&o, "\\%03o", c);
        else
            out_bytes(&o, text, 1);
    }
    return o.text;
}

const char *c_comment(Arena *a, const char *text)
{
    char *copy = arena_strdup(a, text);
    for (char *c = copy; *c; c++) {
        if ((c[0] == '*' && c[1] == '/') || (c[0] == '/' && c[1] == '*'))
            c[1] = '.';
        if ((unsigned char)*c < 0x20)
            *c = ' ';
    }
    return copy;
}

/* The C type of an element type, and the runtime's constant. */
static const struct {
    const char *type, *constant;
} types[] = {[DT_F32] = {"float", "PARC_F32"},
             [DT_I32] = {"int32_t", "PARC_I32"},
             [DT_I64] = {"int64_t", "PARC_I64"},
             [DT_BF16] = {"parc_bf16", "PARC_BF16"},
             [DT_F16] = {"parc_f16", "PARC_F16"}};

const char *c_type(DType t)
{
    return types[t].type;
}

const char *c_value_type(DType t)
{
    return dtype_is_float(t) ? "float" : c_type(t);
}

const char *c_float(Arena *a, double x)
{
    if (isnan(x))
        return "NAN";
    if (isinf(x))
        return x > 0 ? "INFINITY" : "(-INFINITY)";
    char *s = arena_printf(a, "%.9g", (double)(float)x);
    bool plain = !strchr(s, '.') && !strchr(s, 'e');
    return arena_printf(a, x < 0 ? "(%s%sf)" : "%s%sf", s, plain ? ".0" : "");
}

const char *c_parc_type(DType t)
{
    return types[t].constant;
}

const char *c_stream_name(int stream)
{
    static const char *const name[] = {"PARC_COMPUTE", "PARC_TENSOR",
                                       "PARC_DATA", "PARC_HOST",
                                       [STREAM_TRANSFER] = "PARC_TRANSFER"};
    return name[stream];
}
