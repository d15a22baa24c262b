/* compare.h: what differs between two execution plans, and what it costs (`parc compare`).
 *
 *   a   llama on dp=8 x tp=8        b   llama on dp=16 x tp=4
 *
 *                                   a           b       b - a
 *   step                       267 ms      241 ms      -26 ms    -9.7%
 *   memory                   9.84 GiB    12.1 GiB   +2.26 GiB   +23.0%
 *   Collectives (bytes that a rank sends in a step)
 *   - all_gather over tp: …  31.9 GiB           -   -31.9 GiB
 *
 * Plans are compared as their JSON (--emit json): of other models, meshes or versions of
 * parc as well. What has the same name in both is compared; labels such as "ag3" are
 * numbers of one plan and no names.
 */
#ifndef PARC_COMPARE_COMPARE_H
#define PARC_COMPARE_COMPARE_H

#include <stdbool.h>

#include "base/out.h"

typedef enum CompareUnit { UNIT_BYTES, UNIT_SECONDS, UNIT_FLOPS, UNIT_PART } CompareUnit;

/* A number of both plans. */
typedef struct CompareRow {
    const char *name;
    double value[2];     /* 0: the plan does not have it */
    bool has[2];
    double calls[2], each[2]; /* a collective: calls per step, bytes of one */
    const char *note[2];      /* the reason and the source line; NULL: none */
} CompareRow;

typedef enum SectionKind {
    SECTION_TOTALS,
    SECTION_CLASSES,     /* time by class of statement */
    SECTION_MODULES,     /* time by module */
    SECTION_PARTS,       /* the same by "module: class"; only the reasons of modules */
    SECTION_COLLECTIVES, /* bytes that a rank sends in a step */
    SECTION_MEMORY,      /* bytes of a rank at the peak, by class */
    SECTION_NAMES,       /* the same by name */
    SECTIONS
} SectionKind;

typedef struct CompareSection {
    VEC(CompareRow) row;
} CompareSection;

typedef struct Comparison {
    Arena *arena;
    const char *title[2]; /* "llama under plan fsdp on dp=8 x tp=8" */
    bool timed[2];        /* the plan has times */
    CompareSection section[SECTIONS];
} Comparison;

/* Title and JSON key of a section; the unit of a row of it. */
const char *section_title(SectionKind s);
const char *section_key(SectionKind s);
CompareUnit row_unit(SectionKind s, const CompareRow *row);

/* Whether the section is printed. */
static inline bool is_printed(SectionKind s)
{
    return s != SECTION_PARTS;
}

/* A comparison without plans. */
Comparison compare_new(Arena *a);

/* The row of a name, which is added if the section lacks it. */
CompareRow *compare_row(Comparison *c, SectionKind s, const char *name);

/* compare_read.c: adds a plan, as parc prints it, as number `side`. NULL, or what is wrong
 * ("line 3: …"). */
const char *compare_read(Comparison *c, int side, const char *text, size_t size);

/* compare_print.c: the differences as text and as JSON. */
void compare_print(Out *o, const Comparison *c);
void compare_print_json(Out *o, const Comparison *c);

#endif
