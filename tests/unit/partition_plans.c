/* partition_plans.c: tests which collectives a plan needs.
 *
 * Each row is a model, a plan and a mesh, and the list of collectives after
 * `storage`: phase, axes, kind, number of tensors in the group if several,
 * calls if it is in a loop. The rows follow PyTorch's styles, and need fewer
 * collectives where sums can be deferred and merged.
 */
#include "check.h"
#include "frontend/frontend.h"
#include "passes/pass.h"

/* ---- models -------------------------------------------------------------- */

#define NET                                                         \
    "module Net(dim, hidden) {\n"                                   \
    "  w1: Linear(dim, hidden)\n"                                   \
    "  w2: Linear(hidden, dim)\n"                                   \
    "  forward(x) { return w2(gelu(w1(x))) }\n"                     \
    "}\n"
/* `inner` has an input gradient, as a module within a network has. */
#define MLP                                                         \
    NET "model M() {\n"                                             \
        "  first: Linear(16, 16)\n"                                 \
        "  net: Net(16, 32)\n"                                      \
        "  forward(x: [batch, seq, 16]) {\n"                        \
        "    return sum(net(first(x))) } }\n"
#define LM                                                          \
    NET "module Block(dim) {\n"                                     \
        "  norm: LayerNorm(dim)\n"                                  \
        "  net: Net(dim, 32)\n"                                     \
        "  forward(x) { return x + net(norm(x)) }\n"                \
        "}\n"                                                       \
        "model M() {\n"                                             \
        "  tok: Embedding(64, 16)\n"                                \
        "  layers: [3] Block(16)\n"                                 \
        "  out: Linear(16, 64)\n"                                   \
        "  forward(ids: int(64)[batch, seq],\n"                     \
        "          labels: int(64)[batch, seq]) {\n"                \
        "    h = tok(ids)\n"                                        \
        "    for layer in layers { h = layer(h) }\n"                \
        "    return cross_entropy(out(h), labels) } }\n"
#define TIED                                                        \
    "model M() {\n"                                                 \
    "  tok: Embedding(64, 16)\n"                                    \
    "  out: Linear(16, 64, bias=false)\n"                           \
    "  tie out.weight = tok.weight\n"                               \
    "  forward(ids: int(64)[batch, seq],\n"                         \
    "          labels: int(64)[batch, seq]) {\n"                    \
    "    return cross_entropy(out(tok(ids)), labels) } }\n"
#define TRAIN                                                       \
    "train {\n batch = 8\n seq = 8\n precision = f32\n"             \
    " optimizer = SGD(lr=0.1)\n}\n"
/* A unit for each layer and one for the rest, like PyTorch's root module. */
#define SHARD(axes, options)                                        \
    "plan p(rep, dp) { fully_shard " axes                           \
    " { model" options "\nlayers.*" options " } }\n"
#define PLAN(lines) "plan p(dp, tp) { parallelize tp {\n" lines "\n} }\n"

