/* report_options.c: prints the clauses and options of a plan and of `train`, as
 * Markdown tables for documents and as values in JSON.
 *
 *   | option | values | default | meaning |      "train": {"batch": 8, …,
 *   |---|---|---|---|                              "optimizer": {"name":
 *   | `prefetch` | 0 to 16 | … | … |               "AdamW", "lr": 0.001, …}}
 *
 * docs/pdl.md has the tables of `parc --list-options` (tests/e2e/docs.sh).
 */
#include <ctype.h>
#include <math.h>

#include "ir/options.h"
#include "report/json.h"
#include "report/report.h"

/* ---- cells of the tables ------------------------------------------------- */

static const char *number_text(Arena *a, double x)
{
    return x == 0x1p40 ? "2^40" : arena_printf(a, "%g", x);
}

static const char *range_text(Arena *a, const Option *o)
{
    bool whole = o->takes == TAKES_INT || o->takes == TAKES_INTS;
    const char *kind = whole ? "integer" : "number";
    const char *low = number_text(a, o->low);
    if (isinf(o->low))
        return arena_printf(a, "%s up to %s", kind, number_text(a, o->high));
    if (o->high > 0x1p20)
        return arena_printf(a, "%s from %s", kind, low);
    return arena_printf(a, "%s to %s", low, number_text(a, o->high));
}

static void words_cell(Out *o, const Option *of)
{
    for (const OptionWord *w = of->words; w->name; w++)
        out(o, "%s`%s%s`", w == of->words ? "" : ", ", w->name,
            of->takes == TAKES_CALL ? "(…)" : "");
    if (of->takes == TAKES_WORDS)
        out(o, "; several in parentheses");
}

static void values_cell(Out *o, const Option *of)
{
    switch (of->takes) {
    case TAKES_INT:
    case TAKES_NUMBER:
        out(o, "%s", range_text(o->arena, of));
        return;
    case TAKES_LIMIT:
        out(o, "number %s %g, `none`", of->low > 0 ? "of at least" : "above", of->low);
        return;
    case TAKES_PAIR:
        out(o, "two numbers from %g to below %g", of->low, of->high);
        return;
    case TAKES_INTS:
        out(o, "%s; several in parentheses, ascending",
            range_text(o->arena, of));
        return;
    case TAKES_NUMBERS:
        out(o, "number%s; several in parentheses",
            of->low < 0 ? "" : " above 0");
        return;
    case TAKES_FLAG:
        out(o, "`true`, `false`");
        return;
    case TAKES_STAGES:
        out(o, "list: a path, or paths in brackets, for each stage");
        return;
    case TAKES_PATTERNS:
        out(o, "string; several in parentheses");
        return;
    case TAKES_GROUPS:
        out(o, "`group(…)`; several in parentheses");
        return;
    case TAKES_WORD:
    case TAKES_WORDS:
    case TAKES_CALL:
        words_cell(o, of);
        return;
    }
}

static void default_cell(Out *o, const Option *of)
{
    OptionName id = (OptionName)(of - option_rows);
    if (of->standard)
        out(o, "%s", of->standard);
    else if (of->takes == TAKES_WORD || of->takes == TAKES_CALL)
        out(o, "`%s`", option_word(id, (int64_t)of->initial));
    else if (of->takes == TAKES_FLAG)
        out(o, "`%s`", of->initial > 0 ? "true" : "false");
    else if (of->takes == TAKES_PAIR)
        out(o, "(%g, %g)", of->initial, of->second);
    else if (of->takes == TAKES_LIMIT && of->initial == 0)
        out(o, "`none`");
    else
        out(o, "%g", of->initial);
    for (const struct OwnDefault *own = of->own; own->of; own++) {
        out(o, "; %s: ", option_word(OPTION_optimizer, __builtin_ctz(own->of)));
        if (of->takes == TAKES_PAIR)
            out(o, "(%g, %g)", own->initial, own->second);
        else
            out(o, "%g", own->initial);
    }
}

