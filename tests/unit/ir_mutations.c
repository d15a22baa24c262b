/* ir_mutations.c: checks that every wrong collective is detected.
 *
 * Every example is compiled under each of its plans, and under other plans,
 * for several meshes, in f32 and in 16 bits, up to the passes that only choose
 * order and memory. After each pass every collective in turn is dropped,
 * duplicated, moved to every other set of axes, redirected, or loses an operand,
 * and all later placements are derived as a compiler with that bug would derive
 * them (ir_mutants.c). The verifier must refuse such a program, or the interpreter
 * must compute another result than the model. Swapped tensors of one type,
 * which no verifier can detect, are left to the interpreter.
 */
#include "base/file.h"
#include "check.h"
#include "codegen/target/target.h"
#include "driver/passes/pipeline.h"
#include "tests/unit/ir_mutants.h"
#include "tests/unit/pdl_program.h"
#include "tests/unit/random.h"

#include <stdlib.h>
#include <string.h>

static const double tolerance = 1e-12;

/* ---- programs ------------------------------------------------------------ */

/* Replaces the first `from … to` of the file; `from` NULL: no edit. */
typedef struct Edit {
    const char *from, *to, *with;
} Edit;
enum { EDITS = 2 };

/* `plan` NULL: the file has only one. ALL: a row for check-all, which differs
 * from others only in mesh, precision or target. */
typedef struct Row {
    enum { CPU = 1, CUDA = 2, BOTH = CPU | CUDA, ALL = 4 } target;
    const char *file, *plan, *mesh, *settings;
    Edit edit[EDITS];
} Row;

/* clang-format off */
#define TOY "batch=24 "
#define FEEDFORWARD "dim=8 hidden=8 "
#define GPT2 \
    "vocab=16 dim=8 n_layers=2 n_heads=2 n_positions=4 dropout=0.1 batch=4 seq=4 "
#define TRANSFORMER \
    "vocab=16 dim=8 n_layers=2 n_heads=2 hidden=16 batch=4 seq=3 "
#define LLAMA \
    "vocab=32 dim=8 n_layers=2 n_heads=2 n_kv_heads=2 hidden=16 batch=8 seq=4 "
#define HSDP "vocab=16 dim=8 n_layers=2 n_heads=2 batch=4 seq=4 "
#define VIT \
    "classes=5 size=4 channels=1 patch=2 dim=8 n_layers=2 n_heads=2 hidden=8 " \
    "batch=4 clip=1.0 "
#define TRANSLATION \
    "vocab=16 dim=8 n_layers=1 n_heads=2 hidden=16 batch=4 seq=4 src_seq=6 "
#define REGRESSION "features=3 targets=2 dim=8 hidden=8 n_layers=2 batch=4 "
#define UNBALANCED \
    "vocab=32 dim=8 n_layers=2 n_heads=2 n_kv_heads=2 head_dim=4 hidden=8 experts=4 top_k=2 " \
    "batch=4 seq=4 "
#define MIXTRAL UNBALANCED "aux_loss=0.1 "
#define F32 "precision=f32 "
#define BF16 "precision=bf16 reduce=bf16 "

#define AS_IS {{NULL, NULL, NULL}}
/* Edits of the plan: its axes; its fully_shard with all later clauses. */
#define AXES(text) {"\nplan ", ")", "\nplan p(" text ")"}
#define UNITS(text) {"\n    fully_shard ", "}", "\n" text}
/* Edits of gpt2: the output layout of attention, and the input layout of the
 * norm that reads the residual stream. */
#define ATTENTION(output) \
    {"attn.c_proj: ", "\n", "attn.c_proj: RowwiseParallel(output=" output ")\n"}
#define NORM(style) {"h.*.ln_2: ", "\n", "h.*.ln_2: " style "\n"}

/* The plan of llama with a context instead of tensor parallelism. */
#define RING \
    {"\n    parallelize", "}\n    fully_shard", \
     "\n    context cp { attention: exchange=ring }\n    fully_shard"}

/* The plan of mixtral with its experts on an axis of its own. */
#define EXPERTS(options) \
    {"\nplan ", "    fully_shard dp", \
     "\nplan p(dp, ep) {\n    expert_parallel ep { layers.*.moe: buffer=none" options " }\n" \
     "    fully_shard (dp, ep)"}

/* The plan of mixtral with sequences split. */
#define SEQUENCES \
    {"\nplan ", "    fully_shard dp", \
     "\nplan p(dp, cp) {\n    context cp { attention: exchange=gather }\n" \
     "    fully_shard (dp, cp)"}

