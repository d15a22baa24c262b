/* lower_mesh.c: sets the mesh axes to the sizes of --mesh.
 *
 * "8x8" gives sizes in the order of the plan's axes, outermost first.
 * "dp=8,tp=8" names the axes; their order on the command line is the order of
 * ranks. Errors point into the command line. Without --mesh, every axis has
 * size 1.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "frontend/plan/plan.h"

enum { MAX_SIZE_DIGITS = 8 };

/* One part of the text: a size, or name=size. */
typedef struct Part {
    const char *name; /* NULL: not named */
    int64_t size;
    Loc loc, name_loc;
} Part;

typedef struct MeshText {
    Part part[MAX_MESH_AXES + 1];
    int n;
} MeshText;

static Loc mesh_range(const Lower *l, const char *from, size_t n)
{
    Loc loc = l->options->mesh_loc;
    loc.col += (uint32_t)(from - l->options->mesh);
    loc.len = (uint16_t)(n ? n : 1);
    return loc;
}

static bool parse_part(Lower *l, const char *from, size_t n, Part *part)
{
    const char *equals = memchr(from, '=', n);
    const char *digits = equals ? equals + 1 : from;
    size_t ndigits = n - (size_t)(digits - from);
    *part = (Part){.loc = mesh_range(l, digits, ndigits)};
    if (equals) {
        size_t k = (size_t)(equals - from);
        part->name = arena_strndup(l->arena, from, k);
        part->name_loc = mesh_range(l, from, k);
    }
    bool fine = ndigits > 0 && ndigits <= MAX_SIZE_DIGITS;
    for (size_t i = 0; i < ndigits && fine; i++)
        fine = isdigit((unsigned char)digits[i]);
    part->size = fine ? strtoll(digits, NULL, 10) : 0;
    if (part->size >= 1)
        return true;
    if (ndigits == 0)
        diag_error(l->diag, part->loc, "the size of a mesh axis is missing");
    else
        diag_error(l->diag, part->loc, "'%.*s' is not the size of a mesh axis",
                   (int)ndigits, digits);
    return diag_help(l->diag, "sizes are integers from 1 to %d, such as --mesh "
                     "8x8 or --mesh dp=8,tp=8", MAX_RANKS);
}

static bool is_name(const char *name)
{
    if (!name || isdigit((unsigned char)*name))
        return false;
    const char *p = name;
    while (isalnum((unsigned char)*p) || *p == '_')
        p++;
    return p > name && !*p;
}

static bool parse_mesh(Lower *l, MeshText *m)
{
    const char *p = l->options->mesh;
    bool named = strchr(p, '=') != NULL;
    const char *separator = named ? "," : "x";
    m->n = 0;
    for (;;) {
        size_t n = strcspn(p, separator);
        if (m->n == MAX_MESH_AXES)
            return diag_error(l->diag, mesh_range(l, p, n),
                              "a mesh has at most %d axes", MAX_MESH_AXES);
        Part *part = &m->part[m->n++];
        if (!parse_part(l, p, n, part))
            return false;
        if (named && !is_name(part->name))
            return diag_error(l->diag, part->name ? part->name_loc : part->loc,
                              "this axis needs a name: name all axes or none");
        if (!p[n])
            return true;
        p += n + 1;
    }
}

static void set_axis(Mesh *m, const char *name, int64_t size)
{
    m->name[m->n] = name;
    m->size[m->n++] = size;
}

static const char *axes_text(Lower *l, const PlanDecl *plan)
{
    const char *text = "";
    for (int i = 0; i < plan->naxes; i++)
        text = arena_printf(l->arena, "%s%s%s", text, i ? ", " : "",
                            plan->axis[i].name);
    return text;
}

static bool has_part(const MeshText *text, const char *name)
{
    return row_find(text->part, text->n, name);
}

