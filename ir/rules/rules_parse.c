/* rules_parse.c: parses the text of a sharding rule and binds its letters to
 * sizes.
 *
 *   rule    = [tensor {"," tensor}] "->" tensor {"," tensor}
 *             {";" ("whole" | "base" | "global" | "max" | "separate") letter…}
 *   tensor  = ["[" attribute "]"] ["+" | "#" | "&"] {letter | "(" letter letter… ")" | "..."}
 *
 * The text has two uses: ir_infer binds the letters to sizes and gets the
 * result's dims, rule_of makes factors of them. An einsum's spec is a rule of
 * single letters without blanks: passes read its characters as dims. Operands whose
 * attribute is 0 are left out when the text is parsed.
 */
#include <string.h>

#include "base/bug.h"
#include "ir/rules/rule_text.h"

/* ---- text ---------------------------------------------------------------- */

static const char *skip_blanks(const char *s)
{
    return s + strspn(s, " ");
}

static bool is_letter(char c)
{
    return c >= 'a' && c <= 'z';
}

/* Parses one dim at *s and advances. */
static const char *parse_dim(const char **s, bool plain, RuleDim *d)
{
    *d = (RuleDim){0};
    const char *c = *s;
    if (is_letter(*c)) {
        d->letter[d->n++] = *c++;
    } else if (plain) {
        return "only letters from a to z may stand for dims";
    } else if (strncmp(c, "...", 3) == 0) {
        d->dots = true;
        c += 3;
    } else if (*c == '(') {
        for (c++; is_letter(*c) && d->n < MAX_DIM_FACTORS; c++)
            d->letter[d->n++] = *c;
        if (*c++ != ')')
            return "a group of letters has no end";
    } else {
        return "a letter is expected";
    }
    *s = c;
    return NULL;
}

/* Skips "[attribute]". Whether the op has the tensor: the attribute is not 0. */
static bool parse_condition(const char **s, const Op *op)
{
    if (**s != '[')
        return true;
    const AttrName *attr = op_info(op->kind)->attr;
    size_t n = strcspn(++*s, "]");
    int i = 0;
    while (attr[i] && (strlen(attr_text(attr[i])) != n || memcmp(attr_text(attr[i]), *s, n)))
        i++;
    if (!attr[i])
        bug("op %s has a rule with an unknown attribute", op_info(op->kind)->name);
    *s += n + 1;
    return attr_type_of(attr[i]) == ATTR_TYPE_FLOAT ? op->attr[i].f > 0 : op->attr[i].i != 0;
}

/* Parses "+", "#" or "&" before a tensor. */
static void parse_mark(const char **s, RuleTensor *t)
{
    t->added = **s == '+';
    t->integers = **s == '#';
    t->subset = **s == '&';
    *s += t->added || t->integers || t->subset;
}

/* Removes the dims whose bits are not set. */
static void keep_dims(RuleTensor *t, int64_t bits)
{
    int n = 0;
    for (int k = 0; k < t->n; k++)
        if (bits >> k & 1)
            t->dim[n++] = t->dim[k];
    t->n = n;
}

/* `op` is NULL for a spec. */
static const char *parse_tensor(const char **s, const Op *op, RuleTensor *t, bool *exists)
{
    bool plain = !op;
    *t = (RuleTensor){0};
    *s = plain ? *s : skip_blanks(*s);
    *exists = plain || parse_condition(s, op);
    if (!plain) {
        parse_mark(s, t);
        *s = skip_blanks(*s);
    }
    for (; **s && !strchr(",-;", **s); *s = plain ? *s : skip_blanks(*s)) {
        if (t->n == (plain ? MAX_DIMS : MAX_DIMS + 1))
            return "a tensor has too many dims";
        const char *fault = parse_dim(s, plain, &t->dim[t->n++]);
        if (fault)
            return fault;
    }
    if (t->subset)
        keep_dims(t, attr_bias(op));
    return NULL;
}

/* Parses a list of tensors up to the first other character. */
static const char *parse_tensors(const char **s, const Op *op, RuleText *t, int *n)
{
    *n = 0;
    for (;;) {
        int i = t->nargs + t->nouts;
        bool exists;
        if (i + *n == MAX_TEXT_TENSORS)
            return "there are too many tensors";
        const char *fault = parse_tensor(s, op, &t->tensor[i + *n], &exists);
        if (fault)
            return fault;
        *n += exists;
        if (**s != ',')
            return NULL;
        (*s)++;
    }
}

