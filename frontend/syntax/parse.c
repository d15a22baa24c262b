/* parse.c: parses the text of a file, or of a -D option, into its declarations.
 * The grammar is parse.y, the actions are in build.c.
 *
 * A file with syntax errors in a plan that --plan does not select is parsed once
 * more without the plan: the result never depends on how the parser recovers
 * from an error.
 */
#include <string.h>

#include "frontend/syntax/parse.tab.h"
#include "frontend/syntax/parser.h"

/* The text with blanks for the broken plans. */
static const char *other_plans_removed(Arena *a, const Parser *p)
{
    char *text = arena_strndup(a, p->text, p->size);
    for (int i = 0; i < p->broken.n; i++)
        for (size_t k = p->broken.at[i].begin; k < p->broken.at[i].end; k++)
            if (text[k] != '\n')
                text[k] = ' ';
    return text;
}

/* Text has no zero bytes. */
static bool is_text(Parser *p)
{
    const char *zero = memchr(p->text, 0, p->size);
    if (!zero)
        return true;
    Loc loc = {p->source, 1, 1, 1};
    for (const char *s = p->text; s < zero; s++) {
        loc.col = *s == '\n' ? 1 : loc.col + 1;
        loc.line += *s == '\n';
    }
    return diag_error(p->diag, loc, "this byte is zero: PDL files are text");
}

static bool parse(Parser *p, int start)
{
    p->errors_before = diag_error_count(p->diag);
    if (p->size > MAX_SOURCE)
        return diag_error(p->diag, (Loc){.file = p->source},
                          "the file is larger than %d MiB", MAX_SOURCE >> 20);
    if (!is_text(p))
        return false;
    p->start = start;
    p->defining = start == START_DEFINE;
    p->line = 1;
    p->last = NEWLINE; /* a token that ends no statement */
    lexer_open(p);
    int status = pdl_yyparse(p);
    other_plan_end(p);
    lexer_close(p);
    return status == 0 && diag_error_count(p->diag) == p->errors_before;
}

File *pdl_parse(Arena *a, Diag *d, uint16_t source)
{
    return pdl_parse_plan(a, d, source, NULL);
}

File *pdl_parse_plan(Arena *a, Diag *d, uint16_t source, const char *plan)
{
    const Source *s = diag_source_at(d, source);
    const char *text = s->text;
    Parser p;
    VEC(Ident) ignored = {0};
    bool fine, retry;
    do {
        p = (Parser){.arena = a, .diag = d, .source = source, .text = text,
                     .size = s->size, .col = 1, .selected = plan,
                     .file = NEW(a, File)};
        int before = diag_error_count(d);
        fine = parse(&p, START_FILE);
        retry = p.broken.n > 0 && diag_error_count(d) == before;
        if (retry)
            text = other_plans_removed(a, &p);
        for (int i = 0; retry && i < p.broken.n; i++)
            vec_push(a, &ignored, ((Ident){.name = p.broken.at[i].text,
                                           .loc = p.broken.at[i].name}));
    } while (retry);
    if (!fine)
        return NULL;
    p.file->source = source;
    for (int i = 0; i < ignored.n; i++)
        vec_push(a, &p.file->ignored, ignored.at[i]);
    p.file->refused = NEW(a, ExprSet);
    return p.file;
}

Setting *pdl_parse_define_at(Arena *a, Diag *d, uint16_t source, size_t begin,
                             size_t size)
{
    const Source *s = diag_source_at(d, source);
    Parser p = {.arena = a,
                .diag = d,
                .source = source,
                .text = s->text + begin,
                .size = size,
                .col = (uint32_t)begin + 1};
    return parse(&p, START_DEFINE) ? p.define : NULL;
}

Setting *pdl_parse_define(Arena *a, Diag *d, uint16_t source)
{
    const Source *s = diag_source_at(d, source);
    return pdl_parse_define_at(a, d, source, 0, s->size);
}