/* " ([Loss scale](#loss-scale))" */
static void see_cell(Out *o, const char *heading)
{
    out(o, " ([%s](#", heading);
    for (const char *c = heading; *c; c++)
        out(o, "%c", *c == ' ' ? '-' : tolower((unsigned char)*c));
    out(o, "))");
}

/* The choices that take an argument; "" for all. */
static void of_cell(Out *o, const Option *of, const Option *call)
{
    const char *comma = "";
    for (const OptionWord *w = call->words; w->name && of->of; w++)
        if (option_is_of(of, w->value)) {
            out(o, "%s%s", comma, w->name);
            comma = ", ";
        }
}

/* ---- tables -------------------------------------------------------------- */

static void option_row(Out *o, const Option *of, const Option *call)
{
    out(o, "| `%s` | ", of->name);
    values_cell(o, of);
    out(o, " | ");
    default_cell(o, of);
    out(o, " | ");
    if (call) {
        of_cell(o, of, call);
        out(o, " | ");
    }
    out(o, "%s", of->help);
    if (of->targets)
        out(o, " (%s)", of->targets);
    if (of->see)
        see_cell(o, of->see);
    out(o, " |\n");
}

/* `call`: the option whose arguments these are, or NULL. */
static void options_table(Out *o, OptionScope scope, const Option *call)
{
    out(o, call ? "| argument | values | default | of | meaning |\n"
                  "|---|---|---|---|---|\n"
                : "| option | values | default | meaning |\n"
                  "|---|---|---|---|\n");
    for (int i = 0; i < OPTIONS; i++)
        if (option_rows[i].scope == scope && option_is_usable(&option_rows[i]))
            option_row(o, &option_rows[i], call);
    out(o, "\n");
}

/* "linear(steps, warmup, min_lr)" */
static void call_cell(Out *o, const Option *call, const OptionWord *w)
{
    const char *comma = "";
    out(o, "%s(", w->name);
    for (int i = 0; i < OPTIONS; i++)
        if (option_rows[i].scope == call->args &&
            option_is_of(&option_rows[i], w->value)) {
            out(o, "%s%s", comma, option_rows[i].name);
            comma = ", ";
        }
    out(o, ")");
}

static void words_table(Out *o, const Option *of)
{
    bool call = of->takes == TAKES_CALL;
    if (!of->words || !of->words->help || of->scope == SCOPE_OFFLOAD)
        return;
    out(o, "| %s | meaning |\n|---|---|\n", of->name);
    for (const OptionWord *w = of->words; w->name; w++) {
        out(o, "| `");
        if (call)
            call_cell(o, of, w);
        else
            out(o, "%s=%s", of->name, w->name);
        out(o, "` | %s |\n", w->help);
    }
    out(o, "\n");
    if (!call)
        return;
    options_table(o, of->args, of);
    for (const Option *arg = option_rows; arg < option_rows + OPTIONS; arg++)
        if (arg->scope == of->args && arg->takes == TAKES_GROUPS)
            options_table(o, arg->args, NULL);
}

static void clauses_table(Out *o)
{
    out(o, "| clause | effect |\n|---|---|\n");
    for (int k = 0; k < CLAUSES; k++) {
        const ClauseInfo *c = &clause_rows[k];
        out(o, "| [`%s %s`](#%s) | %s |\n", c->name, c->form, c->see, c->help);
    }
    out(o, "\n");
}

static void scope_tables(Out *o, const char *title, OptionScope scope)
{
    out(o, "%s\n\n", title);
    options_table(o, scope, NULL);
    for (int i = 0; i < OPTIONS; i++)
        if (option_rows[i].scope == scope)
            words_table(o, &option_rows[i]);
}