static const char *parse_rule_notes(const char *s, RuleText *t)
{
    while (*(s = skip_blanks(s))) {
        if (*s++ != ';')
            return "something follows the rule";
        s = skip_blanks(s);
        const char *word = s;
        while (is_letter(*s))
            s++;
        size_t n = (size_t)(s - word);
        for (s = skip_blanks(s); is_letter(*s); s = skip_blanks(s + 1))
            if (n == 5 && memcmp(word, "whole", n) == 0)
                t->whole[*s - 'a'] = true;
            else if (n == 8 && memcmp(word, "separate", n) == 0)
                t->separate[*s - 'a'] = true;
            else if (n == 3 && memcmp(word, "max", n) == 0)
                t->max[*s - 'a'] = true;
            else if (n == 4 && memcmp(word, "base", n) == 0 && t->nbases < MAX_BASES)
                t->base[t->nbases++] = *s;
            else if (n == 6 && memcmp(word, "global", n) == 0 && t->nbases < MAX_BASES)
                t->base[t->nbases++] = *s, t->nglobal++;
            else
                return "a note is not whole, base, global, max or separate";
    }
    return NULL;
}

static const char *parse_text(const Op *op, const char *text, RuleText *t)
{
    memset(t, 0, sizeof *t);
    const char *s = op ? skip_blanks(text) : text;
    int n = 0;
    const char *fault = NULL;
    if (strncmp(s, "->", 2) != 0)
        fault = parse_tensors(&s, op, t, &n);
    if (fault)
        return fault;
    t->nargs = n;
    if (strncmp(s, "->", 2) != 0)
        return "'->' is missing";
    s += 2;
    fault = parse_tensors(&s, op, t, &n);
    if (fault)
        return fault;
    t->nouts = n;
    if (!op && *s)
        return "something follows the result";
    return parse_rule_notes(s, t);
}

static bool has_no_global(const Op *op)
{
    return op_has_attr(op->kind, ATTR_global) && attr_global(op)->n == 0;
}

const char *rule_text_parse(const Op *op, const char *text, RuleText *t)
{
    const char *fault = parse_text(op, text, t);
    if (!fault && has_no_global(op)) {
        t->nbases -= t->nglobal;
        t->nglobal = 0;
    }
    return fault;
}

const char *spec_text_parse(const char *text, RuleText *t)
{
    return parse_text(NULL, text, t);
}

/* ---- sizes --------------------------------------------------------------- */

enum { MANY_DIMS = 1 << 20 };

/* The number of dims that "..." matches in a tensor; -1 without dots. */
static int dots_of(const RuleTensor *t, int ndim)
{
    for (int i = 0; i < t->n; i++)
        if (t->dim[i].dots)
            return ndim - (t->n - 1);
    return -1;
}

static const char *check_rank(Arena *a, const RuleText *t, int i, int ndim,
                              RuleSizes *sizes)
{
    const RuleTensor *tensor = &t->tensor[i];
    int dots = dots_of(tensor, ndim);
    if (dots_of(tensor, MANY_DIMS) < 0) {
        if (ndim != tensor->n)
            return arena_printf(a, "operand %d has %d dims, it needs %d", i,
                                ndim, tensor->n);
        return NULL;
    }
    if (dots < 0)
        return arena_printf(a, "operand %d has %d dims, it needs %d or more", i,
                            ndim, tensor->n - 1);
    if (sizes->ndots >= 0 && sizes->ndots != dots)
        return arena_printf(a, "operand %d has %d leading dims, others %d", i,
                            dots, sizes->ndots);
    sizes->ndots = dots;
    return NULL;
}

static const char *bind_size(Arena *a, int operand, int dim, int64_t *size,
                             int64_t is)
{
    if (*size && *size != is)
        return arena_printf(a,
                            "dim %d of operand %d is %lld where %lld is "
                            "needed",
                            dim, operand, (long long)is, (long long)*size);
    *size = is;
    return NULL;
}

/* Binds single letters and dots of operand i. */
static const char *bind_simple(Arena *a, const RuleText *t, int i,
                               const Type *type, RuleSizes *sizes)
{
    const RuleTensor *tensor = &t->tensor[i];
    const char *fault = NULL;
    int d = 0;
    for (int k = 0; k < tensor->n && !fault; k++) {
        const RuleDim *rd = &tensor->dim[k];
        for (int j = 0; rd->dots && j < sizes->ndots && !fault; j++, d++)
            fault = bind_size(a, i, d, &sizes->dots[j], type->dim[d]);
        if (rd->dots)
            continue;
        if (rd->n == 1)
            fault = bind_size(a, i, d, &sizes->letter[rd->letter[0] - 'a'],
                              type->dim[d]);
        d++;
    }
    return fault;
}

