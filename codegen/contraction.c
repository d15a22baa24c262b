/* contraction.c: classifies the letters of an einsum's spec by role (batch, m,
 * n, k), and expresses the einsum as a call of the matmul library in loops over
 * the remaining letters (examples: contraction.h). It
 * also maps each epilogue of a matmul to its name in reports, its constant in
 * emitted code, and the vector and the tensor that it reads or writes. */
#include "codegen/contraction.h"

#include "base/bug.h"

#include <stddef.h>
#include <string.h>

enum { BATCH, ROW, COLUMN, SUM, ROLES };

/* ---- reading the spec ---------------------------------------------------- */

ParcType runtime_type(DType t)
{
    static const ParcType of[] = {[DT_F32] = PARC_F32, [DT_BF16] = PARC_BF16,
                                  [DT_F16] = PARC_F16, [DT_I32] = PARC_I32,
                                  [DT_I64] = PARC_I64};
    return of[t];
}

static Letter *letter_of(Contraction *c, char name[MAX_LETTERS], char letter)
{
    for (int i = 0; i < c->nletters; i++)
        if (name[i] == letter)
            return &c->letter[i];
    if (c->nletters == MAX_LETTERS)
        bug("einsum: more than %d letters", MAX_LETTERS);
    name[c->nletters] = letter;
    c->letter[c->nletters] = (Letter){.size = 1};
    return &c->letter[c->nletters++];
}

/* Enters the strides of one tensor; `field` is the offset of a, b or c in
 * Letter. */
static void read_tensor(const Program *p, Contraction *c,
                        char name[MAX_LETTERS], const char *letters, int n,
                        const Type *t, size_t field)
{
    int64_t stride = 1;
    for (int d = n - 1; d >= 0; d--) {
        Letter *l = letter_of(c, name, letters[d]);
        l->size = type_local_dim(t, &p->mesh, d);
        *(int64_t *)((char *)l + field) += stride;
        stride *= l->size;
    }
}

/* Reads the einsum's spec only; ignores a fused epilogue. */
static void read_spec(const Program *p, const Op *op, Contraction *c)
{
    char name[MAX_LETTERS];
    const char *spec = attr_spec(op);
    const struct {
        int tensor;
        const Type *type;
        size_t field;
    } table[] = {{op->nargs, &op->out[0]->type, offsetof(Letter, c)},
                 {0, &op->arg[0]->type, offsetof(Letter, a)},
                 {1, &op->arg[1]->type, offsetof(Letter, b)}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        int count;
        const char *letters = spec_letters(spec, table[i].tensor, &count);
        read_tensor(p, c, name, letters, count, table[i].type, table[i].field);
    }
}

/* ---- roles --------------------------------------------------------------- */

/* -1: a letter without a role (it is summed and only one operand has it). */
static int role_of(const Letter *l)
{
    if (l->c)
        return l->a && l->b ? BATCH : l->a ? ROW : COLUMN;
    return l->a && l->b ? SUM : -1;
}

static bool nests(int64_t outer, const Letter *inner, int64_t stride)
{
    return outer == stride * inner->size;
}

static void drop(Letter *l, int *n, int i)
{
    memmove(&l[i], &l[i + 1], (size_t)(*n - i - 1) * sizeof *l);
    --*n;
}

/* Merges letters of one role whose strides nest in every tensor; drops letters
 * of size 1. */
static void merge_letters(Letter *l, int *n)
{
    for (int i = *n - 1; i >= 0; i--)
        if (l[i].size == 1)
            drop(l, n, i);
    for (bool merged = true; merged;) {
        merged = false;
        for (int i = 0; i < *n && !merged; i++)
            for (int j = 0; j < *n && !merged; j++) {
                if (i == j || role_of(&l[i]) != role_of(&l[j]) ||
                    !nests(l[i].a, &l[j], l[j].a) ||
                    !nests(l[i].b, &l[j], l[j].b) ||
                    !nests(l[i].c, &l[j], l[j].c))
                    continue;
                l[j].size *= l[i].size;
                drop(l, n, i);
                merged = true;
            }
    }
}

/* ---- one call ------------------------------------------------------------ */

static void set_strides(int64_t s[3], int64_t batch, int64_t row,
                        int64_t column)
{
    s[0] = batch;
    s[1] = row;
    s[2] = column;
}

/* The stride of a dim of size 1 is free: picks one that makes the matrix
 * contiguous. */
static void tidy(int64_t s[3], int64_t rows, int64_t columns)
{
    if (columns == 1)
        s[2] = 1;
    if (rows == 1)
        s[1] = s[2] == 1 ? columns : 1;
}

static bool is_matrix(const int64_t s[3])
{
    return s[1] == 1 || s[2] == 1;
}

/* The call for a given choice of one letter for each role; false if the library
 * does not accept its strides. */
