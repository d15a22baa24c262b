/* loops.c: builds the explicit form of a kernel (loops.h), finds the names that
 * it uses, and folds arithmetic on C text. */
#include "codegen/kernel/loops.h"

#include <string.h>

Stmt *stmt_add(Arena *a, Stmt *parent, Stmt s)
{
    Stmt *copy = NEW(a, Stmt);
    *copy = s;
    copy->parent = parent;
    if (parent->last)
        parent->last->next = copy;
    else
        parent->first = copy;
    return parent->last = copy;
}

/* ---- names --------------------------------------------------------------- */

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
           (c >= '0' && c <= '9');
}

static bool contains(const char *text, const char *name)
{
    size_t n = strlen(name);
    for (const char *at = text; at && (at = strstr(at, name)); at++)
        if ((at == text || !is_letter(at[-1])) && !is_letter(at[n]))
            return true;
    return false;
}

bool stmt_uses(const Stmt *s, const char *name)
{
    if (contains(s->text, name) || contains(s->to, name) ||
        contains(s->name, name) || contains(s->array, name) ||
        contains(s->top, name))
        return true;
    for (const Stmt *in = s->first; in; in = in->next)
        if (!in->unused && stmt_uses(in, name))
            return true;
    return false;
}

/* Visits statements from the last to the first, because a LET that is dropped
 * may have been the only use of another. */
static void drop_unused(Stmt *s)
{
    if (!s)
        return;
    drop_unused(s->next);
    drop_unused(s->first);
    s->unused = s->code == STMT_LET;
    for (const Stmt *later = s->next; later && s->unused; later = later->next)
        s->unused = later->unused || !stmt_uses(later, s->name);
}

void stmt_drop_unused(Stmt *function)
{
    drop_unused(function->first);
}

bool stmt_is_parallel(const Stmt *s)
{
    bool any = s->loop == LOOP_PARALLEL;
    for (const Stmt *in = s->first; in; in = in->next)
        any |= stmt_is_parallel(in);
    return any;
}

/* ---- arithmetic ---------------------------------------------------------- */

/* The sum that is being folded: its text without the last term, NULL: none; the
 * sign before the last term, and that term, NULL: none. */
typedef struct Sum {
    Arena *a;
    const char *sum, *term;
    char sign;
} Sum;

static bool is(const char *text, const char *number)
{
    return strcmp(text, number) == 0;
}

static void end_term(Sum *s)
{
    if (!s->sum || (is(s->sum, "0") && s->sign == '+'))
        s->sum = s->term;
    else if (!is(s->term, "0"))
        s->sum = arena_printf(s->a, "%s %c %s", s->sum, s->sign, s->term);
}

static void add_word(Sum *s, char operator, const char *x)
{
    if (operator == '+' || operator == '-') {
        end_term(s);
        s->sign = operator;
        s->term = x;
    } else if ((is(x, "1") && operator == '%') ||
               (is(x, "0") && operator == '*')) {
        s->term = "0";
    } else if (is(s->term, "1") && operator == '*') {
        s->term = x;
    } else if (!is(s->term, "0") && !is(x, "1")) {
        s->term = arena_printf(s->a, "%s %c %s", s->term, operator, x);
    }
}

/* The first byte outside of parentheses that is one of `ends`. */
static const char *find_end(const char *x, const char *ends)
{
    for (int depth = 0; *x && (depth || !strchr(ends, *x)); x++)
        depth += (*x == '(' || *x == '[') - (*x == ')' || *x == ']');
    return x;
}

static const char *slice(Arena *a, const char *from, const char *to)
{
    return arena_printf(a, "%.*s", (int)(to - from), from);
}

/* Folds the parts between the parentheses and commas of a word; drops
 * parentheses around a single word. */
static const char *fold_word(Arena *a, const char *word)
{
    size_t n = strcspn(word, "([");
    const char *open = word + n, *result = slice(a, word, open + !!*open);
    if (!*open)
        return word;
    const char *close = find_end(open + 1, ")]");
    for (const char *x = open + 1; x < close;) {
        const char *end = find_end(x, ",)]");
        const char *inside = text_fold(a, slice(a, x, end));
        bool whole = !n && *open == '(' && !close[1] && end == close;
        if (whole && x == open + 1 && !strchr(inside, ' '))
            return inside;
        x = end + (*end == ',') + (*end == ',' && end[1] == ' ');
        result = arena_printf(a, "%s%s%s", result, inside,
                              *end == ',' ? ", " : "");
    }
    return arena_printf(a, "%s%c%s", result, *close,
                        fold_word(a, close + !!*close));
}

const char *text_fold(Arena *a, const char *text)
{
    const char *result = "";
    Sum s = {.a = a};
    char operator = 0;
    if (!strchr(text, ' '))
        return text;
    for (const char *end; *text; text = end + (*end == ' ')) {
        end = find_end(text, " ");
        if (end - text == 1 && strchr("+-*/%", *text) && s.term) {
            operator = *text;
            continue;
        }
        const char *word = fold_word(a, slice(a, text, end));
        if (operator) {
            add_word(&s, operator, word);
        } else {
            if (s.term) {
                end_term(&s);
                result = arena_printf(a, "%s%s ", result, s.sum);
            }
            s = (Sum){.a = a, .term = word};
        }
        operator = 0;
    }
    if (s.term)
        end_term(&s);
    if (*result || *s.sum != '(' || find_end(s.sum + 1, ")")[1])
        return arena_printf(a, "%s%s", result, s.sum);
    return slice(a, s.sum + 1, find_end(s.sum + 1, ")"));
}
