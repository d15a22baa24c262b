/* other_plan.c: reports syntax errors in a plan that --plan does not select as
 * warnings.
 *
 * The extent of such a plan is found in the text, by its braces. Errors inside
 * are reported as warnings, one for each plan, and pdl_parse_plan then parses
 * the file once more without the plan: its result never depends on how the
 * parser recovers from an error. A plan without a clear end, such as one with an
 * unclosed brace, is not skipped: its errors remain errors.
 */
#include <ctype.h>
#include <string.h>

#include "frontend/syntax/parser.h"

/* The offset after the string or comment at `at`, or after one character. */
static size_t next_offset(const Parser *p, size_t at)
{
    char c = p->text[at++];
    if (c != '#' && c != '"')
        return at;
    while (at < p->size && p->text[at] != '\n') {
        char d = p->text[at];
        if (c == '"' && d == '"')
            return at + 1;
        at += c == '"' && d == '\\' && at + 1 < p->size &&
              p->text[at + 1] != '\n';
        at++;
    }
    return at;
}

/* The offset after the plan's '}'; 0 if the header has no '{', the '}' is
 * missing or another declaration begins before it. */
static size_t end_of_plan(const Parser *p, size_t at)
{
    int braces = 0, parens = 0;
    while (at < p->size) {
        char c = p->text[at];
        at = next_offset(p, at);
        parens += (c == '(') - (c == ')');
        bool header = braces == 0 && parens <= 0;
        while (c == '\n' && header && at < p->size &&
               isspace((unsigned char)p->text[at]))
            at++; /* the '{' may be on a later line */
        if (c == '\n' && (header ? at == p->size || p->text[at] != '{'
                                 : declaration_at(p, at) != NULL))
            return 0;
        braces += (c == '{') - (c == '}');
        if (c == '}' && braces <= 0)
            return braces == 0 ? at : 0;
    }
    return 0;
}

void other_plan_begin(Parser *p, const char *name, Loc loc)
{
    OtherPlan *o = &p->other;
    *o = (OtherPlan){.begin = p->plan_begin, .name = loc};
    if (!p->selected || strcmp(name, p->selected) == 0)
        return;
    o->text = name;
    o->end = end_of_plan(p, p->offset);
    o->warnings = diag_warning_count(p->diag);
    diag_demote(p->diag, o->end > 0);
}

bool other_plan_reported(const Parser *p)
{
    return p->other.end && diag_warning_count(p->diag) > p->other.warnings;
}

void other_plan_note(Parser *p)
{
    const OtherPlan *o = &p->other;
    if (o->text && p->in_plan && !o->end)
        diag_note(p->diag, o->name, "the error is in plan '%s', which --plan "
                  "does not select: without a clear end it cannot be skipped",
                  o->text);
}

void other_plan_end(Parser *p)
{
    OtherPlan *o = &p->other;
    if (!o->end)
        return;
    diag_demote(p->diag, false);
    if (other_plan_reported(p)) {
        diag_note(p->diag, o->name, "plan '%s' is ignored: --plan selects '%s'",
                  o->text, p->selected);
        vec_push(p->arena, &p->broken, *o);
    }
    *o = (OtherPlan){0};
}

const char *other_plans_removed(Arena *a, const Parser *p)
{
    char *text = arena_strndup(a, p->text, p->size);
    for (int i = 0; i < p->broken.n; i++)
        for (size_t k = p->broken.at[i].begin; k < p->broken.at[i].end; k++)
            if (text[k] != '\n')
                text[k] = ' ';
    return text;
}

const char *declaration_at(const Parser *p, size_t begin)
{
    static const char *const words[] = {"module ", "model ", "function ",
                                        "plan ", "train ", "names "};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        size_t n = strlen(words[i]);
        if (strncmp(p->text + begin, words[i], n) != 0)
            continue;
        char next = p->text[begin + n]; /* a name, or the block of train */
        if (isalpha((unsigned char)next) || next == '{')
            return arena_strndup(p->arena, words[i], n - 1);
    }
    return NULL;
}
