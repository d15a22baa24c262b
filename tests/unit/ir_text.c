/* ir_text.c: checks that a printed program reads back and prints identically,
 * and that malformed text is refused at the right position. */
#include "check.h"
#include "tests/unit/ir_tools.h"

/* A program with every construct of the text format. */
static const char everything[] =
    "parc ir 1\n"
    "stage placed\n"
    "model \"Every\"\n"
    "source 1 \"every.pdl\"\n"
    "source 2 \"<prelude>\"\n"
    "mesh dp=2 tp=4\n"
    "train batch=8 seq=32 precision=bf16 optimizer=adamw lr=0.0003 "
    "momentum=0 beta1=0.9 beta2=0.95 eps=1e-08 weight_decay=0.1 "
    "schedule=piecewise after=10 after=20 rates=0.001 rates=0.0001 warmup=5 "
    "deterministic=true @1:80:1+5\n"
    "plan \"mix\" axes={tp} @1:40:6+3\n"
    "  style ColwiseParallel \"layers.*.wq\" axis=tp in(R -> R) out(none -> "
    "S(-1)) @1:44:9+15\n"
    "  style PrepareModuleInput \"layers.*\" axis=tp in(S(1) -> R, none -> "
    "none) out() @1:45:9\n"
    "  unit axis=dp paths(\"norm\", \"out\\\"put\") reshard=-1 prefetch=2 "
    "@1:50:3\n"
    "  unit axis=dp replicate=tp class=\"Block\" reshard=false prefetch=-1\n"
    "  unit axis=dp min_params=1000 reshard=true prefetch=-1\n"
    "module \"\" class=\"Every\" in=1 out=1 params=0+3 @1:1:7+5\n"
    "module \"layers.*\" class=\"Block\" in=1 out=1 params=0+1 @1:9:1\n"
    "param \"layers.*.wq\" : f32[3 x 64/tp, 16] "
    "init=truncated_normal(0.02, -0.04, 0.05) depth=-0.5 trainable=true "
    "decay=true lr_factor=0.5 weight_decay=0.25 adamw unit=\"layers.*\" "
    "alias(\"a\", \"b\") @1:3:5\n"
    "param \"layers.*.wq.m\" : f32[3 x 64/tp, 16]~dp init=zeros(0, 0) "
    "trainable=false decay=false of=\"layers.*.wq\" state=\"m\"\n"
    "param \"both\" : f32[64/(tp·dp)] init=uniform(-1, 1) trainable=true "
    "decay=false\n"
    "input \"tokens\" : i32[8/dp, 32] below=512 @1:20:13+6\n"
    "step {\n"
    "  %wq = param{param=\"layers.*.wq\"} : f32[3 x 64/tp, 16] forward @1:3:5\n"
    "  %tokens = input{input=0} : i32[8/dp, 32] forward @1:20:13+6\n"
    "  %x = full{value=-1.5e-30, type=f32, dims=[8, 16]} : f32[8/dp, 16] init\n"
    "  %c = full{value=0.1, type=bf16, dims=[]} : bf16[] init\n"
    "  %h, %zs = loop{n=3, reverse=false} : f32[8/dp, 16], f32[3 x 8/dp] "
    "forward \"layers.*\" @1:22:5 {\n"
    "    | %h @1:23:5 dp \"follows operand 0\" @1:50:3 tp \"the plan\"\n"
    "    carry %y = %x : f32[8/dp, 16]\n"
    "    stack %w = %wq : f32[64/tp, 16]\n"
    "      | %w tp \"ColwiseParallel\" @1:44:9+15\n"
    "    free %t = %c : bf16[]\n"
    "    %e = einsum{spec=\"bk,fk->bf\", type=f32} %y, %w : f32[8/dp, 64/tp] "
    "forward \"layers.*\" stream=1 @2:5:6\n"
    "    %g = all_gather{axes={dp, tp}, unit=none, prefetch=0} %e : "
    "f32[8, 64] forward\n"
    "      | because \"wanted\" @1:45:9\n"
    "    %z = sum{dims=[1], keep=false} %y : f32[8/dp] forward\n"
    "    yield %y, %z\n"
    "  }\n"
    "  %f.2, %f.3 = fused{name=\"k\"} : f32[8/dp, 16], f32[]^tp forward {\n"
    "    arg %a = %h : f32[8/dp, 16]\n"
    "    %b = exp %a : f32[8/dp, 16] forward\n"
    "    %m = max{dims=[0, 1], keep=true} %a : f32[]^tp forward\n"
    "    yield %b, %m\n"
    "  }\n"
    "  output{name=\"loss\"} %f.3 forward\n"
    "}\n";

