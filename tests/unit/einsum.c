/* einsum.c: tests einsums with unusual specs: letters of one operand only,
 * elementwise products, scalars, dims of size 1, results in any order.
 *
 * For each spec: the interpreter agrees with loops written here; the program
 * that the pass `einsum` makes has the same loss, gradients and updates, its
 * gradients are those of finite differences; and every einsum that remains,
 * those of the backward pass included, is a matmul after the pass `matmul`,
 * with strides that cuBLASLt and oneDNN accept.
 */
#include "codegen/contraction.h"
#include "codegen/target/target.h"
#include "tests/unit/autodiff_check.h"
#include "tests/unit/check.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { LETTERS = 12 };

typedef struct Case {
    const char *spec;
    int64_t size[LETTERS]; /* sizes of letters, from a on; 0: not used */
    int einsums;     /* in the forward pass after the pass `einsum` */
} Case;

static const Case cases[] = {
    /* contractions, the result in any order */
    {"ab,bc->ac", {2, 3, 4}, 1},
    {"ab,bc->ca", {2, 3, 4}, 1},
    {"ab,cb->", {2, 3, 4}, 1},
    {"abc,bcd->da", {2, 3, 2, 3}, 1},
    {"abcd,cbe->eda", {2, 3, 2, 3, 2}, 1},
    {"abc,adc->cbda", {2, 3, 2, 3}, 0},
    {"abc,acd->dba", {2, 3, 2, 3}, 1},
    {"abc,cba->a", {2, 3, 4}, 1},
    {"abc,cab->c", {2, 3, 4}, 1},
    {"bac,cab->a", {2, 3, 4}, 1},
    {"abc,abc->", {2, 3, 4}, 1},
    {"a,a->", {5}, 1},
    /* letters that one operand alone has */
    {"abc,bd->ad", {2, 3, 4, 2}, 1},
    {"bd,abc->ad", {2, 3, 4, 2}, 1},
    {"bd,abc->da", {2, 3, 4, 2}, 1},
    {"cab,bd->ad", {2, 3, 4, 2}, 1},
    {"abc,bde->ad", {2, 3, 4, 2, 3}, 1},
    {"abc,dbe->ce", {2, 3, 4, 2, 3}, 1},
    {"ab,c->c", {2, 3, 4}, 0},
    {"ab,cd->", {2, 3, 4, 2}, 0},
    {"ab,cd->ca", {2, 3, 4, 2}, 0},
    {"ab,a->a", {2, 3}, 0},
    {"ab,b->", {2, 3}, 1},
    /* elementwise */
    {"abc,c->abc", {2, 3, 4}, 0},
    {"b,abc->cab", {2, 3, 4}, 0},
    {"abc,abc->bca", {2, 3, 4}, 0},
    {"cab,bc->abc", {2, 3, 4}, 0},
    {"a,b->ab", {2, 3}, 0},
    {"a,b->ba", {2, 3}, 0},
    {"ab,cd->dbca", {2, 3, 2, 3}, 0},
    /* the most letters */
    {"abcdef,ghijkl->agbhci", {2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2}, 0},
    {"abcdef,ghijkl->", {2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2}, 0},
    {"abcdef,bghija->jfgh", {2, 2, 1, 2, 1, 2, 2, 2, 2, 2}, 1},
    /* scalars */
    {",->", {0}, 0},
    {",ab->ba", {2, 3}, 0},
    {"ab,->b", {2, 3}, 0},
    {",ab->", {2, 3}, 0},
    /* dims of size 1 */
    {"ab,bc->ac", {1, 3, 1}, 1},
    {"ab,bc->ac", {3, 1, 4}, 1},
    {"abc,bd->ad", {2, 3, 1, 2}, 1},
    {"abc,bd->ad", {2, 1, 3, 2}, 1},
    {"abc,c->cba", {1, 1, 1}, 0},
    {"abcd,cdbe->eda", {2, 1, 2, 1, 3}, 1},
};

static const int64_t *shape(const Case *k, const char *letters, int n,
                            int64_t dim[MAX_DIMS])
{
    for (int d = 0; d < n; d++)
        dim[d] = k->size[letters[d] - 'a'];
    return dim;
}

/* The spec's three tensors, and the number of letters of each. */
static void split(const char *spec, const char *at[3], int n[3])
{
    for (int i = 0; i < 3; i++) {
        at[i] = spec;
        n[i] = (int)strcspn(spec, ",-");
        spec += n[i];
        spec += *spec == ',' ? 1 : *spec == '-' ? 2 : 0;
    }
}

static Small make(const Case *k, Value **y)
{
    const char *at[3];
    int n[3];
    int64_t dim[MAX_DIMS];
    Small s = small_new();
    split(k->spec, at, n);
    Value *a = small_param(&s, "a", true, 0, n[0], shape(k, at[0], n[0], dim));
    Value *b = small_param(&s, "b", true, 0, n[1], shape(k, at[1], n[1], dim));
    *y = ir_einsum(&s.b, k->spec, DT_F32, a, b);
    small_loss(&s, *y);
    return s;
}

