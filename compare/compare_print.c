/* compare_print.c: prints a comparison as text and as JSON; see compare.h. */
#include "compare/compare.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- numbers ------------------------------------------------------------- */

typedef struct Scale {
    double of;
    const char *name;
} Scale;
static const Scale bytes_scale[] = {
    {1099511627776.0, "TiB"}, {1073741824.0, "GiB"}, {1048576.0, "MiB"},
    {1024.0, "KiB"},          {1, "B"},              {0, NULL}};
static const Scale seconds_scale[] = {
    {1, "s"}, {1e-3, "ms"}, {1e-6, "us"}, {0, NULL}};
static const Scale flops_scale[] = {
    {1e18, "E"}, {1e15, "P"}, {1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1, ""}, {0, NULL}};
static const Scale part_scale[] = {{0.01, "%"}, {0, NULL}};
static const Scale *const scale_of[] = {[UNIT_BYTES] = bytes_scale,
                                        [UNIT_SECONDS] = seconds_scale,
                                        [UNIT_FLOPS] = flops_scale,
                                        [UNIT_PART] = part_scale};

/* "267 ms"; with a sign "+2.26 GiB": three digits. */
static const char *number(Arena *a, CompareUnit unit, double x, bool sign)
{
    const Scale *s = scale_of[unit];
    if (x == 0)
        return "0";
    while (s[1].name && fabs(x) < 0.9995 * s->of)
        s++;
    double n = x / s->of, size = fabs(n);
    int digits = size < 9.995 ? 2 : size < 99.95 ? 1 : 0;
    return arena_printf(a, sign ? "%+.*f %s" : "%.*f %s", digits, n, s->name);
}

static double change(const CompareRow *r)
{
    return r->value[1] - r->value[0];
}

/* ---- text ---------------------------------------------------------------- */

static int by_change(const void *x, const void *y)
{
    const CompareRow *a = x, *b = y;
    double d = fabs(change(b)) - fabs(change(a));
    return d ? (d > 0) - (d < 0) : strcmp(a->name, b->name);
}

/* The rows, at least one, those with the largest change first. */
static CompareRow *sorted(const Comparison *c, SectionKind s)
{
    const CompareSection *in = &c->section[s];
    CompareRow *row = arena_copy(c->arena, in->row.at,
                                 sizeof *row * (size_t)in->row.n);
    qsort(row, (size_t)in->row.n, sizeof *row, by_change);
    return row;
}

/* Whether the values differ, times by more than their last printed digit. */
static bool differs(SectionKind s, const CompareRow *r)
{
    double least = row_unit(s, r) == UNIT_SECONDS ? 1e-3 : 0;
    double largest = fmax(fabs(r->value[0]), fabs(r->value[1]));
    return r->has[0] != r->has[1] || fabs(change(r)) > least * largest;
}

/* The class of statements that changes the module's time the most: "matmul +3.85 ms". */
static const char *module_reason(const Comparison *c, const char *module)
{
    const CompareSection *parts = &c->section[SECTION_PARTS];
    const CompareRow *most = NULL;
    size_t n = strlen(module);
    for (int i = 0; i < parts->row.n; i++) {
        const CompareRow *r = &parts->row.at[i];
        if (strncmp(r->name, module, n) == 0 && strncmp(r->name + n, ": ", 2) == 0 &&
            (!most || fabs(change(r)) > fabs(change(most))))
            most = r;
    }
    return !most || change(most) == 0
               ? ""
               : arena_printf(c->arena, "  %s %s", most->name + n + 2,
                              number(c->arena, UNIT_SECONDS, change(most), true));
}

/* "32 x 96.5 MiB -> 32 x 193 MiB: gradients of unit layers.*  (llama.pdl:88:38)" */
static void print_calls(Out *o, const Comparison *c, const CompareRow *r)
{
    Arena *a = c->arena;
    const char *text = "";
    for (int k = 0; k < 2; k++)
        if (r->has[k])
            text = arena_printf(a, "%s%s%.0f x %s", text, *text ? " -> " : "", r->calls[k],
                                number(a, UNIT_BYTES, r->each[k], false));
    const char *note = r->note[0] ? r->note[0] : r->note[1];
    out_line(o, "      %s: %s", text, note ? note : "");
    if (r->note[0] && r->note[1] && strcmp(r->note[0], r->note[1]) != 0)
        out_line(o, "      in b: %s", r->note[1]);
}