/* Suggests an axis of the plan that the mesh does not name yet. */
static void unknown_axis(Lower *l, const MeshText *text, const Part *part,
                         const PlanDecl *plan)
{
    NameList names = {.arena = l->arena};
    diag_error(l->diag, part->name_loc, "plan '%s' has no axis '%s'",
               plan->name.name, part->name);
    for (int j = 0; j < plan->naxes; j++)
        if (!has_part(text, plan->axis[j].name))
            names_add(&names, plan->axis[j].name, plan->axis[j].loc);
    names_suggest(l->diag, &names, part->name);
    if (plan->naxes > 0)
        diag_help(l->diag, "the axes of the plan: %s", axes_text(l, plan));
}

static bool check_axis_names(Lower *l, const MeshText *text,
                             const PlanDecl *plan)
{
    bool fine = true;
    for (int i = 0; i < text->n; i++) {
        const Part *part = &text->part[i];
        if (row_find(text->part, i, part->name))
            fine = diag_error(l->diag, part->name_loc,
                              "axis '%s' is given twice", part->name);
        if (!plan || row_find(plan->axis, plan->naxes, part->name))
            continue;
        unknown_axis(l, text, part, plan);
        fine = false;
    }
    return fine;
}

/* Suggests the mesh with size 1 for the missing axes: "4x1" for "4". */
static void suggest_sizes(Lower *l, const MeshText *text, const PlanDecl *plan)
{
    const char *mesh = l->options->mesh;
    bool named = text->part[0].name;
    for (int i = named ? 0 : text->n; i < plan->naxes; i++) {
        const char *name = plan->axis[i].name;
        if (!named)
            mesh = arena_printf(l->arena, "%sx1", mesh);
        else if (!has_part(text, name))
            mesh = arena_printf(l->arena, "%s,%s=1", mesh, name);
    }
    diag_help(l->diag, "add the missing axes with size 1: --mesh %s", mesh);
}

static bool check_rank(Lower *l, const MeshText *text, const PlanDecl *plan)
{
    if (!plan || text->n == plan->naxes)
        return true;
    Loc loc = mesh_range(l, l->options->mesh, strlen(l->options->mesh));
    diag_error(l->diag, loc,
               "the mesh has %d ax%s, plan '%s' has %d (%s)", text->n,
               text->n == 1 ? "is" : "es", plan->name.name, plan->naxes,
               axes_text(l, plan));
    diag_note(l->diag, plan->name.loc, "the plan is declared here");
    if (text->n < plan->naxes)
        suggest_sizes(l, text, plan);
    return false;
}

static bool check_ranks(Lower *l, const MeshText *text)
{
    int64_t ranks = 1;
    for (int i = 0; i < text->n; i++)
        if (__builtin_mul_overflow(ranks, text->part[i].size, &ranks))
            ranks = INT64_MAX;
    if (ranks <= MAX_RANKS)
        return true;
    diag_error(l->diag, mesh_range(l, l->options->mesh,
                                   strlen(l->options->mesh)),
               "the mesh has more than %d ranks, the most that parc supports",
               MAX_RANKS);
    return diag_help(l->diag, "reduce the size of an axis");
}

/* The names of axes that neither the plan nor the mesh names. */
static const char *const free_name[MAX_MESH_AXES] = {
    "dp", "axis1", "axis2", "axis3", "axis4", "axis5"};

void lower_mesh(Lower *l, const PlanDecl *plan)
{
    Mesh *m = &l->p->mesh;
    MeshText text = {.n = 0};
    m->node = l->options->node_size;
    l->p->plan.node_loc = l->options->node_loc;
    if (plan && plan->naxes > MAX_MESH_AXES)
        return; /* read_plan reported the number of axes */
    bool fine = l->options->mesh && parse_mesh(l, &text);
    bool named = fine && text.part[0].name;
    if (fine && named)
        fine = check_axis_names(l, &text, plan);
    fine = fine && check_rank(l, &text, plan) && check_ranks(l, &text);
    if (fine) {
        for (int i = 0; i < text.n; i++)
            set_axis(m, named  ? text.part[i].name
                        : plan ? plan->axis[i].name
                               : free_name[i], text.part[i].size);
        return;
    }
    /* Without a mesh, or after an error: every axis is 1. */
    for (int i = 0; plan && i < plan->naxes; i++)
        set_axis(m, plan->axis[i].name, 1);
    if (!plan)
        set_axis(m, free_name[0], 1);
}