void report_options(Out *o)
{
    out(o, "Clauses of a plan\n\n");
    clauses_table(o);
    for (int k = 0; k < CLAUSES; k++)
        if (clause_rows[k].scope != NO_OPTIONS)
            scope_tables(o,
                         arena_printf(o->arena, "Options of an item of %s",
                                      clause_rows[k].name),
                         clause_rows[k].scope);
    scope_tables(o, "Settings of train", SCOPE_TRAIN);
}

/* ---- JSON ---------------------------------------------------------------- */

static void json_options(Out *o, OptionScope scope, int choice, const void *of);

static void json_words(Out *o, const Option *of, int64_t bits)
{
    const char *comma = "";
    json_name(o, of->name);
    out(o, "[");
    for (const OptionWord *w = of->words; w->name; w++)
        if (bits >> w->value & 1) {
            out(o, "%s\"%s\"", comma, w->name);
            comma = ", ";
        }
    out(o, "]");
}

/* "after": [1000, 2000] */
static void json_list(Out *o, const Option *of, const NumberList *list)
{
    json_name(o, of->name);
    out(o, "[");
    for (int i = 0; i < list->n; i++)
        out(o, "%s%s", i ? ", " : "", of->takes == TAKES_INTS
                ? arena_printf(o->arena, "%.0f", list->v[i])
                : double_text(o->arena, list->v[i]));
    out(o, "]");
}

static void json_option(Out *o, const Option *of, const void *from)
{
    OptionName id = (OptionName)(of - option_rows);
    if (option_is_list(of)) {
        json_list(o, of, option_list(of, from));
        return;
    }
    bool number = option_is_number(of);
    int64_t x = number ? 0 : option_integer(of, from);
    bool none = of->takes == TAKES_LIMIT ? option_number(of, from, 0) == 0
                : of->takes == TAKES_WORD ? !option_word(id, x)
                : of->takes == TAKES_INT  ? (double)x < of->low
                                          : !number && x < 0;
    if (none) {
        json_text(o, of->name, NULL);
    } else if (of->takes == TAKES_INT) {
        json_number(o, of->name, x);
    } else if (of->takes == TAKES_FLAG) {
        json_name(o, of->name);
        out(o, x ? "true" : "false");
    } else if (of->takes == TAKES_WORD) {
        json_text(o, of->name, option_word(id, x));
    } else if (of->takes == TAKES_WORDS) {
        json_words(o, of, x);
    } else if (of->takes == TAKES_CALL) {
        json_name(o, of->name);
        out(o, "{");
        json_text(o, "name", option_word(id, x));
        json_options(o, of->args, (int)x, from);
        out(o, "}");
    } else if (of->takes == TAKES_PAIR) {
        json_name(o, of->name);
        out(o, "[%s, %s]", double_text(o->arena, option_number(of, from, 0)),
            double_text(o->arena, option_number(of, from, 1)));
    } else {
        json_real(o, of->name, option_number(of, from, 0));
    }
}

const char *option_json_name(Arena *a, const Option *o)
{
    const char *prefix = option_prefix(o->scope);
    if (o->size == 0 || (o->dump == DUMP_NEVER && !o->selects))
        return NULL;
    if (prefix)
        return arena_printf(a, "train.%s%s", prefix, o->name);
    for (int k = 0; k < CLAUSES; k++)
        if (clause_rows[k].scope == o->scope)
            return arena_printf(a, "%s.%s", clause_rows[k].name, o->name);
    return NULL;
}

/* Options that a choice does not take, and second names of a field, are left
 * out. */
static void json_options(Out *o, OptionScope scope, int choice, const void *of)
{
    for (int i = 0; i < OPTIONS; i++) {
        const Option *row = &option_rows[i];
        if (row->scope == scope && row->size > 0 && row->dump != DUMP_NEVER &&
            option_is_of(row, choice))
            json_option(o, row, of);
    }
}

