/* lower_names.c: resolves the block `names hf { … }`: the tensors of Hugging
 * Face's files that hold the parameters.
 *
 * A line names a parameter, or a module with all its parameters; of several
 * lines that match a parameter, the one with the longest path counts, then the
 * most specific one. The rest of the parameter's name stays the same:
 *
 *   layers.*.wq -> model.layers.*.self_attn.q_proj
 *   layers.0-3.wq.weight: the tensors model.layers.*.self_attn.q_proj.weight
 *   pairs.*.global -> model.layers.2i+1: layers 1, 3, … of the file
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
    const char *name; /* with the range of its elements: "a.0-3.w" */
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

/* Fills the numbers of elements into a text for a parameter of a name that
 * matches a path of an item. */
typedef struct Filling {
    Lower *l;
    const Match *match;
    const char *name;
    int next;         /* the pattern's segment with the next number */
    Out o;
    /* For a tensor's name `o` has '*' for each number. */
    FileTensor *file; /* NULL: the text is the path of another parameter */
    const Param *param;
    Out elements;     /* … and this the numbers of all elements: "a.0-3.w" */
    bool fault;
} Filling;

static void put(Filling *f, const char *s, size_t size)
{
    out(&f->o, "%.*s", (int)size, s);
    out(&f->elements, "%.*s", (int)size, s);
}

/* Puts the number that index x has in a tensor's name, for the elements r of a
 * stack dim, or with -1 of dim 0. `whole`: it is a whole segment of the name. */
static void put_index(Filling *f, PathRange r, int stack, PathIndex x,
                      bool whole)
{
    FileTensor *to = f->file;
    PathRange numbers = {r.first * x.scale + x.offset,
                         r.last * x.scale + x.offset, r.step * x.scale};
    if (to->nindex == MAX_STACK) {
        diag_error(f->l->diag, f->match->item->file.loc, "'%s' has more than %d numbers",
                   f->match->item->file.text, MAX_STACK);
        f->fault = true;
        return;
    }
    if (numbers.first < 0) {
        diag_error(f->l->diag, f->match->item->file.loc, "'%s' is negative for "
                   "element %lld of '%s'", path_index_text(f->l->arena, x),
                   (long long)r.first, f->name);
        f->fault = true;
    }
    out(&f->o, "*");
    out(&f->elements, "%s",
        whole ? path_range_text(f->l->arena, numbers) : "*");
    to->stack[to->nindex] = stack;
    to->scale[to->nindex] = x.scale;
    to->offset[to->nindex++] = x.offset;
}

/* Puts a segment of the parameter's name: a name, or numbers of elements. */
static void put_segment(Filling *f, int segment, PathIndex x, bool whole)
{
    size_t size, other;
    int stack = 0;
    PathRange r;
    const char *s = path_segment(f->name, segment, &size);
    for (int i = 0; i < segment; i++)
        stack += is_array_segment(path_segment(f->name, i, &other));
    if (f->file && is_array_segment(s)) {
        if (!path_range(s, size, &r))
            r = (PathRange){0, f->param->type.stack[stack] - 1, 1};
        put_index(f, r, stack, x, whole);
        return;
    }
    if (f->file && (x.scale != 1 || x.offset != 0)) {
        diag_error(f->l->diag, f->match->item->file.loc, "'%s' needs the "
                   "number of an element; '%.*s' is a name: write '*'",
                   path_index_text(f->l->arena, x), (int)size, s);
        f->fault = true;
    }
    put(f, s, size);
}

/* Gives the index its offset, if that is a parameter of the model; false after an error. */
static bool resolve_index(Filling *f, PathIndex *x)
{
    if (!x->name)
        return true;
    Loc loc = f->match->item->file.loc;
    Expr name = {.kind = EX_NAME, .loc = loc, .range = loc,
                 .name = arena_strndup(f->l->arena, x->name, x->size)};
    bool known = lower_int(f->l, &name, "the summand of an index", &x->offset);
    if (known && (x->offset < 0 || x->offset > MAX_INDEX_OFFSET)) {
        diag_error(f->l->diag, loc, "'%s' is %lld: an index has summands from 0 to %d",
                   name.name, (long long)x->offset, MAX_INDEX_OFFSET);
        known = false;
    }
    f->fault = f->fault || !known;
    x->name = NULL;
    return known;
}

/* Puts what the pattern's next '*' or range matches; after the last one, the number of the
 * element of dim 0. */
static void put_next(Filling *f, PathIndex x, bool whole)
{
    const char *pattern = f->match->item->path[f->match->path].text;
    size_t size;
    while (f->next < path_depth(pattern)) {
        const char *s = path_segment(pattern, f->next, &size);
        if (path_is_open(s, size)) {
            put_segment(f, f->next++, x, whole);
            return;
        }
        f->next++;
    }
    Type t = param_shape(f->param);
    put_index(f, (PathRange){0, t.ndim ? t.dim[0] - 1 : 0, 1}, -1, x, whole);
}

