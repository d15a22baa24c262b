/* syntax_error.c: words the message of a syntax error.
 *
 *   unexpected ';', expected a name
 *
 * The parser gives the set of expected tokens. The message groups them: the
 * tokens that begin an expression become "an expression", and operators are
 * omitted unless nothing else is expected. A help text covers the common
 * mistakes: Python syntax, an unclosed bracket, a misspelled keyword.
 */
#include <ctype.h>
#include <string.h>

#include "base/out.h"
#include "base/text.h"
#include "frontend/syntax/parser.h"

enum { MAX_SYMBOLS = 128, MAX_SAID = 10 };

typedef struct Expected {
    const char *name[MAX_SYMBOLS];
    int n;
} Expected;

static const char *const expression_start[] = {
    "an integer", "a number", "a string", "a name", "'true'", "'false'",
    "'none'",     "'not'",    "'-'",      "'('",    NULL,
};
static const char *const operators[] = {
    "'or'", "'and'", "'=='", "'!='", "'<'", "'<='", "'>'",
    "'>='", "'+'",   "'-'",  "'*'",  "'/'", "'%'",  "'@'",
    "'**'", "'.'",   "'['",  "'('",  NULL,
};
/* Keywords that are also names: the message "a name" includes them. */
static const char *const contextual[] = {
    "'module'",      "'model'",      "'function'", "'plan'",
    "'train'",       "'param'",      "'buffer'",   "'state'",
    "'update'",      "'tie'",        "'forward'",  "'in'",
    "'int'",         "'parallelize'", "'fully_shard'", "'checkpoint'",
    "'freeze'",      "'offload'",    "'pipeline'", "'context'", "'expert_parallel'",
    "'names'",       "'every'",      NULL,
};

static bool in_set(const char *const *set, const char *name)
{
    for (; *set; set++)
        if (strcmp(*set, name) == 0)
            return true;
    return false;
}

static bool has(const Expected *e, const char *name)
{
    return row_find(e->name, e->n, name);
}

static void drop(Expected *e, const char *const *set)
{
    int kept = 0;
    for (int i = 0; i < e->n; i++)
        if (!in_set(set, e->name[i]))
            e->name[kept++] = e->name[i];
    e->n = kept;
}

static void put_first(Expected *e, const char *name)
{
    memmove(e->name + 1, e->name, sizeof *e->name * (size_t)e->n);
    e->name[0] = name;
    e->n++;
}

static const char *const text_end[] = {"the end of the file", NULL};
static const char *const line_end[] = {"the end of the line", NULL};

static Expected summarise(const Parser *p, const char *const *expected, int n)
{
    Expected e = {.n = 0};
    for (int i = 0; i < n && i < MAX_SYMBOLS - 2; i++)
        e.name[e.n++] = expected[i];
    if (p->defining && has(&e, line_end[0]))
        drop(&e, line_end);
    else if (!p->defining && e.n > 1)
        drop(&e, text_end);
    if (has(&e, "a name"))
        drop(&e, contextual);
    if (has(&e, "'+'")) {
        drop(&e, operators);
        if (e.n == 0)
            put_first(&e, "an operator");
    } else if (has(&e, "a name") && has(&e, "a string")) {
        drop(&e, expression_start);
        put_first(&e, "an expression");
    } else if (has(&e, "a name")) {
        static const char *const name[] = {"a name", NULL};
        drop(&e, name);
        put_first(&e, "a name");
    }
    return e;
}

/* The text of a -D option has no lines and no file. */
static const char *name_of_end(const Parser *p, const char *name)
{
    bool end = strcmp(name, *text_end) == 0 || strcmp(name, *line_end) == 0;
    return p->defining && end ? "the end of the definition" : name;
}

static void out_expected(Out *o, const Parser *p, const Expected *e)
{
    if (e->n == 0 || e->n > MAX_SAID)
        return;
    for (int i = 0; i < e->n; i++)
        out(o, "%s%s",
            i == 0          ? ", expected "
            : i == e->n - 1 ? " or "
                            : ", ",
            name_of_end(p, e->name[i]));
}

/* The token as it is written in the text. */
static void out_unexpected(Out *o, const Parser *p, const char *name)
{
    const char *text = p->text + p->token_begin;
    size_t size = p->offset - p->token_begin;
    static const char the[] = "the ";
    if (starts_with(name, the)) {
        out(o, "unexpected %s", name_of_end(p, name) + strlen(the));
        return;
    }
    if (size == 0 || (unsigned char)text[0] < 0x20 || text[0] == 0x7f) {
        out(o, "unexpected byte 0x%02x", size ? (unsigned)text[0] : 0);
        return;
    }
    out(o, "unexpected '");
    out_bytes(o, text, size < 40 ? size : 40);
    out(o, "%s'", size < 40 ? "" : "…");
}

