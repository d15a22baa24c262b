/* cuda_unused.c: removes unused constants from a printed function, and tells
 * whether printed text uses a name.
 *
 *   for (int s = 0; s < 2; s++) {
 *       const int j = (s * 512 + t) * 4;      <- removed: nothing below uses j
 *       parc_widen_bf16(in0, kept0[s], 8);
 *
 * Declarations are printed before the body that may use them. The compiler
 * warns about those that are unused, and parc treats its warnings as bugs
 * (nvrtc.h).
 */
#include <ctype.h>
#include <string.h>

#include "codegen/cuda_kernel.h"

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

/* Skips comments: they contain names of ops and source files, which a tensor
 * may have too. */
bool cuda_mentions(const char *text, const char *name)
{
    size_t n = strlen(name);
    for (const char *s = text; *s;) {
        size_t length = 0;
        while (is_word(s[length]))
            length++;
        if (length == n && !strncmp(s, name, n))
            return true;
        const char *end = !strncmp(s, "/*", 2) ? strstr(s, "*/") : NULL;
        s = end ? end + 2 : s + (length ? length : 1);
    }
    return false;
}

static size_t indent_of(const char *line)
{
    return strspn(line, " ");
}

/* "j" for "const int j = …;", NULL for other lines. */
static const char *declared(Arena *a, const char *line)
{
    static const char *const start[] = {"const int ", "const int64_t "};
    line += indent_of(line);
    for (size_t i = 0; i < sizeof start / sizeof *start; i++) {
        size_t n = strlen(start[i]), name = 0;
        if (strncmp(line, start[i], n))
            continue;
        while (is_word(line[n + name]))
            name++;
        if (!strncmp(line + n + name, " = ", 3))
            return arena_strndup(a, line + n, name);
    }
    return NULL;
}

/* Whether a later line of the block of line `at` uses the name. */
static bool is_used(const char *const *line, int n, int at, const char *name)
{
    size_t indent = indent_of(line[at]);
    for (int i = at + 1; i < n && indent_of(line[i]) >= indent; i++)
        if (cuda_mentions(line[i], name))
            return true;
    return false;
}

const char *cuda_without_unused(Arena *a, const char *text)
{
    VEC(const char *) line = {0};
    while (*text) {
        size_t n = strcspn(text, "\n");
        n += text[n] == '\n';
        vec_push(a, &line, (const char *)arena_strndup(a, text, n));
        text += n;
    }
    /* Backwards: removing a constant may make an earlier one unused. A
     * declaration of several lines is kept. */
    for (int i = line.n; i-- > 0;) {
        const char *name = declared(a, line.at[i]);
        bool whole = strstr(line.at[i], ";\n") || strstr(line.at[i], "; /*");
        if (name && whole && !is_used(line.at, line.n, i, name)) {
            memmove(line.at + i, line.at + i + 1,
                    (size_t)(line.n - i - 1) * sizeof *line.at);
            line.n--;
        }
    }
    Out o;
    out_init(&o, a);
    for (int i = 0; i < line.n; i++)
        out(&o, "%s", line.at[i]);
    return o.text;
}
