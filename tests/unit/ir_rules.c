/* ir_rules.c: tests shapes and placements by the sharding rules.
 *
 * Each row is an op on typed operands and the expected outcome: the types of
 * its results, or the words of the error.
 */
#include "check.h"
#include "ir/ir.h"
#include "ir/rules/rules.h"
#include "tests/unit/ir_tools.h"

/* Infers types and derives placements; the results' types, or the error. */
static const char *derive(Program *p, OpKind kind, const char *const *types,
                          const Attr *attr, const char *annotated)
{
    Value *args[8];
    int nargs = 0, nouts;
    for (; types[nargs]; nargs++)
        args[nargs] = ir_new_value(p, "x", tool_type(p, types[nargs]),
                                   (Loc){0});
    Type out[8];
    const char *fault =
        ir_infer(p, kind, nargs, args, attr, out, &nouts);
    if (fault)
        return fault;
    Build b = {.p = p, .region = p->step, .path = ""};
    Op *op = ir_op_typed(&b, kind, nargs, args, attr, nouts, out, NULL);
    Rule r;
    rule_of(p, op, &r);
    Placement place[8] = {0};
    if (annotated)
        place[0] = tool_type(p, annotated).place;
    fault = rule_derive(p, op, &r, place, NULL);
    if (fault)
        return fault;
    Out text;
    out_init(&text, p->arena);
    for (int i = 0; i < nouts; i++) {
        out[i].place = place[i];
        if (i)
            out_bytes(&text, ", ", 2);
        type_print(&text, &out[i], &p->mesh);
    }
    return text.text;
}

typedef struct Row {
    OpKind kind;
    const char *types[8];
    Attr attr[MAX_ATTRS];
    const char *expected;
    const char *annotated;
} Row;

/* Stride, padding and dilation of both dims, groups, and both sizes of the result. */
#define SHAPE(g, h, x, r, e) {{.l = {5, {g, h, x, r, e}}}}
#define CONV(...) CONV_AS(DT_F32, __VA_ARGS__)
#define CONV_AS(type, stride, padding, dilation, groups, size)                                \
    {{.i = type}, {.l = {2, {stride, stride}}}, {.l = {2, {padding, padding}}},              \
     {.l = {2, {dilation, dilation}}}, {.i = groups}, {.l = {2, {size, size}}}}

