/* ir_verify.c: checks that the verifier accepts valid programs and names the
 * error in others: above all a gradient whose collective is missing,
 * duplicated or over the wrong axis. */
#include "check.h"
#include "tests/unit/ir_tools.h"

/* The header of each program after its mesh, dp=2 tp=2. The module "blk" is a
 * unit, sharded over dp. */
static const char params[] =
    "train batch=4 seq=1 precision=f32 optimizer=sgd lr=0.1 beta1=0 beta2=0 "
    "eps=0 weight_decay=0 momentum=0.9\n"
    "plan \"p\" axes={tp}\n"
    "  unit axis=dp paths(\"blk\") reshard=-1 prefetch=-1\n"
    "module \"\" class=\"M\" in=1 out=1 params=0+3\n"
    "module \"blk\" class=\"B\" in=1 out=1 params=0+1\n"
    "module \"norm\" class=\"N\" in=1 out=1 params=1+1\n"
    "param \"blk.w\" : %s init=ones(0, 0) trainable=true decay=true unit=\"blk\" item=0\n"
    "param \"norm.w\" : f32[8] init=ones(0, 0) trainable=true decay=true\n"
    "param \"blk.w.m\" : %s init=zeros(0, 0) trainable=false decay=false "
    "of=\"blk.w\" state=\"m\"\n"
    "input \"x\" : f32[4/dp, 8] \n";

