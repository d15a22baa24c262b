/* parse_plan.c: parses the plan of a printed program: the inverse of
 * print_plan in print_head.c, which has an example. */
#include "ir/plan/styles.h"
#include "ir/text/parse.h"
#include "ir/text/print.h"

static Layout parse_layout(Parser *s)
{
    Layout l = {0};
    l.kind = (LayoutKind)parse_choice(s, ir_layout_words, "a layout");
    if (l.kind != LAYOUT_SHARD)
        return l;
    parse_expect(s, '(');
    Loc loc = s->tok.loc;
    int64_t d = parse_int(s);
    if (d < -MAX_DIMS || d >= MAX_DIMS)
        parse_fail(s, loc, "no such dim");
    l.dim = s->failed ? 0 : (int)d;
    parse_expect(s, ')');
    return l;
}

static int parse_layouts(Parser *s, const char *word, Layout *from, Layout *to)
{
    int n = 0;
    parse_expect_word(s, word);
    parse_expect(s, '(');
    if (parse_take(s, ')'))
        return 0;
    do {
        if (n == MAX_PORTS) {
            parse_fail(s, s->tok.loc, "more than %d layouts", MAX_PORTS);
            return 0;
        }
        from[n] = parse_layout(s);
        if (s->tok.kind != TK_ARROW)
            parse_fail(s, s->tok.loc, "expected '->'");
        parse_next(s);
        to[n++] = parse_layout(s);
    } while (parse_take(s, ','));
    parse_expect(s, ')');
    return s->failed ? 0 : n;
}

static Style parse_style(Parser *s)
{
    Style style = {0};
    const char *words[STYLE_KINDS + 1] = {NULL};
    for (int k = 0; k < STYLE_KINDS; k++)
        words[k] = style_name((StyleKind)k);
    style.kind = (StyleKind)parse_choice(s, words, "a style");
    style.path = parse_string(s);
    parse_expect_key(s, "axis");
    style.axis = parse_axis(s);
    style.whole = parse_take_word(s, "whole");
    style.nin = parse_layouts(s, "in", style.in_from, style.in_to);
    style.nout = parse_layouts(s, "out", style.out_from, style.out_to);
    style.loc = parse_loc(s);
    return style;
}

static Unit parse_unit(Parser *s)
{
    const char *const words[] = {"paths", "class",
                                 option_name(OPTION_min_params), NULL};
    Unit u = {.replicate_axis = -1};
    if (parse_take_key(s, "axes")) {
        u.axes = parse_axes(s);
    } else {
        parse_expect_key(s, "axis");
        u.axes = 1u << parse_axis(s);
    }
    if (parse_take_key(s, "replicate"))
        u.replicate_axis = parse_axis(s);
    u.kind = (UnitKind)parse_choice(s, words, "what the unit holds");
    if (u.kind == UNIT_PATHS) {
        u.npaths = parse_strings(s, &u.path);
    } else {
        parse_expect(s, '=');
        if (u.kind == UNIT_EVERY)
            u.class = parse_string(s);
        else
            u.min_params = parse_int(s);
    }
    parse_options(s, SCOPE_FULLY_SHARD, &u);
    u.loc = parse_loc(s);
    return u;
}

static Checkpoint parse_checkpoint(Parser *s)
{
    static const char *const words[] = {"paths", "class", NULL};
    Checkpoint c = {0};
    if (parse_choice(s, words, "what is recomputed") == 0) {
        c.npaths = parse_strings(s, &c.path);
    } else {
        parse_expect(s, '=');
        c.class = parse_string(s);
    }
    parse_options(s, SCOPE_CHECKPOINT, &c);
    c.loc = parse_loc(s);
    return c;
}

static void parse_offload(Parser *s, PlanSpec *plan)
{
    const char *words[MAX_OFFLOADS + 1] = {NULL};
    for (int k = 0; k < MAX_OFFLOADS; k++)
        words[k] = option_word(OPTION_offload, k);
    do
        plan->offload |= 1u << parse_choice(s, words, "what is offloaded");
    while (!s->failed && s->tok.kind == TK_WORD && !s->tok.first);
    plan->offload_loc = parse_loc(s);
}

void parse_plan(Parser *s)
{
    PlanSpec *plan = &s->p->plan;
    VEC(Style) styles = {0};
    VEC(Unit) units = {0};
    VEC(Checkpoint) checkpoints = {0};
    plan->name = parse_string(s);
    parse_expect_key(s, "axes");
    plan->tensor_axes = parse_axes(s);
    plan->loc = parse_loc(s);
    while (!s->failed)
        if (parse_take_word(s, "style")) {
            Style style = parse_style(s);
            vec_push(s->arena, &styles, style);
        } else if (parse_take_word(s, "unit")) {
            Unit unit = parse_unit(s);
            vec_push(s->arena, &units, unit);
        } else if (parse_take_word(s, clause_name(CL_CHECKPOINT))) {
            Checkpoint checkpoint = parse_checkpoint(s);
            vec_push(s->arena, &checkpoints, checkpoint);
        } else if (parse_take_word(s, clause_name(CL_OFFLOAD))) {
            parse_offload(s, plan);
        } else {
            break;
        }
    plan->style = styles.at;
    plan->nstyles = styles.n;
    plan->unit = units.at;
    plan->nunits = units.n;
    plan->checkpoint = checkpoints.at;
    plan->ncheckpoints = checkpoints.n;
}