static const Row rows[] = {
    /* elementwise */
    {OP_add, {"f32[8/dp, 4/tp]", "f32[4/tp]"}, {{0}}, "f32[8/dp, 4/tp]",
     NULL},
    {OP_add, {"f32[8, 4]+tp", "f32[8, 4]+tp"}, {{0}}, "f32[8, 4]+tp", NULL},
    {OP_add, {"f32[8, 4]+tp", "f32[8, 4]"}, {{0}},
     "operand 1 is Replicate on tp, the rule needs Partial(sum)", NULL},
    {OP_add, {"f32[8, 4]", "f32[8, 6]"}, {{0}},
     "cannot broadcast dim 1: 4 and 6", NULL},
    {OP_mul, {"f32[8, 4]+tp", "f32[4]"}, {{0}}, "f32[8, 4]+tp", NULL},
    {OP_mul, {"f32[8, 4]+tp", "f32[8, 4]+tp"}, {{0}},
     "operand 1 is Partial(sum) on tp, the rule needs Replicate", NULL},
    {OP_mul, {"f32[8/tp, 4]", "f32[8, 4/tp]"}, {{0}},
     "operand 1 is Shard(1) on tp, the rule needs Shard(0)", NULL},
    {OP_exp, {"f32[8]+tp"}, {{0}},
     "operand 0 is Partial(sum) on tp, the rule needs Replicate, it is not "
     "linear there", NULL},
    {OP_div, {"f32[8]", "f32[8]+tp"}, {{0}},
     "operand 1 is Partial(sum) on tp, the rule needs Replicate, it is not "
     "linear there", NULL},
    {OP_maximum, {"f32[8]^tp", "f32[8]^tp"}, {{0}}, "f32[8]^tp", NULL},
    {OP_neg, {"f32[8]^tp"}, {{0}},
     "operand 0 is Partial(max) on tp, the rule needs Replicate, it is not "
     "linear there", NULL},
    {OP_add, {"f32[8/(tp·dp)]", "f32[8/(tp·dp)]"}, {{0}}, "f32[8/(tp·dp)]",
     NULL},
    {OP_add, {"f32[8/(tp·dp)]", "f32[8/(dp·tp)]"}, {{0}},
     "the operands have the axes of a dim in different orders", NULL},
    {OP_mul, {"f32[3 x 8/tp, 4]~dp", "f32[3 x 8/tp, 4]~dp"}, {{0}},
     "f32[3 x 8/tp, 4]~dp", NULL},
    {OP_mul, {"f32[3 x 8, 4]~dp", "f32[]"}, {{0}}, "f32[3 x 8, 4]~dp", NULL},
    {OP_mul, {"f32[8, 4]~dp", "f32[4]"}, {{0}},
     "operand 1 is Replicate on dp, the rule needs flat, as other operands "
     "are", NULL},
    /* reductions */
    {OP_sum, {"f32[8/dp, 4/tp]"}, {{.l = {1, {1}}}, {.i = 0}},
     "f32[8/dp]+tp", NULL},
    {OP_sum, {"f32[8/dp, 4/tp]"}, {{.l = {1, {1}}}, {.i = 1}},
     "f32[8/dp, 1]+tp", NULL},
    {OP_max, {"f32[8/dp, 4/tp]"}, {{.l = {1, {1}}}, {.i = 1}},
     "f32[8/dp, 1]^tp", NULL},
    {OP_sumsq, {"f32[3 x 8, 4/tp]~dp"}, {{0}}, "f32[]+dp+tp", NULL},
    {OP_sumsq, {"f32[8, 4]+tp"}, {{0}},
     "operand 0 is Partial(sum) on tp, the rule needs Replicate, it is not "
     "linear there", NULL},
    /* shape */
    {OP_reshape, {"f32[8/dp, 4, 16/tp]"}, {{.l = {4, {8, 4, 4, 4}}}},
     "f32[8/dp, 4, 4/tp, 4]", NULL},
    {OP_reshape, {"f32[8/dp, 4, 4/tp, 4]"}, {{.l = {3, {8, 4, 16}}}},
     "f32[8/dp, 4, 16/tp]", NULL},
    {OP_reshape, {"f32[8, 4, 4, 4/tp]"}, {{.l = {3, {8, 4, 16}}}},
     "an axis splits the minor part of a dim whose major part is not wholly "
     "split", NULL},
    {OP_reshape, {"f32[6/tp, 4]"}, {{.l = {2, {4, 6}}}}, "f32[4/tp, 6]",
     NULL},
    {OP_reshape, {"f32[6, 4/tp]"}, {{.l = {2, {4, 6}}}},
     "it cannot work on parts of that dim over tp", NULL},
    {OP_reshape, {"f32[8/(dp·tp)]"}, {{.l = {2, {4, 2}}}},
     "f32[4/(dp·tp), 2]", NULL},
    {OP_reshape, {"f32[8/(dp·tp)]"}, {{.l = {2, {2, 4}}}},
     "f32[2/dp, 4/tp]", NULL},
    {OP_reshape, {"f32[16/(dp·tp)]"}, {{.l = {2, {4, 4}}}},
     "f32[4/(dp·tp), 4]", NULL},
    {OP_reshape, {"f32[6/(dp·tp)]"}, {{.l = {2, {2, 3}}}},
     "it cannot work on parts of that dim over tp", NULL},
    {OP_broadcast, {"f32[1, 4/tp]"}, {{.l = {3, {2, 8, 4}}}},
     "f32[2, 8, 4/tp]", NULL},
    {OP_broadcast, {"f32[1, 4/tp]"}, {{.l = {3, {2, 8, 4}}}},
     "f32[2, 8/dp, 4/tp]", "f32[2, 8/dp, 4]"},
    {OP_transpose, {"f32[8/dp, 4, 6/tp]"}, {{.l = {3, {2, 0, 1}}}},
     "f32[6/tp, 8/dp, 4]", NULL},
    {OP_slice, {"f32[8/dp, 6]"}, {{.i = 1}, {.i = 2}, {.i = 3}},
     "f32[8/dp, 3]", NULL},
    {OP_slice, {"f32[8, 6/tp]"}, {{.i = 1}, {.i = 2}, {.i = 3}},
     "it cannot work on parts of that dim over tp", NULL},
    {OP_concat, {"f32[8/dp, 6]", "f32[8/dp, 2]"}, {{.i = 1}},
     "f32[8/dp, 8]", NULL},
    /* ops without operands */
    {OP_full, {NULL}, {{.f = 0}, {.i = DT_F32}, {.l = {1, {8}}}},
     "f32[8/dp]+tp", "f32[8/dp]+tp"},
    {OP_full, {NULL}, {{.f = 1}, {.i = DT_F32}, {.l = {1, {8}}}}, "f32[8]",
     "f32[8]+tp"},
    {OP_iota, {"i64[2/tp]"}, {{.i = 8}}, "f32[8/tp]", NULL},
    {OP_iota, {NULL}, {{.i = 8}}, "f32[8]", "f32[8/tp]"},
    /* contraction and indexing */
    {OP_einsum, {"f32[8/dp, 4, 6/tp]", "f32[10, 6/tp]"},
     {{.s = "bsk,fk->bsf"}, {.i = DT_F32}}, "f32[8/dp, 4, 10]+tp", NULL},
    {OP_einsum, {"f32[8/dp, 4, 6]", "f32[10/tp, 6]"},
     {{.s = "bsk,fk->bsf"}, {.i = DT_F32}}, "f32[8/dp, 4, 10/tp]", NULL},
    {OP_einsum, {"f32[8/dp, 4, 6/tp]", "f32[10, 6]"},
     {{.s = "bsk,fk->bsf"}, {.i = DT_F32}},
     "operand 1 is Replicate on tp, the rule needs Shard(1)", NULL},
    {OP_einsum, {"f32[8, 6]", "f32[10, 4]"},
     {{.s = "bk,fk->bf"}, {.i = DT_F32}},
     "dim 1 of operand 1 is 4 where 6 is needed", NULL},
    {OP_einsum, {"f32[8, 6]", "f32[10, 6]"},
     {{.s = "bk,fk>bf"}, {.i = DT_F32}},
     "'bk,fk>bf' is not an einsum: only letters from a to z may stand for dims",
     NULL},
    {OP_embedding, {"f32[10/tp, 6]", "i32[8/dp, 4]", "i64[2/tp]"}, {{0}},
     "f32[8/dp, 4, 6]+tp", NULL},
    {OP_embedding, {"f32[10/tp, 6]", "i32[8/dp, 4]"}, {{0}},
     "a dim is split over tp whose index needs a base operand", NULL},
    {OP_embedding, {"f32[10, 6/tp]", "i32[8/dp, 4]"}, {{0}},
     "f32[8/dp, 4, 6/tp]", NULL},
    {OP_embedding_grad, {"f32[8/dp, 4, 6]", "i32[8/dp, 4]", "i64[2/tp]"},
     {{.i = 10}}, "f32[10/tp, 6]+dp", NULL},
    {OP_embedding_add,
     {"f32[10/tp, 6]+dp", "f32[8/dp, 4, 6]", "i32[8/dp, 4]", "i64[2/tp]"},
     {{0}}, "f32[10/tp, 6]+dp", NULL},
    {OP_embedding_add, {"f32[10, 6]", "f32[8/dp, 4, 6]", "i32[8/dp, 4]"},
     {{0}}, "operand 0 is Replicate on dp, the rule needs Partial(sum)", NULL},
    {OP_embedding_add, {"f32[10, 6]+dp", "f32[8, 4, 6]", "i32[8, 4]"},
     {{0}}, "operand 0 is Partial(sum) on dp, the rule needs Replicate", NULL},
    {OP_onehot, {"i32[8/dp, 4]", "i64[2/tp]"}, {{.i = 10}},
     "f32[8/dp, 4, 10/tp]", NULL},
    /* attention */
    {OP_attention,
     {"f32[8/dp, 5, 4/tp, 6]", "f32[8/dp, 5, 2/tp, 6]",
      "f32[8/dp, 5, 2/tp, 7]"},
     {{.i = 1}, {.f = 1}}, "f32[8/dp, 5, 4/tp, 7], f32[8/dp, 4/tp, 5]", NULL},
    {OP_attention,
     {"f32[8/dp, 5, 4/tp, 6]", "f32[8/dp, 5, 1, 6]", "f32[8/dp, 5, 1, 6]"},
     {{.i = 1}, {.f = 1}}, "f32[8/dp, 5, 4/tp, 6], f32[8/dp, 4/tp, 5]", NULL},
    /* tp splits the kv heads completely; the next axis splits the query heads
     * that share one. */
    {OP_attention,
     {"f32[8, 5, 4/(dp·tp), 6]", "f32[8, 5, 2/dp, 6]", "f32[8, 5, 2/dp, 7]"},
     {{.i = 1}, {.f = 1}}, "f32[8, 5, 4/(dp·tp), 7], f32[8, 4/(dp·tp), 5]",
     NULL},
    {OP_attention,
     {"f32[8, 5, 8/(dp·tp), 6]", "f32[8, 5, 4/dp, 6]", "f32[8, 5, 4/dp, 7]"},
     {{.i = 1}, {.f = 1}},
     "operand 1 is Replicate on tp, the rule needs Shard(2)", NULL},
    {OP_attention,
     {"f32[8/dp, 5, 4/tp, 6]", "f32[8/dp, 5, 2/tp, 6]", "f32[8/dp, 5, 2/tp, 7]",
      "f32[4/tp, 5, 5]"},
     {{.i = 1}, {.f = 1}, [8] = {.i = 14}},
     "f32[8/dp, 5, 4/tp, 7], f32[8/dp, 4/tp, 5]", NULL},
    {OP_attention_bias_grad,
     {"f32[8/dp, 5, 4/tp, 7]", "f32[8/dp, 5, 4/tp, 6]", "f32[8/dp, 5, 2/tp, 6]",
      "f32[8/dp, 5, 2/tp, 7]", "f32[8/dp, 5, 4/tp, 7]", "f32[8/dp, 4/tp, 5]", "f32[5, 5]"},
     {{.i = 1}, {.f = 1}, [8] = {.i = 12}}, "f32[5, 5]+dp+tp", NULL},
    {OP_attention_bias_grad,
     {"f32[8, 5, 4, 7]", "f32[8, 5, 4, 6]", "f32[8, 5, 2, 6]", "f32[8, 5, 2, 7]",
      "f32[8, 5, 4, 7]", "f32[8, 4, 5]", "f32[4, 5]"},
     {{.i = 1}, {.f = 1}, [8] = {.i = 6}},
     "the bias lacks the queries' or the keys' dim", NULL},
    {OP_attention_sinks, {"bf16[8/dp, 5, 4/tp, 7]", "f32[8/dp, 4/tp, 5]", "f32[4/tp]"}, {{0}},
     "bf16[8/dp, 5, 4/tp, 7], f32[8/dp, 4/tp, 5]", NULL},
    /* convolutions */
    {OP_conv, {"f32[8/dp, 6, 5, 5]", "f32[4/tp, 6, 3, 3]"}, CONV(1, 1, 1, 1, 5),
     "f32[8/dp, 4/tp, 5, 5]", NULL},
    {OP_conv, {"bf16[8, 6/tp, 5, 5]", "bf16[4, 6/tp, 3, 3]"}, CONV(2, 0, 1, 1, 2),
     "f32[8, 4, 2, 2]+tp", NULL},
    {OP_conv, {"f32[8, 6/tp, 5, 5]", "f32[4/tp, 3, 3, 3]"}, CONV(1, 2, 2, 2, 5),
     "f32[8, 4/tp, 5, 5]", NULL},
    /* dp splits the groups completely; tp splits the channels of each. */
    {OP_conv, {"f32[8, 8/(dp·tp), 5, 5]", "f32[4/dp, 4/tp, 3, 3]"}, CONV(1, 1, 1, 2, 5),
     "f32[8, 4/dp, 5, 5]+tp", NULL},
    {OP_conv, {"f32[8/dp, 6, 5/tp, 5]", "f32[4, 6, 3, 3]"}, CONV(1, 1, 1, 1, 5),
     "it cannot work on parts of that dim over tp", NULL},
    {OP_conv, {"f32[8, 6, 5, 5]+tp", "f32[4, 6, 3, 3]"}, CONV(1, 1, 1, 1, 5),
     "f32[8, 4, 5, 5]+tp", NULL},
    {OP_conv, {"f32[8, 6, 5, 5]", "f32[4, 6, 3, 3]"}, CONV(1, 1, 1, 1, 6),
     "dim 2 of the convolution's result has 5 elements, not 6", NULL},
    {OP_conv, {"f32[8, 6, 5, 5]", "f32[4, 6, 3, 3]"}, CONV(1, 1, 4, 1, 5),
     "the kernel spans 9 elements of dim 2, whose padded size is 7", NULL},
    {OP_conv, {"f32[8, 6, 5, 5]", "f32[4, 4, 3, 3]"}, CONV(1, 1, 1, 2, 5),
     "dim 1 of operand 0 is 6 where 8 is needed", NULL},
    {OP_conv, {"f32[8, 6, 5, 5]", "bf16[4, 6, 3, 3]"}, CONV(1, 1, 1, 1, 5),
     "the operands differ in their element types", NULL},
    {OP_conv, {"f32[8, 6, 5, 5]", "f32[4, 6, 3, 3]"}, CONV_AS(DT_BF16, 1, 1, 1, 1, 5),
     "the result has neither the operands' element type nor f32", NULL},
    {OP_conv, {"f32[8, 6, 5, 5]", "f32[4, 6, 3, 3]"}, CONV(1, -1, 1, 1, 1),
     "padding is negative or huge", NULL},
    {OP_conv_grad_x, {"f32[8/dp, 4/tp, 5, 5]", "f32[4/tp, 6, 3, 3]"}, CONV(1, 1, 1, 1, 5),
     "f32[8/dp, 6, 5, 5]+tp", NULL},
    {OP_conv_grad_x, {"f32[8, 4, 2, 2]", "f32[4, 6, 3, 3]"}, CONV(2, 0, 1, 1, 6),
     "f32[8, 6, 6, 6]", NULL},
    {OP_conv_grad_weight, {"f32[8/dp, 4/tp, 5, 5]", "f32[8/dp, 6, 5, 5]"}, CONV(1, 1, 1, 1, 3),
     "f32[4/tp, 6, 3, 3]+dp", NULL},
    {OP_conv_grad_weight, {"f32[8/dp, 4/tp, 5, 5]", "f32[8/dp, 6/tp, 5, 5]"},
     CONV(1, 1, 1, 2, 3), "f32[4/tp, 3, 3, 3]+dp", NULL},
    {OP_topk, {"f32[8/dp, 4/tp, 10]"}, {{.i = 3}, {.i = 1}},
     "f32[8/dp, 4/tp, 3], i32[8/dp, 4/tp, 3]", NULL},
    {OP_topk, {"f32[8, 10/tp]"}, {{.i = 3}, {.i = 1}},
     "it cannot work on parts of that dim over tp", NULL},
    {OP_topk, {"f32[8, 10]+tp"}, {{.i = 3}, {.i = 1}},
     "operand 0 is Partial(sum) on tp, the rule needs Replicate, it is not linear there", NULL},
    {OP_topk, {"f32[8, 10]"}, {{.i = 11}, {.i = 1}}, "the last dim has 10 elements, not 11",
     NULL},
    {OP_topk, {"i32[8, 10]"}, {{.i = 1}, {.i = 1}}, "the result's type is not a float type", NULL},
    {OP_topk_grad, {"bf16[8/dp, 3]+tp", "i32[8/dp, 3]"}, {{.i = 10}}, "bf16[8/dp, 10]+tp",
     NULL},
    {OP_topk_grad, {"f32[8, 3]", "i32[8, 3]"}, {{.i = 2}}, "the last dim has 2 elements, not 3",
     NULL},
    {OP_limit_choices, {"i32[8/dp, 4, 2]", "i32[8/dp, 4, 2]"}, {{.i = 6}, {.i = 2}},
     "i32[8/dp, 4, 2], f32[8/dp], f32[8/dp]", NULL},
    {OP_limit_choices, {"i32[8/dp, 4, 2]", "i32[8/dp, 4/tp, 2]", "i64[2/tp]"},
     {{.i = 6}, {.i = 2}}, "i32[8/dp, 4/tp, 2], f32[8/dp]+tp, f32[8/dp]+tp", NULL},
    {OP_limit_choices, {"i32[8, 4/tp, 2]", "i32[8, 4/tp, 2]"}, {{.i = 6}, {.i = 2}},
     "operand 1 is Shard(1) on tp, the rule needs Replicate", NULL},
    {OP_limit_choices, {"i32[8, 4, 2]", "i32[8, 4, 2]"}, {{.i = 6}, {.i = 0}},
     "n or limit is not from 1 to 2^31 - 1", NULL},
    {OP_limit_choices, {"i32[8, 4, 2]", "i32[8, 2, 2]"}, {{.i = 6}, {.i = 2}},
     "the operands differ in the length of sequences", NULL},
    {OP_limit_choices, {"i32[1, 4194304, 8]", "i32[1, 4194304, 8]"}, {{.i = 6}, {.i = 2}},
     "a sequence has 33554432 choices, at most 2^24 are supported", NULL},
    {OP_limit_choices, {"f32[8, 4, 2]", "f32[8, 4, 2]"}, {{.i = 6}, {.i = 2}},
     "operand 0 is f32, it needs integers", NULL},
    {OP_group_rows, {"i32[8/dp, 4, 2]", "i32[]"}, SHAPE(2, 1, 4, 10, 3),
     "i32[2/dp, 1, 4, 10], i32[8/dp, 4, 2], i32[2/dp, 1, 4, 3], f32[2/dp, 1, 4]", NULL},
    {OP_group_rows, {"i32[8, 4, 2]", "i32[]", "i64[2/tp]"}, SHAPE(1, 1, 4, 10, 3),
     "i32[1, 1, 4/tp, 10], i32[8, 4, 2], i32[1, 1, 4/tp, 3], f32[1, 1, 4/tp]",
     "f32[1, 1, 4/tp, 10]"},
    {OP_group_rows, {"i32[8/dp, 4, 2]", "i32[]"}, SHAPE(1, 1, 4, 10, 3),
     "it cannot work on parts of that dim over dp", NULL},
    {OP_group_rows, {"i32[8, 4, 2]", "i32[]"}, SHAPE(3, 1, 4, 10, 3),
     "dim 0 of operand 0 is 8, not a multiple of 3", NULL},
    {OP_group_rows, {"i32[8, 4, 2]", "i32[]"}, SHAPE(1, 1, 0, 10, 3),
     "the number of shards is 0, not from 1 to 2^31 - 1", NULL},
    {OP_group_rows, {"i32[8, 4, 2]", "i32[]"}, SHAPE(1, 1, 1 << 20, 1 << 20, 3),
     "there are 1099511627776 rows of all shards, at most 2^31 - 1 are supported; reduce 'buffer' "
     "or the batch", NULL},
    {OP_group_rows, {"i32[1000000, 8192, 2]", "i32[]"}, SHAPE(1, 1, 1, 10, 3),
     "there are 16384000000 choices, at most 2^31 - 1 are supported; reduce the batch or the "
     "length of sequences", NULL},
    {OP_gather_rows, {"bf16[8/dp, 4, 6/tp]", "i32[2/dp, 1, 4, 10]", "i32[8/dp, 4, 2]"}, {{0}},
     "bf16[2/dp, 1, 4, 10, 6/tp]", NULL},
    {OP_gather_rows, {"f32[8, 4, 6]+tp", "i32[1, 1, 4, 10]", "i32[8, 4, 2]"}, {{0}},
     "f32[1, 1, 4, 10, 6]+tp", NULL},
    {OP_gather_rows, {"f32[8, 4, 6]", "i32[1, 1, 4/tp, 10]", "i32[8, 4, 2]"}, {{0}},
     "f32[1, 1, 4/tp, 10, 6]", NULL},
    {OP_combine_rows,
     {"f32[2/dp, 1, 4/tp, 10, 6]", "i32[2/dp, 1, 4/tp, 10]", "i32[8/dp, 4, 2]", "i64[2/tp]"},
     {{0}}, "f32[8/dp, 4, 6]+tp", NULL},
    {OP_scatter_pairs,
     {"f32[2/dp, 1, 4/tp, 10]", "i32[2/dp, 1, 4/tp, 10]", "i32[8/dp, 4, 2]", "i64[2/tp]"},
     {{0}}, "f32[8/dp, 4, 2]+tp", NULL},
    {OP_gather_pairs, {"f32[8/dp, 4, 2]", "i32[2/dp, 1, 4/tp, 10]", "i32[8/dp, 4, 2]"}, {{0}},
     "f32[2/dp, 1, 4/tp, 10]", NULL},
    {OP_grouped_matmul,
     {"bf16[2/dp, 1, 4/tp, 10, 6]", "bf16[12/tp, 8, 6]", "i32[2/dp, 1, 4/tp, 3]"},
     {{.i = DT_BF16}}, "bf16[2/dp, 1, 4/tp, 10, 8]", NULL},
    {OP_grouped_matmul, {"f32[1, 1, 1, 10, 6/tp]", "f32[3, 8, 6/tp]", "i32[1, 1, 1, 3]"},
     {{.i = DT_F32}}, "f32[1, 1, 1, 10, 8]+tp", NULL},
    {OP_grouped_matmul, {"f32[1, 1, 1, 10, 6]", "f32[3, 8, 6]", "i32[1, 1, 1, 4]"},
     {{.i = DT_F32}}, "dim 0 of operand 1 is 3 where 4 is needed", NULL},
    {OP_grouped_matmul, {"f32[1, 1, 1, 10, 6]", "bf16[3, 8, 6]", "i32[1, 1, 1, 3]"},
     {{.i = DT_F32}}, "the operands differ in their element types", NULL},
    {OP_grouped_matmul_grad_rows,
     {"f32[1, 1, 1, 10, 8/tp]", "f32[3, 8/tp, 6]", "i32[1, 1, 1, 3]"}, {{.i = DT_F32}},
     "f32[1, 1, 1, 10, 6]+tp", NULL},
    {OP_grouped_matmul_grad_weight,
     {"f32[2/dp, 1, 4/tp, 10, 8]", "f32[2/dp, 1, 4/tp, 10, 6]", "i32[2/dp, 1, 4/tp, 3]"},
     {{.i = DT_F32}}, "f32[12/tp, 8, 6]+dp", NULL},
    {OP_rotary, {"f32[8/dp, 4/tp, 4, 6]", "f32[4/tp, 3]", "f32[4/tp, 3]"},
     {{.i = 0}, {.i = 0}}, "f32[8/dp, 4/tp, 4, 6]", NULL},
};

int main(void)
{
    Check c = {0};
    Arena *a = arena_new();
    Program *p = tool_program(a, "dp=2 tp=2");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *is = derive(p, rows[i].kind, rows[i].types, rows[i].attr,
                                rows[i].annotated);
        CHECK_TEXT(&c, is, rows[i].expected);
    }
    arena_free(a);
    return check_end(&c);
}