static const struct {
    const char *stage;
    const char *step;
    const char *fault; /* a part of the error; NULL: the program is valid */
} rows[] = {
    /* structure */
    {"global", "%a = scalar{name=\"lr\"} : f32[] forward\n"
               "%b = loop{n=2, reverse=false} : f32[] forward {\n"
               "carry %c = %a : f32[]\n%d = neg %a : f32[] forward\n"
               "yield %d\n}\n",
     "neg %d: %a is not defined before it in its region"},
    {"global", "%a = scalar{name=\"lr\"} : f32[2] forward\n",
     "result %a is f32[2], it should be f32[]"},
    {"global", "%a = scalar{name=\"lr\"} : f32[]+tp forward\n",
     "%a is placed in a global program"},
    {"global", "%a = full{value=0, type=f32, dims=[0]} : f32[0] init\n",
     "a dim has size 0"},
    {"global", "%a = scalar{name=\"lr\"} : f32[] forward\n"
               "%b = neg %a : f32[] init\n",
     "runs at the start, but operand 0 is computed in each step"},
    {"global", "%a = scalar{name=\"lr\"} : f32[] forward\n"
               "%b = neg %a, %a : f32[] forward\n",
     "it has 2 operands, it needs 1"},
    {"global", "%a, %b = scalar{name=\"lr\"} : f32[], f32[] forward\n",
     "it has 2 results, not 1"},
    {"placed", "%a = full{value=0, type=f32, dims=[3]} : f32[3/dp] init\n",
     "dim 0 of size 3 cannot be cut into 2 parts by dp"},
    /* loops */
    {"partitioned",
     "%x = input{input=0} : f32[4/dp, 8] forward\n"
     "%b = loop{n=2, reverse=false} : f32[4/dp, 8] forward {\n"
     "carry %c = %x : f32[4/dp, 8]\n%d = neg %c : f32[4/dp, 8] forward\n"
     "yield %d\n}\n", NULL},
    {"partitioned",
     "%x = input{input=0} : f32[4/dp, 8] forward\n"
     "%b = loop{n=2, reverse=false} : f32[4/dp, 8] forward {\n"
     "carry %c = %x : f32[4/dp, 8]\n"
     "%d = local_slice{axes={tp}} %c : f32[4/dp, 8/tp] forward\n"
     "yield %d\n}\n",
     "yield %d is f32[4/dp, 8/tp], it should be f32[4/dp, 8]"},
    {"partitioned",
     "%x = input{input=0} : f32[4/dp, 8] forward\n"
     "%b = loop{n=2, reverse=false} : f32[3 x 4/dp, 8] forward {\n"
     "free %c = %x : f32[4/dp, 8]\nyield %c\n}\n",
     "result %b is f32[3 x 4/dp, 8], it should be f32[2 x 4/dp, 8]"},
    {"partitioned",
     "%x = input{input=0} : f32[4/dp, 8] forward\n"
     "%b = loop{n=2, reverse=false} : f32[2 x 4/dp, 8] forward {\n"
     "stack %c = %x : f32[4/dp, 8]\nyield %c\n}\n",
     "operand %x is f32[4/dp, 8], it should be f32[2 x 4/dp, 8]"},
    /* rules and collectives */
    {"partitioned",
     "%x = input{input=0} : f32[4/dp, 8] forward\n"
     "%s = sum{dims=[0], keep=false} %x : f32[8] forward\n",
     "sum %s: result 0 is Replicate on dp, its operands make it "
     "Partial(sum)"},
    {"partitioned",
     "%x = input{input=0} : f32[4/dp, 8] forward\n"
     "%s = sum{dims=[0], keep=false} %x : f32[8]+dp forward\n"
     "%e = exp %s : f32[8]+dp forward\n",
     "exp %e: operand 0 is Partial(sum) on dp, the rule needs Replicate"},
    {"partitioned",
     "%x = input{input=0} : f32[4/dp, 8] forward\n"
     "%s = sum{dims=[0], keep=false} %x : f32[8]+dp forward\n"
     "%r = all_reduce{axes={tp}} %s : f32[8]+dp forward\n",
     "operand 0 is Replicate on tp, and cannot become Replicate here"},
    {"partitioned",
     "%x = input{input=0} : f32[4/dp, 8] forward\n"
     "%s = sum{dims=[0], keep=false} %x : f32[8]+dp forward\n"
     "%r = all_reduce{axes={dp}} %s : f32[8] forward\n"
     "%q = all_reduce{axes={dp}} %r : f32[8] forward\n",
     "all_reduce %q: operand 0 is Replicate on dp"},
    {"partitioned",
     "%x = input{input=0} : f32[4/dp, 8] forward\n"
     "%r = all_gather{axes={tp}, unit=none, prefetch=0} %x : f32[4, 8] "
     "forward\n",
     "operand 0 is Shard(0) on dp, which changes though not named"},
    {"partitioned",
     "%x = input{input=0} : f32[4/dp, 8] forward\n"
     "%y = local_slice{axes={tp}} %x : f32[4/(dp·tp), 8] forward\n"
     "%r = all_gather{axes={dp}, unit=none, prefetch=0} %y : f32[4/tp, 8] "
     "forward\n",
     "operand 0 is Shard(0) on tp, which changes though not named"},
    {"partitioned",
     "%x = input{input=0} : f32[4/dp, 8] forward\n"
     "%y = local_slice{axes={tp}} %x : f32[4/(tp·dp), 8] forward\n",
     "which changes though not named in axes"},
    {"partitioned",
     "%x = input{input=0} : f32[4/dp, 8] forward\n"
     "%y = local_slice{axes={tp}} %x : f32[4/(dp·tp), 8] forward\n"
     "%r = all_gather{axes={dp, tp}, unit=none, prefetch=0} %y : f32[4, 8] "
     "forward\n"
     "%z = all_to_all{axes={tp}} %y : f32[4/dp, 8/tp] forward\n", NULL},
    {"partitioned",
     "%x = input{input=0} : f32[4/dp, 8] forward\n"
     "%b = boundary{path=\"\", port=in0, grad=false, styles=[]} %x : f32[4/dp, 8] "
     "forward\n", "partition should have removed it"},
    {"partitioned",
     "%x = input{input=0} : f32[4/dp, 8] forward\n"
     "%s = sumsq %x : f32[]+dp forward\noutput{name=\"loss\"} %s forward\n",
     "operand 0 is Partial(sum) on dp, it must be Replicate"},
    {"partitioned",
     "%x = input{input=0} : f32[4/dp, 8] forward\n"
     "%y = slice{dim=4294967297, start=0, size=4} %x : f32[4/dp, 4] forward\n",
     "an attribute is not the index of a dim"},
    {"partitioned",
     "%x = input{input=0} : f32[4/dp, 8] forward\n"
     "%y = sum{dims=[0, 0, 0, 0, 0, 0, 0], keep=false} %x : f32[8] forward\n",
     "a list attribute is too long"},
    /* a base must count the dim that it is used for */
    {"partitioned",
     "%b = base{size=8} : i64[2/tp] init\n"
     "%i = iota{n=8} %b : f32[8/tp] init\n", NULL},
    {"partitioned",
     "%b = base{size=6} : i64[2/tp] init\n"
     "%i = iota{n=8} %b : f32[8/tp] init\n",
     "operand 0 counts a dim of 6, here it is 8"},
    {"partitioned", "%b = base{size=8} : i64[4/tp] init\n",
     "a rank holds more than one part"},
    /* gradients */
    {"partitioned",
     "%x = input{input=0} : f32[4/dp, 8] forward\n"
     "%g = sum{dims=[0], keep=false} %x : f32[8]+dp backward\n"
     "%h = finish_grad{param=\"norm.w\"} %g : f32[8]+dp backward\n",
     "operand 0 is Partial(sum) on dp, but its parameter norm.w is "
     "Replicate"},
    {"partitioned",
     "%x = input{input=0} : f32[4/dp, 8] forward\n"
     "%g = sum{dims=[0], keep=false} %x : f32[8]+dp backward\n"
     "%h = finish_grad{param=\"blk.w\"} %g : f32[8]+dp backward\n"
     "%s = sumsq %h : f32[]+dp optimizer\n", NULL},
    {"partitioned",
     "%x = input{input=0} : f32[4/dp, 8] forward\n"
     "%g = sum{dims=[0], keep=false} %x : f32[8]+dp backward\n"
     "%h = finish_grad{param=\"blk.w\"} %g : f32[8]+dp backward\n"
     "%n = neg %h : f32[8]+dp backward\n"
     "%s = sumsq %n : f32[]+dp optimizer\n",
     "sumsq %s: operand 0 is Partial(sum) on dp"},
    {"stored",
     "%x = input{input=0} : f32[4/dp, 8] forward\n"
     "%g = sum{dims=[0], keep=false} %x : f32[8]+dp backward\n"
     "%h = finish_grad{param=\"blk.w\"} %g : f32[8]+dp backward\n",
     "operand 0 is Partial(sum) on dp, but its parameter blk.w is flat"},
    {"stored",
     "%x = input{input=0} : f32[4/dp, 8] forward\n"
     "%w = param{param=\"blk.w\"} : f32[8]~dp forward\n"
     "%m = param{param=\"blk.w.m\"} : f32[8]~dp forward\n"
     "%lr = scalar{name=\"lr\"} : f32[] optimizer\n"
     "%g = sum{dims=[0], keep=false} %x : f32[8]+dp backward\n"
     "%k = reduce_scatter{axes={dp}, unit=\"blk\"} %g : f32[8]~dp backward\n"
     "%h = finish_grad{param=\"blk.w\"} %k : f32[8]~dp backward\n"
     "%s = sumsq %h : f32[]+dp optimizer\n"
     "%w2, %m2 = update{param=\"blk.w\"} %w, %h, %lr, %lr, %lr, %m : "
     "f32[8]~dp, f32[8]~dp optimizer\n"
     "assign{param=\"blk.w\"} %w2 optimizer\n"
     "assign{param=\"blk.w.m\"} %m2 optimizer\n", NULL},
    {"stored",
     "%w = param{param=\"blk.w\"} : f32[8]~dp forward\n"
     "%v = all_gather{axes={dp}, unit=\"blk\", prefetch=0} %w : f32[8] "
     "forward\nassign{param=\"blk.w\"} %v optimizer\n",
     "operand 0 is f32[8], but blk.w is f32[8]~dp"},
    {"fused",
     "%x = input{input=0} : f32[4/dp, 8] forward\n"
     "%y = exp %x : f32[4/dp, 8] forward\n", "it is not in a kernel"},
    {"fused",
     "%x = input{input=0} : f32[4/dp, 8] forward\n"
     "%y = fused{name=\"k\"} : f32[4/dp, 8] forward {\n"
     "arg %a = %x : f32[4/dp, 8]\n%b = exp %a : f32[4/dp, 8] forward\n"
     "yield %b\n}\n", NULL},
    {"fused",
     "%x = input{input=0} : f32[4/dp, 8] forward\n"
     "%y = fused{name=\"k\"} : f32[4/dp, 8/tp] forward {\n"
     "arg %a = %x : f32[4/dp, 8]\n"
     "%b = local_slice{axes={tp}} %a : f32[4/dp, 8/tp] forward\n"
     "yield %b\n}\n", "it cannot be part of a kernel"},
};