static void round_trip(Check *c, Arena *a)
{
    Program *p = tool_parse(a, everything);
    Out once, copy, renumbered;
    out_init(&once, a);
    ir_print(&once, p);
    CHECK_TEXT(c, once.text, everything);
    out_init(&copy, a);
    ir_print(&copy, ir_copy(p));
    CHECK_TEXT(c, copy.text, everything);
    ir_renumber(p);
    out_init(&renumbered, a);
    ir_print(&renumbered, p);
    CHECK_TEXT(c, renumbered.text, everything);
    CHECK(c, p->param.at[0].value == p->step->first->out[0]);
    CHECK(c, p->param.at[1].state_of == 0);
    CHECK(c, ir_param_index(p, "b") == 0);
}

/* Every prefix of the text, and every text with one changed character, is
 * refused, or is read and can be verified and printed. */
static void damaged(Check *c, Arena *a)
{
    static const char other[] = "0x%{}[]=\"\n";
    size_t n = strlen(everything);
    int read = 0;
    for (size_t i = 0; i < n; i += 3) {
        char *text = arena_strdup(a, everything);
        if (i % 2)
            text[i] = 0;
        else
            text[i] = other[i % (sizeof other - 1)];
        Diag *d = diag_new(a, COLOR_NEVER);
        uint16_t file = diag_source(d, "t", text, strlen(text));
        Program *p = ir_parse(a, d, file);
        CHECK(c, (p == NULL) == (diag_error_count(d) > 0));
        if (!p)
            continue;
        read++;
        ir_verify(p);
        Out o;
        out_init(&o, a);
        ir_print(&o, p);
    }
    CHECK(c, read > 10);
}

static const struct {
    const char *line; /* of a step, with an error at this column */
    unsigned col;
    const char *word;
} bad[] = {
    {"%x = ad %x : f32[] forward", 6, "no operator 'ad'"},
    {"%x = neg %y : f32[] forward", 10, "%y is not defined"},
    {"%x = scalar{name=\"a\"} : f32[8/pp] forward", 31, "no axis 'pp'"},
    {"%x = scalar{name=\"a\"} : f32[8] sideward", 32, "a phase"},
    {"%x = scalar{name=3} : f32[8] forward", 18, "expected a string"},
    {"%y = boundary{path=\"\", port=in} %x", 29, "'in' is not a port"},
    {"%y = boundary{path=\"\", port=at0} %x", 29, "'at0' is not a port"},
    {"%y = boundary{path=\"\", port=out1x} %x", 29, "'out1x' is not a port"},
    {"%y = boundary{path=\"\", port=in100} %x", 29, "'in100' is not a port"},
    {"%x = scalar{name=\"a} : f32[8] forward", 18, "no end"},
    {"%x, %y = scalar{name=\"a\"} : f32[] forward", 1, "2 results"},
    {"%x, %x = scalar{name=\"\"} : f32[], f32[] forward", 5, "two values"},
    {"%x = full{value=1e, type=f32, dims=[]} : f32[] forward", 17,
     "expected a number"},
    {"%x = neg : f32[99999999999999999999] forward", 16, "an integer"},
    {"%x = neg : f32[8/dp, 4/dp] forward", 24, "twice"},
    {"%x = param{param=\"w\"} : f32[8] forward", 18, "no parameter 'w'"},
    {"%x = neg : f32[8] forward @3:1:1", 28, "no such location"},
    {"%k = scalar{name=\"\"} : f32[] forward | style unit because \"\"", 46,
     "expected 'because'"},
    {"%k = scalar{name=\"\"} : f32[] forward | style %k dp \"\"", 46,
     "expected 'because'"},
    {"?", 1, "unexpected character"},
};

static void located(Check *c, Arena *a)
{
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char *text = arena_printf(a,
                                  "parc ir 1\nstage global\nmodel \"m\"\n"
                                  "mesh dp=2\nstep {\n%s\n}\n",
                                  bad[i].line);
        Diag *d = diag_new(a, COLOR_NEVER);
        uint16_t file = diag_source(d, "t", text, strlen(text));
        CHECK(c, ir_parse(a, d, file) == NULL);
        char *said = NULL;
        size_t size = 0;
        FILE *to = open_memstream(&said, &size);
        diag_flush(d, to);
        fclose(to);
        char *where = arena_printf(a, "t:6:%u: error", bad[i].col);
        if (!strstr(said, where) || !strstr(said, bad[i].word))
            printf("%s\n%s", bad[i].line, said);
        CHECK(c, strstr(said, where) != NULL);
        CHECK(c, strstr(said, bad[i].word) != NULL);
        free(said);
    }
}

int main(void)
{
    Check c = {0};
    Arena *a = arena_new();
    round_trip(&c, a);
    located(&c, a);
    damaged(&c, a);
    arena_free(a);
    return check_end(&c);
}
