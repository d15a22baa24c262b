/* lower_einsum.c: lowers the builtin einsum: parses the spec and makes products
 * of two tensors.
 *
 * before   einsum("...j, jk, k -> ...", x, y, z)
 * after    %einsum = einsum{spec="aj,jk->ak", type=f32} %x, %y
 *          %einsum.2 = einsum{spec="ak,k->a", type=f32} %einsum, %z
 *
 * Tensors are multiplied from the left; a product keeps the letters that later
 * tensors or the result have. One tensor alone is summed and transposed. The
 * result has the element type of the first tensor.
 */
#include <ctype.h>
#include <string.h>

#include "base/text.h"
#include "frontend/lower/lower.h"

enum { LETTERS = 26 };

/* The letters of one tensor, or of the result. */
typedef struct Term {
    const char *text; /* as written, for messages */
    char letter[LETTERS + 1];
    int n, dots; /* `dots`: the position of "..."; -1: there is none */
} Term;

typedef struct Spec {
    const BuiltinCall *c;
    int n; /* number of tensors */
    Datum arg[MAX_PORTS];
    Term term[MAX_PORTS + 1]; /* the n tensors, then the result */
    DType type;
} Spec;

static const char *const example = "such as \"...k, fk -> ...f\"";

static const char *shape_text(const Spec *s, int i)
{
    return builtin_shape(s->c, s->arg[i].tensor);
}

static bool refuse(const Spec *s, const char *help, const char *what)
{
    return lower_error(s->c->l, builtin_loc(s->c, 0), help, "%s", what);
}

/* ---- parsing ------------------------------------------------------------- */

static bool parse_term(const Spec *s, const char *from, const char *end,
                       Term *t)
{
    Arena *a = s->c->l->arena;
    while (from < end && *from == ' ')
        from++;
    while (end > from && end[-1] == ' ')
        end--;
    *t = (Term){.text = arena_strndup(a, from, (size_t)(end - from)),
                .dots = -1};
    for (const char *p = from; p < end; p++) {
        if (*p == ' ')
            continue;
        if (starts_with(p, "...") && t->dots < 0) {
            t->dots = t->n;
            p += 2;
        } else if (!islower((unsigned char)*p)) {
            return refuse(s, example, arena_printf(
                a, "\"%s\" in the spec is not a list of letters from a to z "
                   "with at most one '...'", t->text));
        } else if (strchr(t->letter, *p)) {
            return refuse(s, "for a diagonal of n elements, multiply by "
                             "`unsqueeze(arange(n), 1) == arange(n)` under two "
                             "letters", arena_printf(
                a, "'%c' occurs twice in \"%s\"", *p, t->text));
        } else {
            t->letter[t->n++] = *p;
        }
    }
    return true;
}

static bool parse_spec(Spec *s, const char *text)
{
    Arena *a = s->c->l->arena;
    const char *arrow = strstr(text, "->"), *from = text;
    int given = s->c->bound.nextra + 1;
    if (!arrow)
        return refuse(s, example, "the spec has no '->' before the dims of "
                                  "the result");
    int n = 1;
    for (const char *p = text; p < arrow; p++)
        n += *p == ',';
    if (n != given)
        return refuse(s, example, arena_printf(
            a, "the spec has the dims of %d tensor%s, %d %s given", n,
            n == 1 ? "" : "s", given, given == 1 ? "is" : "are"));
    for (int i = 0; i < n; i++) {
        const char *end = from;
        while (end < arrow && *end != ',')
            end++;
        if (!parse_term(s, from, end, &s->term[i]))
            return false;
        from = end + 1;
    }
    return parse_term(s, arrow + 2, arrow + strlen(arrow), &s->term[n]);
}

/* ---- "..." --------------------------------------------------------------- */