static int64_t offset(const Case *k, const char *letters, int n,
                      const int64_t index[LETTERS])
{
    int64_t at = 0;
    for (int d = 0; d < n; d++)
        at = at * k->size[letters[d] - 'a'] + index[letters[d] - 'a'];
    return at;
}

/* Compares the interpreter's value of y with the definition. */
static void check_value(Check *c, const Case *k)
{
    const char *at[3];
    int n[3];
    Value *y;
    Small s = make(k, &y);
    split(k->spec, at, n);
    Interp *in = interp_new(s.p);
    small_values(in, s.p);
    CHECK_TEXT(c, interp_run(in), NULL);
    const double *a = interp_value(in, "a", NULL), *v, *b;
    b = interp_value(in, "b", NULL);
    v = interp_value(in, y->name, NULL);
    double sum[64] = {0};
    int64_t index[LETTERS], size[LETTERS], all = 1;
    for (int i = 0; i < LETTERS; i++) {
        size[i] = k->size[i] ? k->size[i] : 1;
        all *= size[i];
    }
    for (int64_t t = 0; t < all; t++) {
        int64_t rest = t;
        for (int i = 0; i < LETTERS; i++) {
            index[i] = rest % size[i];
            rest /= size[i];
        }
        sum[offset(k, at[2], n[2], index)] +=
            a[offset(k, at[0], n[0], index)] * b[offset(k, at[1], n[1], index)];
    }
    bool same = true;
    for (int64_t i = 0; i < type_elements(&y->type); i++)
        same = same && fabs(v[i] - sum[i]) <= 1e-12 * (1 + fabs(sum[i]));
    CHECK(c, same);
    interp_free(in);
    small_free(&s);
}

static void check_rewritten(Check *c, const Case *k)
{
    Value *y;
    Small written = make(k, &y), s = make(k, &y), again = make(k, &y);
    pass_autodiff(written.p, NULL);
    pass_einsum(s.p, NULL);
    CHECK(c, small_count(s.p, OP_einsum) == k->einsums);
    CHECK_TEXT(c, ir_verify(s.p), NULL);
    CHECK_TEXT(c, small_check_gradients(&s), NULL);
    pass_einsum(again.p, NULL);
    pass_autodiff(again.p, NULL);
    CHECK_TEXT(c, small_compare(written.arena, written.p, again.p), NULL);
    small_free(&written);
    small_free(&s);
    small_free(&again);
}

/* ---- only matmuls -------------------------------------------------------- */

/* One stride is 1, and the other at least as long as the run that it skips. */
static bool is_legal(const int64_t s[3], int64_t rows, int64_t columns)
{
    bool by_rows = s[2] == 1 && (rows == 1 || s[1] >= columns);
    bool by_columns = s[1] == 1 && (columns == 1 || s[2] >= rows);
    return s[0] >= 0 && (by_rows || by_columns);
}

typedef struct Nests {
    const Program *p;
    int n;
} Nests;

static void count_nest(Op *op, void *context)
{
    Nests *nests = context;
    Contraction c;
    if (op->kind != OP_einsum)
        return;
    bool fits = contraction_of(nests->p, op, &c);
    const ParcMatmulSpec *s = &c.spec;
    bool fine = fits && is_legal(s->sa, s->m, s->k) &&
                is_legal(s->sb, s->k, s->n) && is_legal(s->sc, s->m, s->n) &&
                s->sc[2] == 1 &&
                (s->batch == 1 || (s->sa[0] && s->sb[0] && s->sc[0]));
    if (fine)
        return;
    printf("no matmul: %s\n", attr_spec(op));
    nests->n++;
}

static void check_matmuls(Check *c, const Case *k, Target target)
{
    TargetInfo t = target_info(target, 1);
    Value *y;
    Small s = make(k, &y);
    pass_einsum(s.p, &t);
    pass_autodiff(s.p, &t);
    pass_matmul(s.p, &t);
    CHECK_TEXT(c, ir_verify(s.p), NULL);
    Nests nests = {s.p, 0};
    ir_walk(s.p->step, count_nest, &nests);
    CHECK(c, nests.n == 0);
    small_free(&s);
}

int main(void)
{
    Check c = {0, 0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int failed = c.failed;
        check_value(&c, &cases[i]);
        check_rewritten(&c, &cases[i]);
        check_matmuls(&c, &cases[i], TARGET_CPU);
        check_matmuls(&c, &cases[i], TARGET_CUDA);
        if (c.failed > failed)
            printf("in '%s'\n", cases[i].spec);
    }
    return check_end(&c);
}
