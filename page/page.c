/* page.c: fills the template of the page with its style, data and scripts; see page.h. */
#include "page/page.h"

#include <stdlib.h>
#include <string.h>

#include "base/bug.h"
#include "base/embedded.h"
#include "page/fields.h"
#include "report/json.h"

static const char plan_tag[] = "<script type=\"application/json\" class=\"plan\">";
static const char comparison_tag[] =
    "<script type=\"application/json\" id=\"comparison\">";
static const char end_tag[] = "</script>";

/* ---- the template -------------------------------------------------------- */

static const EmbeddedFile *web_file(const char *name, size_t length)
{
    for (const EmbeddedFile *f = page_files; f->name; f++) {
        const char *base = strrchr(f->name, '/');
        base = base ? base + 1 : f->name;
        if (strlen(base) == length && strncmp(base, name, length) == 0)
            return f;
    }
    bug("page: no file '%.*s' is embedded", (int)length, name);
}

static void print_scripts(Out *o)
{
    const EmbeddedFile *order = web_file("order", strlen("order"));
    for (const char *line = order->text; *line;) {
        size_t n = strcspn(line, "\n");
        const EmbeddedFile *f = n ? web_file(line, n) : NULL;
        if (f)
            out_bytes(o, f->text, f->size);
        line += n + (line[n] == '\n');
    }
}

/* Prints JSON such that no text in it ends the element or begins another. */
static void print_data(Out *o, const char *tag, const char *json)
{
    out(o, "%s", tag);
    for (const char *from = json; *from;) {
        size_t n = strcspn(from, "<");
        out_bytes(o, from, n);
        if (from[n])
            out(o, "\\u003c");
        from += n + (from[n] != 0);
    }
    out(o, "%s\n", end_tag);
}

static void print_page(Out *o, const char *const *plan, int plans, const char *comparison)
{
    const EmbeddedFile *page = web_file("page.html", strlen("page.html"));
    for (const char *line = page->text; *line;) {
        size_t n = strcspn(line, "\n");
        const char *word = arena_strndup(o->arena, line, n);
        if (strcmp(word, "<!-- style -->") == 0) {
            const EmbeddedFile *css = web_file("page.css", strlen("page.css"));
            out(o, "<style>\n%s</style>\n", css->text);
        } else if (strcmp(word, "<!-- data -->") == 0) {
            for (int i = 0; i < plans; i++)
                print_data(o, plan_tag, plan[i]);
            if (comparison)
                print_data(o, comparison_tag, comparison);
        } else if (strcmp(word, "<!-- script -->") == 0) {
            out(o, "<script>\n");
            print_scripts(o);
            out(o, "</script>\n");
        } else {
            out(o, "%s\n", word);
        }
        line += n + (line[n] == '\n');
    }
}

/* ---- sources, and the machine -------------------------------------------- */

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static void sources(Out *o, const Program *p)
{
    const Source *s;
    out(o, "    \"sources\": [");
    bool first = true;
    for (uint16_t i = 1; (s = diag_source_at(p->diag, i)); i++) {
        if (s->command || !s->text)
            continue;
        out(o, "%s      {", first ? "\n" : ",\n");
        json_text(o, "name", base_name(s->name));
        json_text(o, "text", s->text);
        out(o, "}");
        first = false;
    }
    out(o, "\n    ],\n");
}

static void streams(Out *o, const Program *p)
{
    out(o, "    \"streams\": [");
    for (int i = 0; i < p->streams; i++) {
        out(o, i ? ", " : "");
        out_json_string(o, stream_name(i));
    }
    out(o, "],\n");
}

static void print_constant(void *context, const char *name, const char *unit,
                           const char *meaning, const Constant *c)
{
    Out *o = context;
    out(o, "%s        {", o->text[o->size - 1] == '[' ? "\n" : ",\n");
    json_text(o, "name", name);
    json_text(o, "unit", unit);
    json_text(o, "meaning", meaning);
    json_real(o, "value", c->value);
    json_real(o, "spread", c->spread);
    json_text(o, "from", c->from);
    json_text(o, "date", c->date);
    out(o, "}");
}

static void machine(Out *o, const Forecast *f)
{
    if (!f) {
        out(o, "    \"machine\": null,\n");
        return;
    }
    out(o, "    \"machine\": {");
    json_text(o, "name", f->machine->name);
    json_text(o, "description", f->machine->description);
    json_text(o, "target", f->machine->target);
    out(o, ",\n      \"constants\": [");
    machine_each_constant(f->machine, o->arena, print_constant, o);
    out(o, "\n      ]\n    },\n");
}

/* ---- the page ------------------------------------------------------------ */

/* The plan's JSON with the field "page". */
static const char *plan_json(Arena *a, const Program *p, const TargetInfo *t,
                             const Warnings *warnings, const Forecast *f)
{
    Out o;
    int n;
    out_init(&o, a);
    report_json(&o, p, t, warnings, f);
    const Statement *statement = statements_of(p, &n);
    while (o.size && o.text[o.size - 1] != '}')
        o.size--;
    o.size--; /* the brace that ends the plan */
    out(&o, ",\n  \"page\": {\n");
    sources(&o, p);
    streams(&o, p);
    machine(&o, f);
    page_memory(&o, p, statement, n);
    page_statements(&o, p, f);
    page_timeline(&o, p, f);
    page_walk(&o, p, f);
    out(&o, "  }\n}\n");
    return o.text;
}

void page_emit(Out *o, const Program *p, const TargetInfo *t, const Warnings *warnings,
               const Forecast *f)
{
    const char *plan = plan_json(o->arena, p, t, warnings, f);
    print_page(o, &plan, 1, NULL);
}

const char *page_plan(Arena *a, const char *text, size_t size, size_t *length)
{
    const char *copy = arena_strndup(a, text, size), *begin = strstr(copy, plan_tag);
    const char *end = begin ? strstr(begin, end_tag) : NULL;
    if (!end || strstr(end, plan_tag))
        return NULL;
    begin += strlen(plan_tag);
    *length = (size_t)(end - begin);
    return arena_strndup(a, begin, *length);
}

void page_emit_two(Out *o, const char *const plan[2], const char *comparison)
{
    print_page(o, plan, 2, comparison);
}