static const struct {
    const char *name, *model, *plan, *mesh, *expected;
} rows[] = {
    {"no axis", LM, "", "1", ""},
    {"an axis of one rank", LM,
     "plan p(rep, dp) { fully_shard (rep, dp) { layers.*: prefetch=1 } }\n",
     "1x1", ""},
    /* All-reduces of the loss and of the gradients: one bucket for each module
     * below the model. (Every rank knows the last bias's: the token count.) The
     * gradient norm needs none, as the gradients are replicated. */
    {"plain data parallelism", MLP, "plan p(dp) {}\n", "4",
     "forward dp all_reduce\n"
     "backward dp all_reduce n=3\n"
     "backward dp all_reduce n=2\n"},
    {"data parallelism over both axes", LM, "plan p(a, b) {}\n", "2x2",
     "forward a,b all_reduce\n"
     "backward a,b all_reduce n=2\n"
     "backward a,b all_reduce n=6 x3\n"
     "backward a,b all_reduce\n"},
    /* Colwise, Rowwise: one all-reduce in the forward pass. Only two small
     * parameters need the input's gradient: their gradients are reduced. */
    {"MLP", MLP,
     PLAN("net.w1: ColwiseParallel\nnet.w2: RowwiseParallel"), "1x4",
     "forward tp all_reduce\n"
     "backward tp all_reduce n=2\n"
     "optimizer tp all_reduce\n"},
    {"MLP with sequence parallelism", MLP,
     PLAN("first: SequenceParallel\n"
          "net: PrepareModuleInput(Shard(1) -> Replicate)\n"
          "net.w1: ColwiseParallel\n"
          "net.w2: RowwiseParallel(output=Shard(1))"), "1x4",
     "forward tp all_gather\n"
     "forward tp reduce_scatter\n"
     "forward tp all_reduce\n"
     "backward tp all_gather\n"
     "backward tp reduce_scatter\n"
     "backward tp all_reduce n=2\n"
     "optimizer tp all_reduce\n"},
    /* w2 has no style and is replicated, so its gradient is gathered. */
    {"Colwise with a split input", MLP,
     PLAN("net.w1: ColwiseParallel(input=Shard(1))\n"
          "first: SequenceParallel"), "1x2",
     "forward tp all_gather\n"
     "forward tp all_reduce\n"
     "backward tp reduce_scatter\n"
     "backward tp all_reduce n=2\n"
     "backward tp all_gather\n"
     "optimizer tp all_reduce\n"},
    {"Rowwise Embedding", LM,
     PLAN("tok: RowwiseParallel(input=Replicate)"), "1x2",
     "forward tp all_reduce\n"
     "optimizer tp all_reduce\n"},
    {"Colwise Embedding", LM, PLAN("tok: ColwiseParallel(output=Replicate)"),
     "1x2",
     "forward tp all_gather\n"
     "optimizer tp all_reduce\n"},
    {"loss parallel", LM, PLAN("out: ColwiseParallel"), "1x2",
     "forward tp all_reduce\n"
     "forward tp all_reduce\n"
     "forward tp all_reduce\n"
     "backward tp all_reduce\n"
     "optimizer tp all_reduce\n"},
    {"layers", LM,
     PLAN("layers.*.net.w1: ColwiseParallel\n"
          "layers.*.net.w2: RowwiseParallel"), "2x2",
     "forward tp all_reduce x3\n"
     "forward dp all_reduce\n"
     "backward dp all_reduce n=2\n"
     "backward tp all_reduce x3\n"
     "backward dp all_reduce n=6 x3\n"
     "backward dp all_reduce\n"
     "optimizer tp all_reduce\n"},
    {"layers with sequence parallelism", LM,
     PLAN("tok: RowwiseParallel(input=Replicate, output=Shard(1))\n"
          "layers.*.norm: SequenceParallel\n"
          "layers.*.net: PrepareModuleInput(Shard(1) -> Replicate)\n"
          "layers.*.net.w1: ColwiseParallel\n"
          "layers.*.net.w2: RowwiseParallel(output=Shard(1))\n"
          "out: ColwiseParallel(input=Shard(1))"), "2x2",
     "forward tp reduce_scatter\n"
     "forward tp all_gather x3\n"
     "forward tp reduce_scatter x3\n"
     "forward tp all_gather\n"
     "forward tp all_reduce\n"
     "forward tp all_reduce\n"
     "forward dp,tp all_reduce\n"
     "backward dp all_reduce n=2\n"
     "backward tp reduce_scatter\n"
     "backward tp all_gather x3\n"
     "backward tp reduce_scatter x3\n"
     "backward dp all_reduce n=6 x3\n"
     "backward tp all_gather\n"
     "backward dp all_reduce\n"
     "backward tp all_reduce n=2\n"
     "optimizer tp all_reduce\n"},
    /* Strategies: L + 1 gathers in the forward pass; L + 1, L or none in the
     * backward pass; L + 1 reduce-scatters. */
    {"full_shard", LM, SHARD("dp", ": strategy=full_shard"), "1x2",
     "forward dp all_gather n=3\n"
     "forward dp all_gather n=6 x3\n"
     "forward dp all_reduce\n"
     "backward dp all_gather n=3 x3\n"
     "backward dp reduce_scatter n=6 x3\n"
     "backward dp reduce_scatter n=3\n"
     "optimizer dp all_reduce\n"},
    {"reshard=true", LM, SHARD("dp", ": reshard=true"), "1x2",
     "forward dp all_gather n=3\n"
     "forward dp all_gather n=6 x3\n"
     "forward dp all_reduce\n"
     "backward dp all_gather\n"
     "backward dp all_gather n=3 x3\n"
     "backward dp reduce_scatter n=6 x3\n"
     "backward dp reduce_scatter n=3\n"
     "optimizer dp all_reduce\n"},
    {"shard_grad_op", LM, SHARD("dp", ": strategy=shard_grad_op"), "1x2",
     "forward dp all_gather n=3\n"
     "forward dp all_gather n=6 x3\n"
     "forward dp all_reduce\n"
     "backward dp reduce_scatter n=6 x3\n"
     "backward dp reduce_scatter n=3\n"
     "optimizer dp all_reduce\n"},
    {"no_shard", LM, SHARD("dp", ": strategy=no_shard"), "1x2",
     "forward dp all_reduce\n"
     "backward dp all_reduce n=6 x3\n"
     "backward dp all_reduce n=3\n"},
    {"hybrid_shard", LM, SHARD("(rep, dp)", ": strategy=hybrid_shard"), "2x2",
     "forward dp all_gather n=3\n"
     "forward dp all_gather n=6 x3\n"
     "forward rep,dp all_reduce\n"
     "backward dp all_gather n=3 x3\n"
     "backward dp reduce_scatter n=6 x3\n"
     "backward rep all_reduce n=6 x3\n"
     "backward dp reduce_scatter n=3\n"
     "backward rep all_reduce n=3\n"
     "optimizer dp all_reduce\n"},
    {"replicas and shards", LM, SHARD("(rep, dp)", ": reshard=false"), "2x2",
     "forward dp all_gather n=3\n"
     "forward dp all_gather n=6 x3\n"
     "forward rep,dp all_reduce\n"
     "backward dp reduce_scatter n=6 x3\n"
     "backward rep all_reduce n=6 x3\n"
     "backward dp reduce_scatter n=3\n"
     "backward rep all_reduce n=3\n"
     "optimizer dp all_reduce\n"},
    {"hybrid_shard on one replica", LM, SHARD("(rep, dp)", ""), "1x2",
     "forward dp all_gather n=3\n"
     "forward dp all_gather n=6 x3\n"
     "forward dp all_reduce\n"
     "backward dp all_gather n=3 x3\n"
     "backward dp reduce_scatter n=6 x3\n"
     "backward dp reduce_scatter n=3\n"
     "optimizer dp all_reduce\n"},
    {"hybrid_shard on one shard", LM, SHARD("(rep, dp)", ""), "2x1",
     "forward rep all_reduce\n"
     "backward rep all_reduce n=6 x3\n"
     "backward rep all_reduce n=3\n"},
    {"one unit of each kind", LM,
     "plan p(rep, dp) { fully_shard (rep, dp) { tok: strategy=no_shard\n"
     "layers.*: reshard=true\nevery LayerNorm: reshard=false }\n"
     "fully_shard rep { out } }\n", "2x2",
     "forward dp all_gather n=2 x3\n"
     "forward dp all_gather n=4 x3\n"
     "forward rep all_gather n=2\n"
     "forward rep,dp all_reduce\n"
     "backward rep reduce_scatter n=2\n"
     "backward dp all_reduce n=2\n"
     "backward dp all_gather n=2 x3\n"
     "backward dp reduce_scatter n=4 x3\n"
     "backward rep all_reduce n=4 x3\n"
     "backward dp reduce_scatter n=2 x3\n"
     "backward rep all_reduce n=2 x3\n"
     "backward rep,dp all_reduce\n"
     "optimizer dp all_reduce\n"
     "optimizer rep all_reduce\n"},
    {"tied", TIED,
     PLAN("tok: RowwiseParallel(input=Replicate)\nout: ColwiseParallel"),
     "1x2",
     "forward tp all_reduce\n"
     "forward tp all_reduce\n"
     "forward tp all_reduce\n"
     "forward tp all_reduce\n"
     "backward tp all_reduce\n"
     "optimizer tp all_reduce\n"},
};