/* A dim of several letters determines the one that is not bound yet. */
static const char *bind_compound(Arena *a, int i, int d, const RuleDim *rd,
                                 int64_t size, RuleSizes *sizes)
{
    int64_t known = 1, *open = NULL;
    for (int j = 0; j < rd->n; j++) {
        int64_t *letter = &sizes->letter[rd->letter[j] - 'a'];
        if (*letter)
            known *= *letter;
        else
            open = letter;
    }
    if (!open && size != known)
        return arena_printf(a, "dim %d of operand %d is %lld where %lld is needed", d, i,
                            (long long)size, (long long)known);
    if (size % known)
        return arena_printf(a,
                            "dim %d of operand %d is %lld, not a multiple of "
                            "%lld",
                            d, i, (long long)size, (long long)known);
    if (open)
        *open = size / known;
    return NULL;
}

/* Binds letters whose sizes attributes of their own have. */
static void bind_attributes(const Op *op, RuleSizes *sizes)
{
    static const char of_shape[] = "ghxre";
    if (op_has_attr(op->kind, ATTR_groups))
        sizes->letter['g' - 'a'] = attr_groups(op);
    for (int i = 0; op_has_attr(op->kind, ATTR_shape) && of_shape[i]; i++)
        sizes->letter[of_shape[i] - 'a'] = attr_shape(op)->v[i];
}

/* The sizes of letters that only results have. */
static AttrList sizes_of_results(const Op *op)
{
    if (op_has_attr(op->kind, ATTR_n))
        return (AttrList){1, {attr_n(op)}};
    return op_has_attr(op->kind, ATTR_dims) ? *attr_dims(op) : (AttrList){0};
}

const char *rule_text_bind(Arena *a, const RuleText *t, Value *const *args, const Op *op,
                           RuleSizes *sizes)
{
    AttrList rest = sizes_of_results(op);
    int given = 0;
    memset(sizes, 0, sizeof *sizes);
    sizes->ndots = -1;
    bind_attributes(op, sizes);
    const char *fault = NULL;
    for (int i = 0; i < t->nargs && !fault; i++)
        fault = check_rank(a, t, i, args[i]->type.ndim, sizes);
    if (sizes->ndots < 0)
        sizes->ndots = 0;
    for (int i = 0; i < t->nargs && !fault; i++)
        fault = bind_simple(a, t, i, &args[i]->type, sizes);
    for (int i = 0; i < t->nargs && !fault; i++) {
        int d = 0;
        for (int k = 0; k < t->tensor[i].n && !fault; k++) {
            const RuleDim *rd = &t->tensor[i].dim[k];
            if (rd->n > 1)
                fault = bind_compound(a, i, d, rd, args[i]->type.dim[d], sizes);
            d += rd->dots ? sizes->ndots : 1;
        }
    }
    for (int i = t->nargs; i < t->nargs + t->nouts; i++)
        for (int k = 0; k < t->tensor[i].n; k++)
            for (int j = 0; j < t->tensor[i].dim[k].n; j++) {
                int64_t *letter =
                    &sizes->letter[t->tensor[i].dim[k].letter[j] - 'a'];
                if (!*letter && given < rest.n)
                    *letter = rest.v[given++];
            }
    return fault;
}

/* Whether the op's rule is in letters. */
static bool has_letters(const Op *op)
{
    const char *rule = op_info(op->kind)->rule;
    return rule && *rule != '@' && *rule != '=';
}

int rule_operand_count(const Op *op)
{
    RuleText t;
    int n = op_info(op->kind)->nargs;
    return n < 0 && has_letters(op) && !rule_text_parse(op, op_info(op->kind)->rule, &t)
               ? t.nargs
               : n;
}

int rule_base_count(const Op *op)
{
    RuleText t;
    int n = 0;
    if (op_has_attr(op->kind, ATTR_global)) {
        const AttrList *of = attr_global(op);
        for (int i = 0; i < of->n && i < MAX_DIMS; i++)
            n += of->v[i] != 1;
    }
    if (has_letters(op) && !rule_text_parse(op, op_info(op->kind)->rule, &t))
        n += t.nbases - t.nglobal;
    return n;
}
