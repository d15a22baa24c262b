/* interp.c: tests the reference interpreter: known numbers, and the errors
 * that it must detect in programs with wrong types.
 *
 * Programs are printed text. The verifier would refuse most of them and is not
 * run. Every float parameter holds 1, 2, 3, …
 */
#include "tests/interp/interp.h"
#include "tests/unit/check.h"
#include "tests/unit/ir_tools.h"

#include <math.h>

/* A program: its stage, mesh and parameters, the ops of its step, and the
 * expected numbers of the value %y, or words of the error. */
typedef struct Row {
    const char *stage, *mesh, *params, *step;
    double expected[8];
    int n;
    const char *fault;
} Row;

/* clang-format off */
static const Row rows[] = {
    /* numbers */
    {"global", "tp=1", "param \"w\" : f32[2, 3]\n",
     "%w = param{param=\"w\"} : f32[2, 3] forward\n"
     "%y = sum{dims=[1], keep=false} %w : f32[2] forward\n",
     {6, 15}, 2, NULL},
    {"global", "tp=1", "param \"w\" : f32[3 x 2]\n",
     "%w = param{param=\"w\"} : f32[3 x 2] forward\n"
     "%x = full{value=1, type=f32, dims=[2]} : f32[2] forward\n"
     "%y, %s = loop{n=3, reverse=true} : f32[2], f32[3 x 2] forward {\n"
     "carry %c = %x : f32[2]\n"
     "stack %v = %w : f32[2]\n"
     "%d = scale{by=10} %c : f32[2] forward\n"
     "%e = add %d, %v : f32[2] forward\n"
     "yield %e, %c\n"
     "}\n",
     {1531, 1642}, 2, NULL},
    {"partitioned", "tp=2", "param \"w\" : f32[4/tp]\n",
     "%w = param{param=\"w\"} : f32[4/tp] forward\n"
     "%y = sum{dims=[0], keep=false} %w : f32[]+tp forward\n",
     {10}, 1, NULL},
    {"partitioned", "tp=2", "param \"w\" : f32[4/tp]\n",
     "%w = param{param=\"w\"} : f32[4/tp] forward\n"
     "%s = sum{dims=[0], keep=false} %w : f32[]+tp forward\n"
     "%t = all_reduce{axes={tp}} %s : f32[] forward\n"
     "%y = mul %t, %w : f32[4/tp] forward\n",
     {10, 20, 30, 40}, 4, NULL},
    {"partitioned", "dp=2 tp=2", "param \"w\" : f32[8/(tp·dp)]\n",
     "%w = param{param=\"w\"} : f32[8/(tp·dp)] forward\n"
     "%y = all_gather{axes={dp}, unit=\"\", prefetch=0} %w : f32[8/tp] "
     "forward\n",
     {1, 2, 3, 4, 5, 6, 7, 8}, 8, NULL},
    {"stored", "dp=2", "param \"w\" : f32[5]~dp\n",
     "%w = param{param=\"w\"} : f32[5]~dp forward\n"
     "%y = sumsq %w : f32[]+dp forward\n",
     {55}, 1, NULL},
    {"stored", "dp=3", "param \"w\" : f32[2 x 4]~dp\n",
     "%w = param{param=\"w\"} : f32[2 x 4]~dp forward\n"
     "%y = scale{by=2} %w : f32[2 x 4]~dp forward\n",
     {2, 4, 6, 8, 10, 12, 14, 16}, 8, NULL},
    {"partitioned", "tp=2", "param \"w\" : f32[4]\n",
     "%w = param{param=\"w\"} : f32[4] forward\n"
     "%y = mask_to_partial{axes={tp}} %w : f32[4]+tp forward\n",
     {1, 2, 3, 4}, 4, NULL},
    {"partitioned", "tp=2", "",
     "%b = base{size=6} : i64[2/tp] forward\n"
     "%y = iota{n=6} %b : f32[6/tp] forward\n",
     {0, 1, 2, 3, 4, 5}, 6, NULL},

    /* wrong types */
    {"partitioned", "tp=2", "param \"w\" : f32[4/tp]\n",
     "%w = param{param=\"w\"} : f32[4/tp] forward\n"
     "%y = sum{dims=[0], keep=false} %w : f32[] forward\n",
     {0}, 0, "%y is f32[], but element 0 is 7 on rank 1 and 3 on rank 0"},
    {"partitioned", "dp=2 tp=2", "param \"w\" : f32[8/(tp·dp)]\n",
     "%w = param{param=\"w\"} : f32[8/(tp·dp)] forward\n"
     "%y = all_gather{axes={tp}, unit=\"\", prefetch=0} %w : f32[8/dp] "
     "forward\n",
     {0}, 0, "which no rank of its group holds"},
    {"partitioned", "tp=2", "param \"w\" : f32[4]\n",
     "%w = param{param=\"w\"} : f32[4] forward\n"
     "%y = all_reduce{axes={tp}} %w : f32[4] forward\n",
     {0}, 0, "on axis tp: R to R"},
    {"partitioned", "tp=2", "param \"w\" : f32[4/tp]\n",
     "%w = param{param=\"w\"} : f32[4/tp] forward\n"
     "%y = exp %w : f32[4] forward\n",
     {0}, 0, "operand 0 does not fit the result"},
    {"stored", "dp=2", "param \"w\" : f32[5]~dp\n",
     "%w = param{param=\"w\"} : f32[5]~dp forward\n"
     "%x = offset{by=1} %w : f32[5]~dp forward\n"
     "%y = sumsq %x : f32[]+dp forward\n",
     {0}, 0, "padding 2 of rank 1 is 1"},
    {"partitioned", "tp=2", "param \"w\" : f32[4]\n",
     "%w = param{param=\"w\"} : f32[4] forward\n"
     "%y = local_slice{axes={tp}} %w : f32[4/tp] forward\n"
     "assign{param=\"w\"} %y forward\n",
     {0}, 0, "but is assigned a f32[4/tp]"},
};
/* clang-format on */