/* ---- running a row ------------------------------------------------------- */

typedef struct Listing {
    Program *p;
    Out o;
} Listing;

static void list_op(Op *op, void *context)
{
    Listing *l = context;
    if (!op_is_collective(op->kind))
        return;
    int64_t axes = attr_axes(op);
    out(&l->o, "%s ", phase_name(op->phase));
    const char *comma = "";
    for (int a = 0; a < l->p->mesh.n; a++)
        if (axes >> a & 1) {
            out(&l->o, "%s%s", comma, l->p->mesh.name[a]);
            comma = ",";
        }
    out(&l->o, " %s", op_info(op->kind)->name);
    if (op->nargs > 1)
        out(&l->o, " n=%d", op->nargs);
    if (ir_trip_count(op) > 1)
        out(&l->o, " x%d", (int)ir_trip_count(op));
    out(&l->o, "\n");
}

static const char *run_passes(Program *p)
{
    TargetInfo t = {.target = TARGET_CPU, .threads = 1, .alignment = 64};
    static void (*const pass[])(Program *, const TargetInfo *) = {
        pass_autodiff, pass_plan, pass_propagate, pass_partition,
        pass_simplify, pass_storage};
    for (size_t i = 0; i < sizeof pass / sizeof *pass; i++) {
        pass[i](p, &t);
        const char *fault = diag_error_count(p->diag) ? "errors"
                                                      : ir_verify(p);
        if (fault)
            return fault;
    }
    return NULL;
}

static const char *collectives(Arena *a, Diag *d, const char *text,
                               const char *mesh)
{
    const File *prelude = pdl_parse(
        a, d, diag_source(d, "<prelude>", prelude_text, prelude_size));
    const File *file =
        pdl_parse(a, d, diag_source(d, "test.pdl", text, strlen(text)));
    FrontendOptions options = {.mesh = mesh};
    if (!prelude || !file)
        return "syntax errors";
    pdl_check(a, d, prelude, file);
    Program *p = lower(a, d, prelude, file, &options);
    if (!p || diag_error_count(d))
        return "errors";
    const char *fault = run_passes(p);
    if (fault)
        return fault;
    Listing l = {.p = p};
    out_init(&l.o, a);
    ir_walk(p->step, list_op, &l);
    return l.o.size ? l.o.text : "";
}

int main(void)
{
    Check c = {0};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        Arena *a = arena_new();
        Diag *d = diag_new(a, COLOR_NEVER);
        const char *text = arena_printf(a, "%s%s%s", rows[i].model,
                                        rows[i].plan, TRAIN);
        const char *is = collectives(a, d, text, rows[i].mesh);
        int failed = c.failed;
        CHECK_TEXT(&c, is, rows[i].expected);
        if (c.failed > failed) {
            printf("in: %s\n", rows[i].name);
            diag_flush(d, stdout);
        }
        arena_free(a);
    }
    return check_end(&c);
}