/* "'module'" without its quotes; NULL if the symbol is not a keyword. */
static const char *keyword(Arena *a, const char *name)
{
    size_t n = strlen(name);
    if (n < 3 || name[0] != '\'' || !isalpha((unsigned char)name[1]))
        return NULL;
    return arena_strndup(a, name + 1, n - 2);
}

static void suggest_keyword(Parser *p, const char *const *expected, int n)
{
    const char *words[MAX_SYMBOLS];
    int nwords = 0;
    for (int i = 0; i < n && nwords < MAX_SYMBOLS; i++) {
        words[nwords] = keyword(p->arena, expected[i]);
        nwords += words[nwords] != NULL;
    }
    const char *seen = arena_strndup(p->arena, p->text + p->token_begin,
                                     p->offset - p->token_begin);
    const char *near = diag_near_miss(seen, words, nwords);
    if (near)
        diag_help(p->diag, "did you mean '%s'?", near);
}

/* Calls of PyTorch and the clauses of a plan that replace them. */
static const struct {
    const char *word, *help;
} foreign_words[] = {
    {"parallelize_module", "write 'parallelize AXIS { path: Style }' in a "
                           "plan"},
    {"FSDP", "write 'fully_shard AXIS { path }' in a plan"},
    {"FullyShardedDataParallel", "write 'fully_shard AXIS { path }' in a "
                                 "plan"},
    {"DDP", "each axis of a plan that no 'parallelize' names splits "
            "the batch"},
    {"DistributedDataParallel", "each axis of a plan that no 'parallelize' "
                                "names splits the batch"},
    {"checkpoint_wrapper", "write 'checkpoint { path }' in a plan"},
    {"import", "a file has no imports: begin with 'model NAME { … }'"},
    {"class", "write 'module NAME { … }', and 'model NAME { … }' for the whole "
              "network"},
    {"mesh", "a plan declares the axes, as in 'plan p(dp, tp)'; --mesh "
             "gives their sizes"},
};

static bool help_foreign(Parser *p)
{
    const char *seen = p->text + p->token_begin;
    size_t size = p->offset - p->token_begin;
    for (size_t i = 0; i < sizeof foreign_words / sizeof *foreign_words; i++) {
        const char *word = foreign_words[i].word;
        if (strlen(word) != size || memcmp(word, seen, size) != 0)
            continue;
        diag_help(p->diag, "%s", foreign_words[i].help);
        return true;
    }
    return false;
}

static bool expects(const char *const *expected, int n, const char *name)
{
    return row_find(expected, n, name);
}

/* Whether the next line with text begins with '{'. */
static bool brace_follows(const Parser *p)
{
    size_t at = p->offset;
    while (at < p->size && isspace((unsigned char)p->text[at]))
        at++;
    return at < p->size && p->text[at] == '{';
}

/* Whether the line has the word, and no other, before the token. */
static bool follows_word(const Parser *p, const char *word)
{
    size_t end = p->token_begin, n = strlen(word);
    while (end > 0 && (p->text[end - 1] == ' ' || p->text[end - 1] == '\t'))
        end--;
    size_t begin = end;
    while (begin > 0 && p->text[begin - 1] != '\n')
        begin--;
    while (begin < end && isspace((unsigned char)p->text[begin]))
        begin++;
    return end - begin == n && memcmp(p->text + begin, word, n) == 0;
}

/* "state w[4] = zeros" in a forward: these words begin members of a module. */
static bool help_member(Parser *p, const char *const *expected, int n)
{
    static const char *const members[] = {"param", "buffer", "state", "tie"};
    for (size_t i = 0; i < sizeof members / sizeof *members; i++)
        if (expects(expected, n, "'='") && follows_word(p, members[i])) {
            diag_help(p->diag, "'%s' declares a member of the module: write it beside "
                      "'forward', not in it", members[i]);
            return true;
        }
    return false;
}