static void print_row(Out *o, const Comparison *c, SectionKind s, const CompareRow *r)
{
    Arena *a = c->arena;
    CompareUnit unit = row_unit(s, r);
    char sign = !r->has[0] ? '+' : !r->has[1] ? '-' : ' ';
    const char *part = r->value[0] > 0 && r->has[1] && change(r) != 0
                           ? arena_printf(a, "%+.1f%%", 100 * change(r) / r->value[0])
                           : "";
    const char *why = s == SECTION_MODULES ? module_reason(c, r->name) : "";
    out_line(o, "%c %-44s %10s %10s %11s %8s%s", sign, r->name,
             r->has[0] ? number(a, unit, r->value[0], false) : "-",
             r->has[1] ? number(a, unit, r->value[1], false) : "-",
             number(a, unit, change(r), true), part, why);
    if (s == SECTION_COLLECTIVES)
        print_calls(o, c, r);
}

/* The totals, in their order. */
static void print_totals(Out *o, const Comparison *c)
{
    const CompareSection *in = &c->section[SECTION_TOTALS];
    for (int i = 0; i < in->row.n; i++)
        if (in->row.at[i].has[0] || in->row.at[i].has[1])
            print_row(o, c, SECTION_TOTALS, &in->row.at[i]);
}

/* The rows that differ. */
static void print_section(Out *o, const Comparison *c, SectionKind s)
{
    enum { MOST = 24 };
    int n = c->section[s].row.n, differ = 0;
    if (n == 0)
        return;
    const CompareRow *row = sorted(c, s);
    for (int i = 0; i < n; i++)
        differ += differs(s, &row[i]);
    out_line(o, "");
    out_line(o, "%s%s", section_title(s), differ ? "" : ": equal");
    int printed = 0;
    for (int i = 0; i < n && printed < MOST; i++)
        if (differs(s, &row[i])) {
            print_row(o, c, s, &row[i]);
            printed++;
        }
    if (differ > printed)
        out_line(o, "  and %d more, which differ less (--json has all)", differ - printed);
    else if (differ && n > differ)
        out_line(o, "  %d more are equal", n - differ);
}

void compare_print(Out *o, const Comparison *c)
{
    out_line(o, "a  %s", c->title[0]);
    out_line(o, "b  %s", c->title[1]);
    out_line(o, "");
    out_line(o, "  %-44s %10s %10s %11s", "", "a", "b", "b - a");
    print_totals(o, c);
    for (int s = SECTION_TOTALS + 1; s < SECTIONS; s++)
        if (is_printed(s))
            print_section(o, c, s);
    if (!c->timed[0] || !c->timed[1])
        out_line(o, "\nno times: --machine adds them to a plan");
}

/* ---- JSON ---------------------------------------------------------------- */

static void json_side(Out *o, const CompareRow *r, int side)
{
    out(o, ", \"%c\": ", 'a' + side);
    if (r->has[side])
        out_double(o, r->value[side]);
    else
        out(o, "null");
}

static void json_row(Out *o, SectionKind s, const CompareRow *r)
{
    static const char *const unit[] = {[UNIT_BYTES] = "bytes", [UNIT_SECONDS] = "s",
                                       [UNIT_FLOPS] = "flop", [UNIT_PART] = "1"};
    out(o, "    {\"name\": ");
    out_json_string(o, r->name);
    json_side(o, r, 0);
    json_side(o, r, 1);
    out(o, ", \"change\": ");
    out_double(o, change(r));
    out(o, ", \"unit\": \"%s\"", unit[row_unit(s, r)]);
    for (int k = 0; k < 2; k++)
        if (r->note[k]) {
            out(o, ", \"note_%c\": ", 'a' + k);
            out_json_string(o, r->note[k]);
        }
    out(o, "}");
}

void compare_print_json(Out *o, const Comparison *c)
{
    out(o, "{\n");
    for (int k = 0; k < 2; k++) {
        out(o, "  \"%c\": ", 'a' + k);
        out_json_string(o, c->title[k]);
        out(o, ",\n");
    }
    for (int s = 0; s < SECTIONS; s++) {
        const CompareSection *in = &c->section[s];
        out(o, "  \"%s\": [", section_key(s));
        bool first = true;
        for (int i = 0; i < in->row.n; i++) {
            const CompareRow *r = &in->row.at[i];
            if (!r->has[0] && !r->has[1])
                continue;
            out(o, "%s", first ? "\n" : ",\n");
            json_row(o, s, r);
            first = false;
        }
        out(o, "%s]%s\n", first ? "" : "\n  ", s + 1 < SECTIONS ? "," : "");
    }
    out(o, "}\n");
}