/* A mesh "4x1@2" has nodes of two ranks. */
static const Row rows[] = {
    {CPU, "toy", NULL, "2x3", TOY, AS_IS},
    {CPU | ALL, "toy", NULL, "2x1", TOY, AS_IS},
    {CPU | ALL, "toy", NULL, "1x2", TOY, AS_IS},
    {CUDA, "toy", NULL, "2x2", TOY BF16,
     {UNITS("fully_shard fsdp { net1: strategy=shard_grad_op }")}},
    {CPU, "toy", NULL, "2x2", TOY,
     {UNITS("fully_shard fsdp { net1: strategy=no_shard }")}},
    {CPU, "toy", NULL, "2x2x2", TOY,
     {AXES("rep, fsdp, tp"), UNITS("fully_shard (rep, fsdp) { net1 }")}},

    /* Collectives over an axis with two ranks on each node become several. */
    {CUDA, "toy", NULL, "4x1@2", TOY, AS_IS},
    {CPU, "toy", NULL, "1x4@2", TOY, AS_IS},
    {CPU, "feedforward", NULL, "4x1@2", FEEDFORWARD "dim=64 hidden=128",
     {UNITS("fully_shard data_parallel { w1, w2, w3: strategy=no_shard }")}},

    {CPU, "feedforward", NULL, "2x2", FEEDFORWARD, AS_IS},
    {CPU | ALL, "feedforward", NULL, "2x1", FEEDFORWARD, AS_IS},
    {CPU | ALL, "feedforward", NULL, "1x2", FEEDFORWARD, AS_IS},
    {CUDA, "feedforward", NULL, "2x2", FEEDFORWARD BF16 "accumulate=2", AS_IS},
    {CPU, "feedforward", NULL, "2x2", FEEDFORWARD,
     {UNITS("fully_shard data_parallel { w1: strategy=shard_grad_op\n"
            "w2: strategy=no_shard\nw3 }\ncheckpoint { model }")}},
    {CPU, "feedforward", NULL, "2x2x2", FEEDFORWARD,
     {AXES("rep, dp, tensor_parallel"),
      UNITS("fully_shard (rep, dp) { w1, w2: reshard=false\n"
            "w3: reshard=true }")}},

    {CPU | ALL, "gpt2", NULL, "2x2", GPT2 F32, AS_IS},
    {BOTH, "gpt2", NULL, "2x2", GPT2 BF16, AS_IS},
    {CPU | ALL, "gpt2", NULL, "2x1", GPT2 F32, AS_IS},
    {CUDA | ALL, "gpt2", NULL, "1x2", GPT2 BF16, AS_IS},
    {CUDA, "gpt2", NULL, "2x2", GPT2 BF16 "vocab=17 batch=8 accumulate=2",
     {UNITS("fully_shard dp { [wte, wpe, ln_f], h.* }\ncheckpoint { h.* }")}},
    {CUDA, "gpt2", NULL, "2x2x2", GPT2 BF16,
     {AXES("rep, dp, tp"),
      UNITS("fully_shard (rep, dp) { [wte, wpe, ln_f], h.*: reshard=true }")}},
    {CPU, "gpt2", NULL, "2x2", GPT2 F32,
     {UNITS("fully_shard dp { [wte, wpe, ln_f]: strategy=no_shard\n"
            "h.*: strategy=shard_grad_op }")}},
    {CPU, "gpt2", NULL, "2x2", GPT2 F32,
     {ATTENTION("Shard(2)"), NORM("PrepareModuleInput(Shard(2) -> Shard(1))")}},

    /* Experts on tp, gathered or exchanged. */
    /* A loss of balance is a product of two sums, which may be exchanged. */
    {CPU, "mixtral", NULL, "2x2", UNBALANCED F32,
     {{"expert_parallel", "}", "expert_parallel tp { layers.*.moe: buffer=none }"}}},
    {CPU, "mixtral", NULL, "2x2", MIXTRAL F32, {EXPERTS(", dispatch=gather")}},
    {CPU, "mixtral", NULL, "2x2", MIXTRAL F32, {EXPERTS(", dispatch=all_to_all")}},
    {CPU, "mixtral", NULL, "2x2", UNBALANCED F32 "capacity=1.0", {SEQUENCES}},
    {CUDA | ALL, "mixtral", NULL, "1x4", MIXTRAL BF16, {EXPERTS(", dispatch=all_to_all")}},
    {CUDA | ALL, "mixtral", NULL, "2x2", MIXTRAL BF16 "batch=8 accumulate=2",
     {EXPERTS(", dispatch=all_to_all")}},

    {CPU, "transformer", "full_shard", "2", TRANSFORMER, AS_IS},
    {CUDA | ALL, "transformer", "full_shard", "2", TRANSFORMER BF16, AS_IS},
    {CPU | ALL, "transformer", "shard_grad_op", "2", TRANSFORMER, AS_IS},
    {CUDA, "transformer", "shard_grad_op", "2", TRANSFORMER BF16, AS_IS},
    {CPU, "transformer", "no_shard", "2", TRANSFORMER, AS_IS},
    {CUDA | ALL, "transformer", "no_shard", "2", TRANSFORMER BF16, AS_IS},
    {CPU | ALL, "transformer", "full_shard_checkpoint", "2", TRANSFORMER, AS_IS},
    {CUDA, "transformer", "full_shard_checkpoint", "2", TRANSFORMER BF16,
     AS_IS},
    {CPU, "transformer", "tensor_parallel", "2x2", TRANSFORMER, AS_IS},
    {CUDA | ALL, "transformer", "tensor_parallel", "2x2", TRANSFORMER BF16, AS_IS},
    {CPU | ALL, "transformer", "tensor_parallel", "2x1", TRANSFORMER, AS_IS},
    {CPU | ALL, "transformer", "tensor_parallel", "1x2", TRANSFORMER, AS_IS},

    {CPU | ALL, "llama", NULL, "2x2", LLAMA F32, AS_IS},
    {BOTH, "llama", NULL, "2x2", LLAMA BF16, AS_IS},
    {CUDA | ALL, "llama", NULL, "2x1", LLAMA BF16, AS_IS},
    {CUDA, "llama", NULL, "2x2", LLAMA BF16,
     {UNITS("fully_shard dp { tok_embeddings, layers.*, [norm, output] }\n"
            "offload { parameters, optimizer }")}},
    {CPU | ALL, "llama", NULL, "1x2", LLAMA F32, AS_IS},
    {BOTH, "llama", NULL, "2x2", LLAMA F32 "accumulate=2 head_chunk=4 clip=1",
     AS_IS},
    {BOTH, "llama", NULL, "2x2", LLAMA "precision=f16 vocab=33 accumulate=2",
     AS_IS},
    {CPU | ALL, "llama", NULL, "2x4", LLAMA F32 "n_heads=4 n_kv_heads=2", AS_IS},
    {CUDA, "llama", NULL, "2x4", LLAMA BF16 "n_heads=4 n_kv_heads=2",
     {UNITS("fully_shard dp { tok_embeddings, layers.*, [norm, output] }\n"
            "checkpoint { layers.*: keep=attention }")}},
    {CPU, "llama", NULL, "2x2", LLAMA F32,
     {UNITS("fully_shard dp { layers.*: reshard=true }")}},
    {CPU, "llama", NULL, "2x2", LLAMA F32,
     {UNITS("fully_shard dp { model, layers.*: strategy=shard_grad_op }")}},
    {CUDA | ALL, "llama", NULL, "2x2", LLAMA BF16,
     {UNITS("fully_shard dp { model, layers.*: strategy=shard_grad_op }")}},
    {CPU | ALL, "llama", NULL, "2x2", LLAMA F32,
     {UNITS("fully_shard dp { tok_embeddings, layers.*: strategy=no_shard }")}},
    {CUDA, "llama", NULL, "2x2", LLAMA BF16,
     {UNITS("fully_shard dp { tok_embeddings, layers.*: strategy=no_shard }")}},
    {CPU, "llama", NULL, "2x2", LLAMA F32, {UNITS("")}},
    {CPU | ALL, "llama", NULL, "2x2x2", LLAMA F32,
     {AXES("rep, dp, tp"), UNITS("fully_shard (rep, dp) { layers.* }")}},
    {CUDA, "llama", NULL, "2x2x2", LLAMA BF16,
     {AXES("rep, dp, tp"),
      UNITS("fully_shard (rep, dp) { model, layers.*: reshard=false }")}},

    {CPU | ALL, "hsdp", NULL, "2x2x2", HSDP F32, AS_IS},
    {BOTH, "hsdp", NULL, "2x2x2", HSDP BF16, AS_IS},
    {CUDA | ALL, "hsdp", NULL, "1x2x2", HSDP BF16, AS_IS},
    {CPU | ALL, "hsdp", NULL, "2x1x2", HSDP F32, AS_IS},
    {CUDA, "hsdp", NULL, "2x2x1", HSDP BF16 "batch=8 accumulate=2", AS_IS},

    {BOTH, "llama", NULL, "1x3", LLAMA F32 "seq=6", {AXES("dp, cp"), RING}},
    {CUDA, "llama", NULL, "1x2", LLAMA BF16 "async_tp=2", AS_IS},
    {CUDA, "llama", NULL, "2x2", LLAMA BF16 "accumulate=2",
     {UNITS("fully_shard dp { [norm, output]\n"
            "layers.*, tok_embeddings: gather=step, reduce=step }")}},

    /* Pipelines: a tied table, an encoder and a decoder on different stages. */
    {BOTH, "llama", NULL, "2x2x1", LLAMA F32 "accumulate=2 clip=1",
     {AXES("pp, dp, tp"),
      UNITS("fully_shard dp { tok_embeddings, layers.*, [norm, output] }\n"
            "pipeline pp { schedule=1f1b }")}},
    {CUDA, "llama", NULL, "2x1x2", LLAMA BF16,
     {AXES("pp, dp, tp"), UNITS("pipeline pp { split=[layers.0, layers.1] }")}},
    {CPU, "gpt2", NULL, "2x2x1", GPT2 BF16,
     {AXES("dp, pp, tp"),
      UNITS("fully_shard dp { [wte, wpe, ln_f], h.* }\npipeline pp { }")}},
    {CPU, "translation", NULL, "3x1x1", TRANSLATION F32,
     {AXES("pp, dp, tp"), UNITS("pipeline pp { }")}},

    {CPU, "vit", NULL, "2x2", VIT F32, AS_IS},
    {CUDA, "translation", NULL, "2x2", TRANSLATION BF16, AS_IS},
    {CPU, "regression", NULL, "2x2", REGRESSION F32 "accumulate=2", AS_IS},
};
/* clang-format on */