/* Suggests a correction for a common mistake. */
static void give_help(Parser *p, const char *name, const char *const *expected,
                      int n)
{
    char c = p->token_begin < p->size ? p->text[p->token_begin] : 0;
    char before = p->token_begin > 0 ? p->text[p->token_begin - 1] : 0;
    char after = p->offset < p->size ? p->text[p->offset] : 0;
    const char *foreign = foreign_syntax(p);
    if (help_foreign(p) || help_member(p, expected, n))
        return;
    if (p->defining && expects(expected, n, "'='")) {
        diag_help(p->diag, "write -D NAME=VALUE");
        return;
    }
    if (foreign) {
        diag_help(p->diag, "%s", foreign);
        return;
    }
    if (strcmp(name, "a string") == 0 && expects(expected, n, "a name") &&
        !expects(expected, n, "a number"))
        diag_help(p->diag, "write names and paths without quotes");
    else if (strcmp(name, line_end[0]) == 0 && brace_follows(p))
        diag_help(p->diag, "write the '{' at the end of this line");
    else if (strcmp(name, "'else'") == 0)
        diag_help(p->diag, "write 'else' on the line of the '}' before it");
    else if (c == ',' && p->in_plan && expects(expected, n, "':'"))
        diag_help(p->diag, "write several paths in brackets: [a, b]: …");
    else if (c == ':' && expects(expected, n, "'{'"))
        diag_help(p->diag, "write a block in braces: { … }");
    else if (c == '&' || c == '|' || c == '!')
        diag_help(p->diag, "the logical operators are 'and', 'or' and 'not'");
    else if (c == ';')
        diag_help(p->diag, "the end of the line ends a statement");
    else if (c == '"' && strcmp(name, "a string") != 0)
        diag_help(p->diag, "close the string on the same line");
    else if (c == '\'')
        diag_help(p->diag, "write strings in double quotes");
    else if (c == '/' && after == '/')
        diag_help(p->diag, "comments start with '#'");
    else if (c == '.' &&
             (isdigit((unsigned char)before) || isdigit((unsigned char)after)))
        diag_help(p->diag, "write digits on both sides of the dot");
    else if (strcmp(name, "a name") == 0)
        suggest_keyword(p, expected, n);
}

/* Notes the innermost open bracket if the text ends, or if its closing bracket
 * is expected on a later line. */
static bool note_unclosed(Parser *p, Loc loc, const char *unexpected,
                          const Expected *e)
{
    if (p->nnest == 0)
        return false;
    char open = p->nest[p->nnest - 1].open;
    Loc at = p->nest[p->nnest - 1].loc;
    bool wants = has(e, open == '(' ? "')'" : "']'") && open != '{';
    bool ended = strcmp(unexpected, *text_end) == 0;
    if (!ended && !(wants && at.line < loc.line))
        return false;
    if (open == '{' && p->unclosed.line)
        at = p->unclosed;
    diag_note(p->diag, at, "this '%c' is not closed", open);
    return true;
}

/* The keyword at the start of the token's line, if it begins a declaration of
 * the file while a brace of an earlier line is open; NULL if not. */
static const char *declaration_in_block(const Parser *p, Loc loc)
{
    size_t begin = p->token_begin;
    if (p->nnest == 0 || p->nest[0].open != '{' ||
        p->nest[0].loc.line >= loc.line)
        return NULL;
    while (begin > 0 && p->text[begin - 1] != '\n')
        begin--;
    return declaration_at(p, begin);
}

/* Reports an unclosed block and ends the parse: the structure of the rest of
 * the text is unknown. */
static bool unclosed_block(Parser *p, Loc loc)
{
    const char *word = declaration_in_block(p, loc);
    if (!word)
        return false;
    int i = p->nnest - 1;
    while (i > 0 && p->nest[i].open != '{')
        i--;
    diag_error(p->diag, p->unclosed.line ? p->unclosed : p->nest[i].loc,
               "this '{' is not closed");
    loc.col = 1;
    loc.len = (uint16_t)strlen(word);
    diag_note(p->diag, loc, "'%s' begins here, inside the block", word);
    other_plan_note(p);
    p->stopped = true;
    return true;
}

/* "1 < 2 < 3": an operator may follow, but no second comparison. */
static bool chained_comparison(Parser *p, Loc loc, const char *unexpected,
                               const char *const *expected, int n)
{
    static const char *const comparisons[] = {"'=='", "'!='", "'<'", "'<='",
                                              "'>'",  "'>='", NULL};
    if (!in_set(comparisons, unexpected) || !expects(expected, n, "'+'"))
        return false;
    diag_error(p->diag, loc, "comparisons do not chain");
    diag_help(p->diag, "join them with 'and': a < b and b < c");
    return true;
}

static void unexpected_token(Parser *p, Loc loc, const char *unexpected,
                             const char *const *expected, int n)
{
    Out o;
    out_init(&o, p->arena);
    out_unexpected(&o, p, unexpected);
    Expected e = summarise(p, expected, n);
    out_expected(&o, p, &e);
    diag_error(p->diag, loc, "%s", o.text);
    if (!note_unclosed(p, loc, unexpected, &e))
        give_help(p, unexpected, expected, n);
}

void syntax_error(Parser *p, Loc loc, const char *unexpected,
                  const char *const *expected, int n)
{
    if (p->stopped || unclosed_block(p, loc))
        return;
    if (other_plan_reported(p)) {
        lexer_recover(p);
        return;
    }
    if (!chained_comparison(p, loc, unexpected, expected, n))
        unexpected_token(p, loc, unexpected, expected, n);
    other_plan_note(p);
    lexer_recover(p);
    int errors = diag_error_count(p->diag) - p->errors_before;
    p->stopped = errors >= MAX_SYNTAX_ERRORS;
}