/* The text with the numbers of the name, then the rest of the name. */
static const char *fill_text(Filling *f, const char *text)
{
    const char *pattern = f->match->item->path[f->match->path].text;
    size_t size;
    PathIndex same = {.scale = 1}, x = same;
    out_init(&f->o, f->l->arena);
    out_init(&f->elements, f->l->arena);
    for (int i = 0; i < path_depth(text); i++) {
        const char *s = path_segment(text, i, &size);
        put(f, ".", i > 0);
        if (f->file ? path_index(s, size, &x) : path_is_open(s, size)) {
            if (!resolve_index(f, &x))
                return "";
            put_next(f, x, true);
            continue;
        }
        for (size_t k = 0; k < size; k++)
            if (s[k] == '*')
                put_next(f, same, false);
            else
                put(f, s + k, 1);
    }
    for (int i = path_depth(pattern); i < path_depth(f->name); i++) {
        put(f, ".", f->o.size > 0);
        put_segment(f, i, same, true);
    }
    return f->o.size > 0 ? f->o.text : "";
}

/* ---- one parameter ------------------------------------------------------- */

/* The parameters that are parts of the tensor of `name`, in order; false after
 * an error. */
static bool find_parts(Names *n, const Match *m, const char *name,
                       const Param **part)
{
    Lower *l = n->l;
    for (int i = 0; i < m->item->npaths; i++) {
        const Path *path = &m->item->path[i];
        Filling f = {.l = l, .match = m, .name = name};
        const char *other = fill_text(&f, path->text);
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
        if (strcmp(other->name, t->name) != 0)
            diag_help(l->diag, "one of them is also in '%s'", other->name);
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
    const Param **part = NEW_ARRAY(l->arena, const Param *, m.item->npaths);
    Filling f = {.l = l, .match = &m, .name = name, .file = to,
                 .param = &l->p->param.at[param]};
    n->used[m.item - n->decl->item.at][m.path] = true;
    *to = (FileTensor){0};
    to->name = fill_text(&f, m.item->file.text);
    Taken taken = {f.elements.size > 0 ? f.elements.text : "", param, m.item};
    part[0] = f.param;
    *fault = f.fault ||
             (m.item->npaths > 1 && !find_parts(n, &m, name, part)) ||
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
        if (find_tensor(n, param, name, &f, &fault)) {
            if (files.n > 0 && f.parts != files.at[0].parts)
                diag_error(l->diag, n->decl->name.loc, "'%s' is another number of tensors by its "
                           "name '%s'", p->name, name);
            vec_push(l->arena, &files, f);
        } else if (i < 0 && !fault && n->unmapped++ < MOST_LISTED) {
            diag_error(l->diag, n->decl->name.loc, "names '%s' have no line "
                       "for parameter '%s'", n->decl->name.name, name);
        }
    }
    p->file = files.at;
    p->nfile = files.n;
}

static void check_used(const Names *n)
{
    for (int i = 0; i < n->decl->item.n; i++)
        for (int k = 0; k < n->decl->item.at[i].npaths; k++) {
            const Path *path = &n->decl->item.at[i].path[k];
            bool used = n->used[i][k];
            if (used && path_numbers(path->text) == 0)
                continue;
            if (lower_path_known(n->l, path, true) && !used)
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
    case DATUM_POISON: case DATUM_RANGE: case DATUM_INIT: case DATUM_TENSOR:
    case DATUM_MODULE: case DATUM_ARRAY: case DATUM_PARAM: case DATUM_BUFFER:
        break;
    }
    if (d.kind != DATUM_POISON)
        lower_error(l, s->value->range, NULL, "'%s' is %s: config.json has "
                    "numbers, strings, true, false, none and tuples of them",
                    s->name.name, datum_text(l->arena, d));
}

/* The entries from i on that belong to one object, "rope_scaling.factor"; 1: none. */
static int object_size(const NamesDecl *n, int i)
{
    const char *name = n->config.at[i].name.name, *dot = strchr(name, '.');
    int size = 1;
    while (dot && i + size < n->config.n &&
           strncmp(n->config.at[i + size].name.name, name, (size_t)(dot + 1 - name)) == 0)
        size++;
    return size;
}

/* Prints an entry: a value, or the n entries of an object. */
static void print_entry(Lower *l, Out *o, const Setting *s, const Datum *value, int n)
{
    const char *name = s->name.name, *dot = strchr(name, '.');
    size_t object = dot ? (size_t)(dot + 1 - name) : 0;
    if (dot) {
        out_json_string(o, arena_strndup(l->arena, name, object - 1));
        out(o, ": {");
    }
    for (int i = 0; i < n; i++) {
        out(o, "%s", i ? ", " : "");
        out_json_string(o, s[i].name.name + object);
        out(o, ": ");
        print_value(l, o, &s[i], value[i]);
    }
    out(o, "%s", dot ? "}" : "");
}

/* The text of config.json. An object with a value of none is left out. */
static const char *config_text(Lower *l, const NamesDecl *n)
{
    Out o;
    const char *separator = "{\n  ";
    out_init(&o, l->arena);
    for (int i = 0, size; i < n->config.n; i += size) {
        const Setting *s = &n->config.at[i];
        Datum *value = NEW_ARRAY(l->arena, Datum, n->config.n);
        bool written = !config_accepts_any(l, s);
        size = object_size(n, i);
        for (int k = 0; k < size && written; k++) {
            value[k] = lower_expr(l, s[k].value);
            config_compare(l, &s[k], value[k]);
        }
        for (int k = 0; k < size && strchr(s->name.name, '.'); k++)
            written = written && value[k].kind != DATUM_NONE;
        if (!written)
            continue;
        out(&o, "%s", separator);
        print_entry(l, &o, s, value, size);
        separator = ",\n  ";
    }
    out(&o, "%s\n}\n", separator[0] == '{' ? "{" : "");
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