/* Lines of the header, each with an error. */
static void check_headers(Check *c, Arena *a)
{
    static const char *const row[][2] = {
        {"train batch=4 seq=1 schedule=piecewise after=1 after=2 rates=0.5\n",
         "not one rate for each step"},
        {"train batch=4 seq=1 schedule=piecewise warmup=2\n", "only a piecewise"},
        {"train batch=4 seq=1 schedule=wsd after=1 rates=0.5\n",
         "only a piecewise"},
        {"param \"w\" : f32[2] init=normal(1, 0) depth=-1 trainable=true "
         "decay=true\n",
         "the index in no array"}};
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        Program *p = tool_parse(
            a, arena_printf(a, "parc ir 1\nstage global\nmodel \"m\"\n%s"
                            "step {\n}\n", row[i][0]));
        const char *fault = ir_verify(p);
        CHECK(c, fault && strstr(fault, row[i][1]));
    }
}

int main(void)
{
    Check c = {0};
    Arena *a = arena_new();
    check_headers(&c, a);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int stored = strcmp(rows[i].stage, "stored") == 0;
        const char *type = stored ? "f32[8]~dp" : "f32[8]";
        const char *head = arena_printf(a, params, type, type);
        if (strcmp(rows[i].stage, "global") == 0)
            head = "";
        Program *p = tool_parse(
            a, arena_printf(a, "parc ir 1\nstage %s\nmodel \"m\"\n"
                            "mesh dp=2 tp=2\n%sstep {\n%s}\n",
                            rows[i].stage, head, rows[i].step));
        const char *fault = ir_verify(p);
        int right = rows[i].fault ? fault && strstr(fault, rows[i].fault)
                                  : fault == NULL;
        if (!right)
            printf("%s  expected: %s\n  got: %s\n", rows[i].step,
                   rows[i].fault ? rows[i].fault : "no fault",
                   fault ? fault : "no fault");
        CHECK(&c, right);
    }
    arena_free(a);
    return check_end(&c);
}