static bool make_call(const Letter *const main[ROLES], Contraction *c)
{
    static const Letter one = {.size = 1};
    const Letter *l[ROLES];
    for (int r = 0; r < ROLES; r++)
        l[r] = main[r] ? main[r] : &one;
    ParcMatmulSpec *s = &c->spec;
    c->swapped = l[ROW]->size > 1 && l[ROW]->c == 1;
    const Letter *m = c->swapped ? l[COLUMN] : l[ROW];
    const Letter *n = c->swapped ? l[ROW] : l[COLUMN];
    s->batch = l[BATCH]->size;
    s->m = m->size;
    s->n = n->size;
    s->k = l[SUM]->size;
    if (c->swapped) {
        set_strides(s->sa, l[BATCH]->b, m->b, l[SUM]->b);
        set_strides(s->sb, l[BATCH]->a, l[SUM]->a, n->a);
    } else {
        set_strides(s->sa, l[BATCH]->a, m->a, l[SUM]->a);
        set_strides(s->sb, l[BATCH]->b, l[SUM]->b, n->b);
    }
    set_strides(s->sc, l[BATCH]->c, m->c, n->c);
    tidy(s->sa, s->m, s->k);
    tidy(s->sb, s->k, s->n);
    tidy(s->sc, s->m, s->n);
    return is_matrix(s->sa) && is_matrix(s->sb) && s->sc[2] == 1;
}

/* The largest letter of a role. With `unit`, a letter with stride 1 in some
 * tensor is preferred, because the library needs it inside the matrix. */
static const Letter *main_letter(const Letter *l, int n, int role, bool unit)
{
    const Letter *best = NULL;
    int64_t most = 0;
    for (int i = 0; i < n; i++) {
        if (role_of(&l[i]) != role)
            continue;
        bool innermost = l[i].a == 1 || l[i].b == 1 || l[i].c == 1;
        int64_t weight = l[i].size + (unit && innermost ? INT64_MAX / 2 : 0);
        if (weight > most) {
            most = weight;
            best = &l[i];
        }
    }
    return best;
}

static bool as_calls(Contraction *c)
{
    Letter l[MAX_LETTERS];
    int n = c->nletters, sums = 0;
    memcpy(l, c->letter, sizeof l);
    merge_letters(l, &n);
    for (int i = 0; i < n; i++) {
        if (role_of(&l[i]) < 0)
            return false;
        sums += role_of(&l[i]) == SUM;
    }
    if (sums > 1)
        return false;
    const Letter *main[ROLES];
    for (int r = 0; r < ROLES; r++)
        main[r] = main_letter(l, n, r, r != BATCH);
    if (!make_call(main, c))
        return false;
    c->nletters = 0;
    for (int i = 0; i < n; i++) {
        bool inside = false;
        for (int r = 0; r < ROLES; r++)
            inside |= main[r] == &l[i];
        if (!inside)
            c->letter[c->nletters++] = l[i];
    }
    return true;
}

/* ---- public functions ---------------------------------------------------- */

static ParcEpilogue epilogue_of(const Op *op, bool swapped)
{
    switch ((int)op->kind) {
    case OP_einsum_bias: return PARC_BIAS;
    case OP_einsum_add: return op->nargs > 3 ? PARC_BIAS_ADD : PARC_ADD;
    case OP_einsum_bias_grad:
        if (op->nargs > 2)
            return swapped ? PARC_SUM_B_ADD : PARC_SUM_A_ADD;
        return swapped ? PARC_SUM_B : PARC_SUM_A;
    case OP_einsum_gelu: return op->nargs > 2 ? PARC_GELU_BIAS : PARC_GELU;
    case OP_einsum_gelu_grad: return PARC_GELU_GRAD;
    }
    return PARC_NO_EPILOGUE;
}

bool contraction_of(const Program *p, const Op *einsum, Contraction *c)
{
    *c = (Contraction){0};
    read_spec(p, einsum, c);
    bool fits = as_calls(c);
    c->type[0] = einsum->arg[c->swapped ? 1 : 0]->type.dtype;
    c->type[1] = einsum->arg[c->swapped ? 0 : 1]->type.dtype;
    c->type[2] = einsum->out[0]->type.dtype;
    c->spec.type = (ParcTypes){runtime_type(c->type[0]),
                               runtime_type(c->type[1]),
                               runtime_type(c->type[2])};
    c->spec.epilogue = epilogue_of(einsum, c->swapped);
    return fits;
}

/* ---- epilogues ----------------------------------------------------------- */

enum { NONE = -1, SECOND_RESULT = -2 };

#define ROW(e, name, vector, tensor) [e] = {name, #e, vector, tensor}

const EpilogueInfo *epilogue_info(ParcEpilogue e)
{
    static const EpilogueInfo table[] = {
        ROW(PARC_NO_EPILOGUE, "", NONE, NONE),
        ROW(PARC_BIAS, "bias", 2, NONE),
        ROW(PARC_ADD, "add", NONE, 2),
        ROW(PARC_SUM_A, "bias gradient", SECOND_RESULT, NONE),
        ROW(PARC_SUM_B, "bias gradient", SECOND_RESULT, NONE),
        ROW(PARC_BIAS_ADD, "bias, add", 3, 2),
        ROW(PARC_SUM_A_ADD, "bias gradient, add", SECOND_RESULT, 2),
        ROW(PARC_SUM_B_ADD, "bias gradient, add", SECOND_RESULT, 2),
        ROW(PARC_GELU, "gelu", NONE, SECOND_RESULT),
        ROW(PARC_GELU_BIAS, "bias, gelu", 2, SECOND_RESULT),
        ROW(PARC_GELU_GRAD, "gelu gradient", NONE, 2),
    };
    return &table[e];
}

Value *epilogue_value(const Op *op, int which)
{
    return which == NONE            ? NULL
           : which == SECOND_RESULT ? op->out[1]
                                    : op->arg[which];
}