/* NULL if the text lacks the part to replace. */
static const char *edited(Arena *a, const char *text, const Edit *e)
{
    const char *begin = e->from ? strstr(text, e->from) : NULL;
    const char *end = begin ? strstr(begin + strlen(e->from), e->to) : NULL;
    if (!e->from)
        return text;
    return end ? arena_printf(a, "%.*s%s%s", (int)(begin - text), text, e->with,
                              end + strlen(e->to))
               : NULL;
}

/* The program after `lower`; NULL after errors, which are in d. */
static Program *compile(Arena *a, Diag *d, const Row *row)
{
    enum { MOST = 24 };
    const char *define[MOST] = {NULL};
    int n = 0;
    char *rest = arena_strdup(a, row->settings);
    for (char *s; (s = strtok_r(rest, " ", &rest)) && n < MOST - 1;)
        define[n++] = s;
    size_t size;
    const char *text =
        file_read(a, arena_printf(a, "examples/%s.pdl", row->file), &size);
    for (int i = 0; i < EDITS && text; i++)
        text = edited(a, text, &row->edit[i]);
    char *mesh = arena_strdup(a, row->mesh), *node = strchr(mesh, '@');
    if (node)
        *node++ = 0;
    Program *p =
        text ? pdl_program(a, d, text, mesh, row->plan, define) : NULL;
    if (p && node)
        p->mesh.node = atoi(node);
    return p;
}

