/* lower_names.c: resolves the block `names hf { … }`: the tensors of Hugging
 * Face's files that hold the parameters.
 *
 * A line names a parameter, or a module with all its parameters; of several
 * lines that match a parameter, the one with the longest path counts, then the
 * most specific one. The rest of the parameter's name stays the same:
 *
 *   layers.*.wq -> model.layers.*.self_attn.q_proj
 *   layers.0-3.wq.weight: the tensors model.layers.*.self_attn.q_proj.weight
 *
 * The mapping is checked in both directions: each parameter has a line, each
 * line a parameter, and no two parameters have the same place in a tensor.
 */
#include <ctype.h>
#include <string.h>

#include "frontend/names/names.h"
#include "frontend/plan/plan.h"

/* A name of a parameter, matched by path `path` of an item. */
typedef struct Match {
    const NameItem *item;
    int path, depth, specificity;
} Match;

/* A tensor and its parameter, to find overlaps. */
typedef struct Taken {
    const char *name; /* with the range of its layers: "a.0-3.w" */
    int param;
    const NameItem *item;
} Taken;

typedef struct Names {
    Lower *l;
    const NamesDecl *decl;
    VEC(Taken) taken;
    bool **used; /* by item and path */
    int unmapped;
} Names;

/* ---- matching ------------------------------------------------------------ */

/* Segments 0 … n-1 of a name. */
static const char *first_segments(Arena *a, const char *name, int n)
{
    size_t size = 0;
    if (n > 0) {
        const char *last = path_segment(name, n - 1, &size);
        size += (size_t)(last - name);
    }
    return arena_strndup(a, name, size);
}

static Match find_item(const Names *n, const char *name)
{
    Match best = {.depth = -1};
    for (int i = 0; i < n->decl->item.n; i++) {
        const NameItem *item = &n->decl->item.at[i];
        for (int k = 0; k < item->npaths; k++) {
            const char *pattern = item->path[k].text;
            int depth = path_depth(pattern);
            int specificity = path_specificity(pattern);
            if (depth > path_depth(name) || depth < best.depth ||
                (depth == best.depth && specificity <= best.specificity))
                continue;
            const char *head = first_segments(n->l->arena, name, depth);
            if (depth == 0 || path_matches(pattern, head))
                best = (Match){item, k, depth, specificity};
        }
    }
    return best;
}

static bool is_array_segment(const char *s)
{
    return *s == '*' || isdigit((unsigned char)*s);
}

static void put_segment(Out *o, const char *s, size_t size, bool stacked)
{
    if (stacked && is_array_segment(s))
        out(o, "*");
    else
        out(o, "%.*s", (int)size, s);
}

/* The text with each '*' replaced by the segment of `name` that the '*' of
 * `pattern` stands for, then the rest of the name. With `stacked` segments that
 * name the elements of an array become '*'. */
static const char *fill_stars(Arena *a, const char *text, const char *pattern,
                              const char *name, bool stacked)
{
    Out o;
    size_t size;
    int at = 0, depth = path_depth(pattern), all = path_depth(name);
    out_init(&o, a);
    for (const char *c = text; *c; c++) {
        if (*c != '*') {
            out(&o, "%c", *c);
            continue;
        }
        while (at < depth && *path_segment(pattern, at, &size) != '*')
            at++;
        const char *s = path_segment(name, at++, &size);
        put_segment(&o, s, size, stacked);
    }
    for (int i = depth; i < all; i++) {
        const char *s = path_segment(name, i, &size);
        out(&o, "%s", o.size > 0 ? "." : "");
        put_segment(&o, s, size, stacked);
    }
    return o.size > 0 ? o.text : "";
}

/* ---- one parameter ------------------------------------------------------- */

/* The parameters that are parts of the tensor of `name`, in order; false after
 * an error. */
static bool find_parts(Names *n, const Match *m, const char *name,
                       const Param **part)
{
    Lower *l = n->l;
    const char *pattern = m->item->path[m->path].text;
    for (int i = 0; i < m->item->npaths; i++) {
        const Path *path = &m->item->path[i];
        const char *other =
            fill_stars(l->arena, path->text, pattern, name, false);
        int index = ir_param_index(l->p, other);
        Match own = find_item(n, other);
        if (index < 0 || own.item != m->item || own.path != i)
            return diag_error(l->diag, path->loc, "a part is missing: '%s' "
                              "needs a parameter '%s'%s", name, other,
                              index < 0 ? "" : ", which another line names");
        part[i] = &l->p->param.at[index];
    }
    return true;
}

/* Reports a tensor that another parameter has. */
static bool check_tensor_taken(Names *n, const Taken *t)
{
    Lower *l = n->l;
    for (int i = 0; i < n->taken.n; i++) {
        const Taken *other = &n->taken.at[i];
        bool parts = other->item == t->item && t->item->npaths > 1 &&
                     strcmp(other->name, t->name) == 0;
        if (parts || other->param == t->param ||
            !path_overlaps(other->name, t->name))
            continue;
        diag_error(l->diag, t->item->loc, "'%s' and '%s' are both the tensor "
                   "'%s'", l->p->param.at[other->param].name,
                   l->p->param.at[t->param].name, t->name);
        if (other->item != t->item)
            diag_note(l->diag, other->item->loc, "the first is here");
        return false;
    }
    return true;
}