static Program *read_row(Arena *a, const Row *r)
{
    Out o;
    out_init(&o, a);
    out(&o, "parc ir 1\nstage %s\nmodel \"t\"\nmesh %s\n", r->stage, r->mesh);
    for (const char *s = r->params; *s; s = strchr(s, '\n') + 1)
        out(&o, "%.*s init=zeros(0, 0) trainable=true decay=false\n",
            (int)strcspn(s, "\n"), s);
    out(&o, "step {\n%s}\n", r->step);
    return tool_parse(a, o.text);
}

static void check_row(Check *c, const Row *r)
{
    Arena *a = arena_new();
    Program *p = read_row(a, r);
    Interp *in = interp_new(p);
    for (int i = 0; i < p->param.n; i++) {
        double x[64];
        for (int k = 0; k < 64; k++)
            x[k] = k + 1;
        interp_set_param(in, i, x);
    }
    const char *fault = interp_run(in);
    if (r->fault) {
        bool said = fault && strstr(fault, r->fault);
        if (!said)
            printf("expected '%s', got '%s'\n", r->fault,
                   fault ? fault : "(nothing)");
        CHECK(c, said);
    } else {
        CHECK_TEXT(c, fault, NULL);
        const double *y = fault ? NULL : interp_value(in, "y", NULL);
        for (int i = 0; i < r->n && y; i++) {
            if (fabs(y[i] - r->expected[i]) > 1e-12)
                printf("%selement %d is %g\n", r->step, i, y[i]);
            CHECK(c, fabs(y[i] - r->expected[i]) <= 1e-12);
        }
    }
    interp_free(in);
    arena_free(a);
}

/* The rank that has a stage's value keeps it as its share of the sum. */
static void check_stage_share(Check *c)
{
    static const Row row = {
        "partitioned", "tp=2", "param \"w\" : f32[2]@tp=1\n",
        "%w = param{param=\"w\"} : f32[2]@tp=1 forward\n"
        "%y = mask_to_partial{axes={tp}} %w : f32[2]+tp forward\n",
        {0, 0, 1, 2}, 4, NULL};
    Arena *a = arena_new();
    Program *p = read_row(a, &row);
    Interp *in = interp_new(p);
    interp_set_param(in, 0, (double[]){1, 2});
    CHECK_TEXT(c, interp_run(in), NULL);
    int64_t n;
    const double *parts = interp_parts(in, p->step->last->out[0], &n);
    CHECK(c, parts && n == 2);
    for (int i = 0; i < row.n && parts; i++)
        CHECK(c, parts[i] == row.expected[i]);
    interp_free(in);
    arena_free(a);
}

int main(void)
{
    Check c = {0, 0};
    check_stage_share(&c);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        check_row(&c, &rows[i]);
    return check_end(&c);
}