static void json_paths(Out *o, int n, const char *const *path,
                       const char *class)
{
    if (class) {
        json_text(o, "class", class);
        return;
    }
    json_name(o, "paths");
    out(o, "[");
    for (int i = 0; i < n; i++) {
        out(o, "%s", i ? ", " : "");
        out_json_string(o, path[i]);
    }
    out(o, "]");
}

/* The clause, with the stages that parc has chosen if the user gave none. */
static void json_pipeline(Out *o, const Pipeline *plan)
{
    out(o, "\n    \"%s\": {", clause_name(CL_PIPELINE));
    json_text(o, option_name(OPTION_pipeline_schedule),
              option_word(OPTION_pipeline_schedule, plan->schedule));
    json_number(o, option_name(OPTION_stages_per_rank),
                pipeline_stages_per_rank(plan));
    json_name(o, option_name(OPTION_split));
    out(o, "[");
    for (int s = 0; s < plan->nsplit; s++) {
        out(o, "%s[", s ? ", " : "");
        for (int i = 0; i < plan->split[s].npaths; i++) {
            out(o, "%s", i ? ", " : "");
            out_json_string(o, plan->split[s].path[i]);
        }
        out(o, "]");
    }
    out(o, "]},\n   ");
}

/* "context": {"axes": "cp", "exchange": "heads"} */
static void json_context(Out *o, const Program *p, const Context *plan)
{
    out(o, "\n    \"%s\": {\"axes\": \"%s\"", clause_name(CL_CONTEXT),
        user_axes_text(p, plan->axes));
    json_options(o, SCOPE_CONTEXT, 0, plan);
    out(o, "},\n   ");
}

static void json_experts(Out *o, const Program *p, const Experts *plan)
{
    out(o, "\n    \"%s\": [", clause_name(CL_EXPERT_PARALLEL));
    for (int i = 0; i < plan->nitems; i++) {
        out(o, "%s\n      {\"axes\": \"%s\"", i ? "," : "", user_axes_text(p, plan->axes));
        json_paths(o, plan->item[i].npaths, plan->item[i].path, NULL);
        json_options(o, SCOPE_EXPERTS, 0, &plan->item[i]);
        out(o, "}");
    }
    out(o, "\n    ],\n   ");
}

void report_json_settings(Out *o, const Program *p)
{
    const PlanSpec *plan = &p->plan;
    out(o, "  \"settings\": {\n    \"train\": {");
    json_options(o, SCOPE_TRAIN, 0, &p->train);
    out(o, "},\n    \"%s\": [", clause_name(CL_FULLY_SHARD));
    for (int i = 0; i < plan->nunits; i++) {
        const Unit *u = &plan->unit[i];
        out(o, "%s\n      {", i ? "," : "");
        if (u->kind == UNIT_MIN_PARAMS)
            json_number(o, option_name(OPTION_min_params), u->min_params);
        else
            json_paths(o, u->npaths, u->path, u->class);
        json_options(o, SCOPE_FULLY_SHARD, 0, u);
        out(o, "}");
    }
    out(o, "%s],\n    \"%s\": [", plan->nunits ? "\n    " : "",
        clause_name(CL_CHECKPOINT));
    for (int i = 0; i < plan->ncheckpoints; i++) {
        const Checkpoint *c = &plan->checkpoint[i];
        out(o, "%s\n      {", i ? "," : "");
        json_paths(o, c->npaths, c->path, c->class);
        json_options(o, SCOPE_CHECKPOINT, 0, c);
        out(o, "}");
    }
    out(o, "%s],\n   ", plan->ncheckpoints ? "\n    " : "");
    if (plan->pipeline.axes)
        json_pipeline(o, &plan->pipeline);
    if (plan->context.axes)
        json_context(o, p, &plan->context);
    if (plan->experts.axes)
        json_experts(o, p, &plan->experts);
    json_words(o, &option_rows[OPTION_offload], plan->offload);
    out(o, "\n  },\n");
}