/* ---- mutants ------------------------------------------------------------- */

typedef struct Text {
    const char *text;
    size_t size;
} Text;

typedef struct Test {
    Check *c;
    const Row *row;
    const char *pass; /* the last pass that ran */
    Arena *arena;     /* memory of the row */
    Arena *scratch;   /* memory of a mutant */
    Interp *global;   /* the results that all programs of the row must have */
    VEC(Text) seen;   /* programs whose mutants were tested */
    int failed;       /* c->failed before the row */
} Test;

/* Runs p; NULL if its results are right. */
static const char *interpret(const Test *t, Arena *a, const Program *p)
{
    Interp *in = interp_new(p);
    random_values(in, p, 1);
    const char *fault = interp_run(in);
    if (!fault)
        fault = compare_runs(a, p, t->global, in, tolerance);
    fault = fault ? arena_strdup(a, fault) : NULL;
    interp_free(in);
    return fault;
}

static Program *copy_to_scratch(const Test *t, const Program *p)
{
    arena_reset(t->scratch);
    Program base = *p;
    base.arena = t->scratch;
    return ir_copy(&base);
}

static void test_mutant(Test *t, const Program *whole, int n, Fault fault)
{
    static const char *const words[FAULT_KINDS] = {
        [LEFT_OUT] = "left out",
        [TWICE] = "twice",
        [ASTRAY] = "over the axes",
        [REDIRECTED] = "redirected",
        [ONE_OUT] = "without operand",
        [EXCHANGED] = "exchanging two operands from",
    };
    Program *p = copy_to_scratch(t, whole);
    if (!inject(p, n, fault))
        return;
    bool noticed = !derive_placements(p) || ir_verify(p) ||
                   interpret(t, t->scratch, p);
    CHECK(t->c, noticed);
    if (noticed)
        return;
    const Op *op = mutable_op(whole, n);
    printf("after %s: %s %%%s, %s", t->pass, op_info(op->kind)->name,
           op->out[0]->name, words[fault.kind]);
    if (fault.kind > TWICE)
        printf(" %d", fault.which);
    printf("\n");
}