/* The number of dims that "..." is in all tensors; -1 after an error. */
static int count_dots(const Spec *s)
{
    Arena *a = s->c->l->arena;
    int leading = -1;
    for (int i = 0; i < s->n; i++) {
        const Term *t = &s->term[i];
        int rest = s->arg[i].tensor->type.ndim - t->n;
        if (rest < 0 || (rest > 0 && t->dots < 0)) {
            refuse(s, example, arena_printf(
                a, "\"%s\" has %d letter%s, it does not fit %s", t->text, t->n,
                t->n == 1 ? "" : "s", shape_text(s, i)));
            return -1;
        }
        if (t->dots >= 0 && leading >= 0 && rest != leading) {
            refuse(
                s, NULL,
                arena_printf(
                    a,
                    "'...' stands for %d dim%s of %s, but for %d of an earlier "
                    "tensor",
                    rest, rest == 1 ? "" : "s", shape_text(s, i), leading));
            return -1;
        }
        leading = t->dots >= 0 ? rest : leading;
    }
    if (leading > 0 && s->term[s->n].dots < 0) {
        refuse(s, "write '...' in the result, or letters for these dims",
               arena_printf(a, "the result \"%s\" has no '...'",
                            s->term[s->n].text));
        return -1;
    }
    return leading < 0 ? 0 : leading;
}

static void insert_dots(Term *t, const char *dots, int leading)
{
    if (t->dots < 0)
        return;
    memmove(t->letter + t->dots + leading, t->letter + t->dots,
            (size_t)(t->n - t->dots) + 1);
    memcpy(t->letter + t->dots, dots, (size_t)leading);
    t->n += leading;
}

/* Replaces "..." by letters that the spec does not have. */
static bool expand_dots(Spec *s)
{
    char dots[MAX_DIMS + 1] = "";
    int leading = count_dots(s), n = 0;
    for (char c = 'a'; c <= 'z' && n < leading; c++) {
        bool used = false;
        for (int i = 0; i <= s->n; i++)
            used = used || strchr(s->term[i].letter, c);
        if (!used)
            dots[n++] = c;
    }
    if (n < leading)
        return refuse(s, NULL, "the spec has more than 26 dims, those of '...' "
                               "included");
    for (int i = 0; i <= s->n && leading > 0; i++)
        insert_dots(&s->term[i], dots, leading);
    return leading >= 0;
}

/* ---- products ------------------------------------------------------------ */

/* Whether tensor i, a later one or the result has the letter. */
static bool is_needed(const Spec *s, int i, char letter)
{
    for (; i <= s->n; i++)
        if (strchr(s->term[i].letter, letter))
            return true;
    return false;
}

/* The letters of the product of x and y: those that tensors from `next` on or
 * the result need. The last product has the result's letters in its order. */
static bool product_letters(const Spec *s, const char *x, const char *y,
                            int next, char *to)
{
    int n = 0;
    if (next == s->n) {
        memcpy(to, s->term[s->n].letter, sizeof s->term[s->n].letter);
        return true;
    }
    for (const char *c = x; *c; c++)
        if (is_needed(s, next, *c))
            to[n++] = *c;
    for (const char *c = y; *c; c++)
        if (!strchr(x, *c) && is_needed(s, next, *c))
            to[n++] = *c;
    to[n] = '\0';
    return n <= MAX_DIMS ||
           refuse(s, "give the tensors in another order",
                  arena_printf(s->c->l->arena,
                               "the product of the first %d tensors has %d "
                               "dims, a tensor has at most %d", next, n,
                               MAX_DIMS));
}

static Datum multiply(const Spec *s)
{
    Lower *l = s->c->l;
    Datum x = s->arg[0];
    char has[LETTERS + 1], to[LETTERS + 1] = "";
    memcpy(has, s->term[0].letter, sizeof has);
    for (int i = 1; i < s->n && x.kind == DATUM_TENSOR; i++) {
        const char *y = s->term[i].letter;
        if (!product_letters(s, has, y, i + 1, to))
            return datum_poison();
        Attr attr[MAX_ATTRS] = {
            {.s = arena_printf(l->arena, "%s,%s->%s", has, y, to)},
            {.i = s->type}};
        x = lower_op(l, s->c->call->loc, "contract", OP_einsum, 2,
                     (Datum[]){x, s->arg[i]}, attr);
        memcpy(has, to, sizeof has);
    }
    return x;
}