/* The tensor for one name of a parameter; false: no line matches, or an error,
 * which sets *fault. */
static bool find_tensor(Names *n, int param, const char *name, FileTensor *to,
                        bool *fault)
{
    Lower *l = n->l;
    Match m = find_item(n, name);
    if (!m.item)
        return false;
    const char *pattern = m.item->path[m.path].text;
    const char *file = m.item->file.text;
    const Param **part = NEW_ARRAY(l->arena, const Param *, m.item->npaths);
    Taken taken = {fill_stars(l->arena, file, pattern, name, false), param,
                   m.item};
    n->used[m.item - n->decl->item.at][m.path] = true;
    *to = (FileTensor){
        .name = fill_stars(l->arena, file, pattern, name, true)};
    part[0] = &l->p->param.at[param];
    *fault = (m.item->npaths > 1 && !find_parts(n, &m, name, part)) ||
             !lower_layouts(l, m.item, part, m.item->npaths, m.path, to) ||
             !check_tensor_taken(n, &taken);
    vec_push(l->arena, &n->taken, taken);
    return !*fault;
}

static void map_param(Names *n, int param)
{
    enum { MOST_LISTED = 5 };
    Lower *l = n->l;
    Param *p = &l->p->param.at[param];
    VEC(FileTensor) files = {0};
    bool fault = false;
    for (int i = -1; i < p->nalias && !fault; i++) {
        const char *name = i < 0 ? p->name : p->alias[i];
        FileTensor f;
        if (find_tensor(n, param, name, &f, &fault))
            vec_push(l->arena, &files, f);
        else if (i < 0 && !fault && n->unmapped++ < MOST_LISTED)
            diag_error(l->diag, n->decl->name.loc, "names '%s' have no line "
                       "for parameter '%s'", n->decl->name.name, name);
    }
    p->file = files.at;
    p->nfile = files.n;
}

static void check_used(const Names *n)
{
    for (int i = 0; i < n->decl->item.n; i++)
        for (int k = 0; k < n->decl->item.at[i].npaths; k++) {
            const Path *path = &n->decl->item.at[i].path[k];
            if (!n->used[i][k] && lower_path_known(n->l, path, true))
                diag_error(n->l->diag, path->loc, "other lines name all "
                           "parameters of '%s'", path->text);
        }
}

/* ---- config.json --------------------------------------------------------- */

static void print_value(Lower *l, Out *o, const Setting *s, Datum d)
{
    switch (d.kind) {
    case DATUM_NONE: out(o, "null"); return;
    case DATUM_INT: out(o, "%lld", (long long)d.integer); return;
    case DATUM_BOOL: out(o, d.integer ? "true" : "false"); return;
    case DATUM_WORD: out_json_string(o, d.text); return;
    case DATUM_FLOAT: out_float(o, d.number); return;
    case DATUM_TUPLE:
        out(o, "[");
        for (int i = 0; i < d.nitems; i++) {
            out(o, "%s", i ? ", " : "");
            print_value(l, o, s, d.item[i]);
        }
        out(o, "]");
        return;
    case DATUM_POISON: case DATUM_INIT: case DATUM_TENSOR: case DATUM_MODULE:
    case DATUM_ARRAY: case DATUM_PARAM: case DATUM_BUFFER:
        break;
    }
    if (d.kind != DATUM_POISON)
        lower_error(l, s->value->range, NULL, "'%s' is %s: config.json has "
                    "numbers, strings, true, false, none and tuples of them",
                    s->name.name, datum_text(l->arena, d));
}

static const char *config_text(Lower *l, const NamesDecl *n)
{
    Out o;
    out_init(&o, l->arena);
    out(&o, "{");
    for (int i = 0; i < n->config.n; i++) {
        const Setting *s = &n->config.at[i];
        out(&o, "%s\n  ", i ? "," : "");
        out_json_string(&o, s->name.name);
        out(&o, ": ");
        print_value(l, &o, s, lower_expr(l, s->value));
    }
    out(&o, "\n}\n");
    return o.text;
}

void lower_names(Lower *l, const Instance *model)
{
    if (l->file->names.n == 0 || diag_error_count(l->diag) > 0)
        return;
    Names n = {.l = l, .decl = l->file->names.at[0]};
    Frame f;
    push_frame(l, &f, "names", n.decl->name.loc, NULL);
    f.members = true;
    f.locals = model->formals;
    n.used = NEW_ARRAY(l->arena, bool *, n.decl->item.n + 1);
    for (int i = 0; i < n.decl->item.n; i++)
        n.used[i] = NEW_ARRAY(l->arena, bool, n.decl->item.at[i].npaths);
    for (int i = 0; i < l->p->param.n; i++)
        map_param(&n, i);
    if (n.unmapped > 0)
        diag_help(l->diag, "%d parameter%s without a line; name each, or a "
                  "module that contains it", n.unmapped,
                  n.unmapped == 1 ? " is" : "s are");
    check_used(&n);
    if (n.decl->setting.n > 0)
        l->p->file_prefix = n.decl->setting.at[0].value->name;
    if (n.decl->config_word.name)
        l->p->file_config = config_text(l, n.decl);
    pop_frame(l);
}