static void test_faults(Test *t, const Program *p, FaultKind kind)
{
    for (int n = mutable_ops(p) - 1; n >= 0; n--) {
        int many = fault_count(p, mutable_op(p, n), kind);
        for (int i = 0; i < many; i++)
            test_mutant(t, p, n, (Fault){kind, i});
    }
}

/* A pass that changed nothing leaves a program that was tested before. */
static bool was_seen(Test *t, const Program *p)
{
    Out o;
    out_init(&o, t->arena);
    ir_print(&o, p);
    for (int i = 0; i < t->seen.n; i++)
        if (t->seen.at[i].size == o.size &&
            memcmp(t->seen.at[i].text, o.text, o.size) == 0)
            return true;
    Text text = {o.text, o.size};
    vec_push(t->arena, &t->seen, text);
    return false;
}

/* Outside of check-all every fifth program that a pass has changed is tested. */
static void test_program(Test *t, const Program *p)
{
    if (p->stage < STAGE_PARTITIONED || was_seen(t, p) ||
        t->seen.n % few_or_all(24, 1))
        return;
    CHECK_TEXT(t->c, ir_verify(p), NULL);
    /* The unchanged program must pass: derived placements are no fault. */
    Program *same = copy_to_scratch(t, p);
    CHECK(t->c, derive_placements(same) && !ir_verify(same));
    for (FaultKind kind = LEFT_OUT; kind < EXCHANGED; kind++)
        test_faults(t, p, kind);
}

/* ---- passes -------------------------------------------------------------- */

static void run_global(Test *t, const Program *p)
{
    t->global = interp_new(ir_copy(p));
    random_values(t->global, p, 1);
    CHECK_TEXT(t->c, interp_run(t->global), NULL);
}

/* Runs all passes before `transfers`; later ones change no op that has mutants.
 * Numbers are compared only after the last pass, as that takes time. */
static void test_passes(Test *t, Program *p, const TargetInfo *target)
{
    for (int i = 0; strcmp(pass_name(i), "transfers") != 0; i++) {
        t->pass = pass_name(i);
        ir_renumber(p);
        pass_table[i].run(p, target);
        CHECK(t->c, diag_error_count(p->diag) == 0);
        if (diag_error_count(p->diag) > 0)
            return;
        if (strcmp(t->pass, "autodiff") == 0 && !t->global)
            run_global(t, p);
        test_program(t, p);
    }
    CHECK_TEXT(t->c, interpret(t, t->arena, p), NULL);
    test_faults(t, p, EXCHANGED);
}

static void test_row(Check *c, const Row *row)
{
    Arena *a = arena_new();
    Diag *d = diag_new(a, COLOR_NEVER);
    Test t = {.c = c,
              .row = row,
              .arena = a,
              .scratch = arena_new(),
              .failed = c->failed};
    Program *p = compile(a, d, row);
    CHECK(c, p != NULL);
    if (p && row->target & CPU) {
        TargetInfo cpu = target_info(TARGET_CPU, 1);
        test_passes(&t, ir_copy(p), &cpu);
    }
    if (p && row->target & CUDA) {
        TargetInfo cuda = target_info(TARGET_CUDA, 1);
        test_passes(&t, ir_copy(p), &cuda);
    }
    if (c->failed > t.failed)
        printf("in: %s, plan %s, mesh %s, %s\n", row->file,
               row->plan ? row->plan : "of the file", row->mesh, row->settings);
    diag_flush(d, stdout);
    if (t.global)
        interp_free(t.global);
    arena_free(t.scratch);
    arena_free(a);
}

int main(void)
{
    Check c = {0};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!(rows[i].target & ALL) || few_or_all(false, true))
            test_row(&c, &rows[i]);
    return check_end(&c);
}