/* Lowers an einsum of one tensor: sums the letters that the result lacks, and
 * transposes. */
static Datum rearrange(const Spec *s)
{
    Lower *l = s->c->l;
    Loc loc = s->c->call->loc;
    const char *from = s->term[0].letter, *to = s->term[1].letter;
    char kept[LETTERS + 1] = "";
    Attr sum[MAX_ATTRS] = {{0}}, perm[MAX_ATTRS] = {{0}};
    Attr cast[MAX_ATTRS] = {{.i = s->type}};
    Datum x = s->arg[0];
    int n = 0;
    for (int d = 0; from[d]; d++)
        if (strchr(to, from[d]))
            kept[n++] = from[d];
        else
            sum[0].l.v[sum[0].l.n++] = d;
    for (int d = 0; to[d]; d++)
        perm[0].l.v[perm[0].l.n++] = strchr(kept, to[d]) - kept;
    if (sum[0].l.n > 0)
        x = lower_op(l, loc, "sum", OP_sum, 1, &x, sum);
    if (x.kind == DATUM_TENSOR && x.tensor->type.dtype != s->type)
        x = lower_op(l, loc, "sum", OP_cast, 1, &x, cast);
    return strcmp(kept, to) == 0
               ? x : lower_op(l, loc, "transpose", OP_transpose, 1, &x, perm);
}

static bool check_result(const Spec *s)
{
    for (const char *c = s->term[s->n].letter; *c; c++) {
        bool found = false;
        for (int i = 0; i < s->n; i++)
            found = found || strchr(s->term[i].letter, *c);
        if (!found)
            return refuse(s, NULL, arena_printf(
                s->c->l->arena, "'%c' of the result \"%s\" is in no tensor",
                *c, s->term[s->n].text));
    }
    int n = s->term[s->n].n;
    return n <= MAX_DIMS ||
           refuse(s, NULL, arena_printf(s->c->l->arena,
                                        "the result \"%s\" has %d dims, a "
                                        "tensor has at most %d",
                                        s->term[s->n].text, n, MAX_DIMS));
}

static bool read_tensors(Spec *s)
{
    const BuiltinCall *c = s->c;
    if (c->bound.nextra >= MAX_PORTS)
        return lower_error(c->l, c->call->loc, NULL,
                           "'einsum' multiplies at most %d tensors", MAX_PORTS);
    for (int i = 0; i <= c->bound.nextra; i++) {
        Datum d = i ? c->extra[i - 1] : c->arg[1];
        Loc loc = i ? c->bound.extra[i - 1]->range : builtin_loc(c, 1);
        if (d.kind != DATUM_TENSOR)
            return lower_error(c->l, loc, NULL,
                               "'einsum' multiplies tensors, not %s",
                               datum_text(c->l->arena, d));
        s->arg[s->n++] = c->bound.nextra > 0 ? lower_narrow(c->l, d) : d;
    }
    s->type = s->arg[0].tensor->type.dtype;
    return true;
}

/* einsum("...k, fk -> ...f", x, w): a sum of products. */
Datum builtin_einsum(const BuiltinCall *c)
{
    Spec s = {.c = c};
    if (c->arg[0].kind != DATUM_WORD)
        return lower_poison(c->l, builtin_loc(c, 0), example,
                            "'einsum' takes a spec here, not %s",
                            datum_text(c->l->arena, c->arg[0]));
    if (!read_tensors(&s) || !parse_spec(&s, c->arg[0].text) ||
        !expand_dots(&s) || !check_result(&s))
        return datum_poison();
    return s.n == 1 ? rearrange(&s) : multiply(&s);
}
