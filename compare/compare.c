/* compare.c: the sections of a comparison; see compare.h. */
#include "compare/compare.h"

#include <string.h>

static const struct {
    const char *key, *title;
    CompareUnit unit;
} sections[SECTIONS] = {
    [SECTION_TOTALS] = {"totals", "", UNIT_BYTES},
    [SECTION_CLASSES] = {"time_by_class", "Time by class", UNIT_SECONDS},
    [SECTION_MODULES] = {"time_by_module", "Time by module", UNIT_SECONDS},
    [SECTION_PARTS] = {"time_by_module_and_class", "", UNIT_SECONDS},
    [SECTION_COLLECTIVES] = {"collectives",
                             "Collectives (bytes that a rank sends in a step)",
                             UNIT_BYTES},
    [SECTION_MEMORY] = {"memory_by_class", "Memory of a rank at the peak", UNIT_BYTES},
    [SECTION_NAMES] = {"memory_by_name", "The same by name", UNIT_BYTES},
};

/* The totals in their order, before the bytes that are sent over axes. */
static const struct {
    const char *name;
    CompareUnit unit;
} totals[] = {
    {"step", UNIT_SECONDS},
    {"MFU", UNIT_PART},
    {"waits for collectives", UNIT_SECONDS},
    {"waits for stages", UNIT_SECONDS},
    {"memory of a rank", UNIT_BYTES},
    {"host memory of a rank", UNIT_BYTES},
    {"flops of the model", UNIT_FLOPS},
    {"recomputed flops", UNIT_FLOPS},
};

Comparison compare_new(Arena *a)
{
    Comparison c = {.arena = a};
    for (size_t i = 0; i < sizeof totals / sizeof *totals; i++)
        compare_row(&c, SECTION_TOTALS, totals[i].name);
    return c;
}

const char *section_title(SectionKind s)
{
    return sections[s].title;
}

const char *section_key(SectionKind s)
{
    return sections[s].key;
}

CompareUnit row_unit(SectionKind s, const CompareRow *row)
{
    for (size_t i = 0; i < sizeof totals / sizeof *totals; i++)
        if (s == SECTION_TOTALS && strcmp(totals[i].name, row->name) == 0)
            return totals[i].unit;
    return sections[s].unit;
}

CompareRow *compare_row(Comparison *c, SectionKind s, const char *name)
{
    CompareSection *in = &c->section[s];
    for (int i = 0; i < in->row.n; i++)
        if (strcmp(in->row.at[i].name, name) == 0)
            return &in->row.at[i];
    CompareRow row = {.name = arena_copy(c->arena, name, strlen(name) + 1)};
    vec_push(c->arena, &in->row, row);
    return &in->row.at[in->row.n - 1];
}
