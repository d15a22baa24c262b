/* styles.c: the table of styles that a plan can name, and layouts as a plan
 * writes them.
 *
 *   Shard(-1)   {LAYOUT_SHARD, -1}
 *   Partial     {LAYOUT_PARTIAL}
 */
#include <limits.h>
#include <string.h>

#include "base/text.h"
#include "frontend/plan/plan.h"

const StyleInfo style_table[] = {
    {"ColwiseParallel", STYLE_COLWISE,
     "input=, output=, input_layouts=, output_layouts=",
     "ColwiseParallel(input=Shard(1), output=Replicate)"},
    {"RowwiseParallel", STYLE_ROWWISE,
     "input=, output=, input_layouts=, output_layouts=",
     "RowwiseParallel(input=Shard(-1), output=Shard(1))"},
    {"SequenceParallel", STYLE_SEQUENCE, "layout..., sequence_dim=",
     "SequenceParallel(Shard(1))"},
    {"PrepareModuleInput", STYLE_PREPARE_INPUT,
     "layouts..., input_layouts=, desired_input_layouts=",
     "PrepareModuleInput(Shard(1) -> Replicate)"},
    {"PrepareModuleOutput", STYLE_PREPARE_OUTPUT,
     "layouts..., output_layouts=, desired_output_layouts=",
     "PrepareModuleOutput(Replicate -> Shard(1))"},
    {"PrepareModuleInputOutput", STYLE_PREPARE_INPUT_OUTPUT,
     "input=, output=, input_layouts=, desired_input_layouts=, "
     "output_layouts=, desired_output_layouts=",
     "PrepareModuleInputOutput(input=Shard(1) -> Replicate, "
     "output=Replicate -> Shard(1))"},
    {"Shard", STYLE_PARAMETER, "dim..., dim=", "Shard(0)"},
    {"Replicate", STYLE_PARAMETER, "nothing...", "Replicate"},
};
const int style_count = sizeof style_table / sizeof *style_table;

const StyleInfo *style_find(const char *name)
{
    return table_find(style_table, name);
}

bool style_takes(Arena *a, const StyleInfo *style, const char *name)
{
    Signature s;
    signature_of_text(a, style->name, style->settings, &s);
    for (int i = 0; i < s.n; i++)
        if (i != s.many && strcmp(s.name[i], name) == 0)
            return true;
    return false;
}

const char *style_setting(const char *name)
{
    return strcmp(name, "input_layouts") == 0    ? "input"
           : strcmp(name, "output_layouts") == 0 ? "output"
                                                 : name;
}

/* ---- layouts ------------------------------------------------------------- */

static bool bad_layout(Lower *l, const Expr *e)
{
    diag_error(l->diag, e->range, "this is not a layout");
    if (e->kind == EX_INT)
        diag_help(l->diag, "write Shard(%lld) to split dim %lld",
                  (long long)e->integer, (long long)e->integer);
    else
        diag_help(l->diag,
                  "layouts are Replicate, Shard(dim), Partial and none");
    return false;
}

static bool shard_dim(Lower *l, const Expr *e, Layout *to)
{
    bool one = e->nargs == 1 &&
               (!e->arg[0].name || strcmp(e->arg[0].name, "dim") == 0);
    const Expr *d = one ? e->arg[0].value : NULL;
    int sign = 1;
    if (d && d->kind == EX_NEG) {
        sign = -1;
        d = d->arg[0].value;
    }
    if (!d || d->kind != EX_INT || d->integer > INT_MAX)
        return bad_layout(l, e);
    *to = layout_shard(sign * (int)d->integer);
    return true;
}

bool lower_layout(Lower *l, const Expr *e, Layout *to)
{
    static const struct Name {
        const char *name;
        LayoutKind kind;
    } table[] = {
        {"Replicate", LAYOUT_REPLICATE}, {"R", LAYOUT_REPLICATE},
        {"Partial", LAYOUT_PARTIAL},     {"P", LAYOUT_PARTIAL},
    };
    *to = (Layout){LAYOUT_NONE, 0};
    if (e->kind == EX_NONE)
        return true;
    if (e->kind != EX_NAME && e->kind != EX_CALL)
        return bad_layout(l, e);
    if (e->kind == EX_CALL && (strcmp(e->name, "Shard") == 0 ||
                               strcmp(e->name, "S") == 0))
        return shard_dim(l, e, to);
    const struct Name *row = table_find(table, e->name);
    if (!row || e->nargs > 0)
        return bad_layout(l, e);
    to->kind = row->kind;
    return true;
}
