/* fuse_tools.c: compares fused kernels with the interpreter; see
 * fuse_tools.h. */
#include "tests/unit/fuse_tools.h"

#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bug.h"
#include "base/file.h"
#include "codegen/kernel/kernel.h"
#include "codegen/target/target.h"
#include "tests/interp/interp.h"
#include "passes/pass.h"
#include "tests/unit/random.h"

/* ---- random programs ----------------------------------------------------- */

bool fuse_random_program(Program *p, uint64_t seed, Target target)
{
    Rng r = {seed};
    uint32_t data_axes = random_mesh(p, &r, NULL);
    random_model(p, &r, data_axes);
    random_plan(p, &r, data_axes);
    TargetInfo t = target_info(target, 1);
    for (int i = 0; i < pass_count; i++) {
        pass_table[i].run(p, &t);
        if (diag_error_count(p->diag) > 0)
            return false;
        if (strcmp(pass_table[i].name, "fuse") == 0)
            break;
    }
    return true;
}

/* ---- building ------------------------------------------------------------ */

FuseTest fuse_test(Phase phase)
{
    FuseTest t = {.arena = arena_new()};
    t.p = ir_program(t.arena, diag_new(t.arena, COLOR_NEVER));
    t.p->stage = STAGE_STORED;
    t.p->mesh = (Mesh){.n = 1, .name = {"dp"}, .size = {1}};
    t.p->model = "test";
    t.b = (Build){.p = t.p, .region = t.p->step, .phase = phase, .path = ""};
    return t;
}

static Type type_of(DType dtype, int ndim, const int64_t *dim)
{
    Type t = {.dtype = dtype, .ndim = ndim};
    for (int i = 0; i < ndim; i++)
        t.dim[i] = dim[i];
    return t;
}

Value *fuse_param(FuseTest *t, const char *name, int ndim, const int64_t *dim,
                  double centre, double spread)
{
    Param param = {.name = name,
                   .type = type_of(DT_F32, ndim, dim),
                   .init = {.kind = INIT_UNIFORM, .a = centre - spread,
                            .b = centre + spread},
                   .trainable = true,
                   .state_of = -1};
    vec_push(t->arena, &t->p->param, param);
    Attr attr[MAX_ATTRS] = {{.i = t->p->param.n - 1}};
    Value *v =
        ir_op_typed(&t->b, OP_param, 0, NULL, attr, 1, &param.type, &name)
            ->out[0];
    t->p->param.at[t->p->param.n - 1].value = v;
    return v;
}

Value *fuse_index(FuseTest *t, const char *name, int ndim, const int64_t *dim,
                  int64_t below)
{
    Input input = {
        .name = name, .type = type_of(DT_I32, ndim, dim), .below = below};
    vec_push(t->arena, &t->p->input, input);
    Attr attr[MAX_ATTRS] = {{.i = t->p->input.n - 1}};
    Value *v =
        ir_op_typed(&t->b, OP_input, 0, NULL, attr, 1, &input.type, &name)
            ->out[0];
    t->p->input.at[t->p->input.n - 1].value = v;
    return v;
}

void fuse_keep(FuseTest *t, Value *v)
{
    Param param = {.name = arena_printf(t->arena, "kept.%s", v->name),
                   .type = v->type,
                   .state_of = -1};
    vec_push(t->arena, &t->p->param, param);
    Attr attr[MAX_ATTRS] = {{.i = t->p->param.n - 1}};
    t->p->param.at[t->p->param.n - 1].value =
        ir_op_typed(&t->b, OP_param, 0, NULL, attr, 1, &v->type, &param.name)
            ->out[0];
    ir_op_typed(&t->b, OP_assign, 1, &v, attr, 0, NULL, NULL);
}

Value *fuse_factor(FuseTest *t, OpKind kind, Value *x, double by)
{
    Attr attr[MAX_ATTRS] = {{.f = by}};
    return ir_value(&t->b, kind, 1, &x, attr, NULL);
}

Value *fuse_sum(FuseTest *t, Value *x, int dim, bool keep)
{
    return ir_sum(&t->b, x, (AttrList){1, {dim}}, keep);
}

Value *fuse_max(FuseTest *t, Value *x, int dim, bool keep)
{
    return ir_max(&t->b, x, (AttrList){1, {dim}}, keep);
}

/* ---- numbers ------------------------------------------------------------- */

static double noise(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (double)(*state >> 11) / 9007199254740992.0;
}

static uint64_t seed_of(const char *name)
{
    uint64_t h = 14695981039346656037u;
    for (; *name; name++)
        h = (h ^ (uint8_t)*name) * 1099511628211u;
    return h;
}

static double *param_numbers(const FuseTest *t, int i)
{
    const Param *param = &t->p->param.at[i];
    int64_t n = type_elements(&param->type);
    uint64_t state = seed_of(param->name);
    double *x = NEW_ARRAY(t->arena, double, n + 1);
    for (int64_t k = 0; k < n; k++)
        x[k] = (float)(param->init.a +
                       (param->init.b - param->init.a) * noise(&state));
    return x;
}

static double *input_numbers(const FuseTest *t, int i)
{
    const Input *input = &t->p->input.at[i];
    int64_t n = type_elements(&input->type);
    uint64_t state = seed_of(input->name);
    double *x = NEW_ARRAY(t->arena, double, n + 1);
    for (int64_t k = 0; k < n; k++)
        x[k] = floor((double)input->below * noise(&state));
    return x;
}

/* ---- the reference ------------------------------------------------------- */

static Interp *run_reference(Check *c, const FuseTest *t, const Program *p)
{
    Interp *in = interp_new(p);
    for (int i = 0; i < p->param.n; i++)
        interp_set_param(in, i, param_numbers(t, i));
    for (int i = 0; i < p->input.n; i++)
        interp_set_input(in, i, input_numbers(t, i));
    interp_set_scalar(in, "lr", 1e-3);
    interp_set_scalar(in, "bias1", 0.1);
    interp_set_scalar(in, "bias2", 0.05);
    interp_set_scalar(in, "random", 0x1p51 + 321);
    CHECK_TEXT(c, interp_run(in), NULL);
    return in;
}

/* ---- compiling ----------------------------------------------------------- */

void *fuse_compile(Arena *a, const char *source, const char *level)
{
    char directory[] = "/tmp/parc-fuse-XXXXXX";
    if (!mkdtemp(directory))
        return NULL;
    const char *path = arena_printf(a, "%s/kernels.c", directory);
    const char *object = arena_printf(a, "%s/kernels.so", directory);
    FILE *f = fopen(path, "w");
    if (!f)
        return NULL;
    fputs(source, f);
    fclose(f);
    const char *const argv[] = {
        "cc",         "-std=c11",  "-Wall",   "-Wextra",
        "-Wpedantic", "-Werror",   level,     "-march=native",
        "-fopenmp",   "-Iruntime", "-shared", "-fPIC",
        "-o",         object,      path,      "-lm",
        NULL};
    char *errors = NULL;
    int status = process_run(a, argv, NULL, &errors);
    if (status)
        printf("%s\n%s\n", source, errors);
    /* OpenMP's threads outlive the call: the library must stay loaded. */
    void *library = status ? NULL : dlopen(object, RTLD_NOW | RTLD_NODELETE);
    if (!status && !library)
        printf("%s\n", dlerror());
    unlink(path);
    unlink(object);
    rmdir(directory);
    return library;
}

static void print_call(Out *o, const Program *p, const Op *op, int n)
{
    int count = op->nouts + op->nargs + (kernel_build(p, op)->workspace > 0);
    out(o,
        "void call_%d(void **a);\nvoid call_%d(void **a)\n{\n"
        "    %s((ParcRt *)a[0]",
        n, n, kernel_name(p, op, n));
    for (int i = 0; i < count; i++)
        out(o, ", a[%d]", i + 1);
    out(o, ");\n}\n");
}

static int print_region(Out *o, const Program *p, const Region *r, int n)
{
    for (const Op *op = r->first; op; op = op->next) {
        if (op->kind == OP_loop)
            n = print_region(o, p, op->body, n);
        if (op->kind != OP_fused)
            continue;
        cpu_kernel_prototype(o, p, op, n);
        cpu_kernel_emit(o, p, op, n);
        print_call(o, p, op, n++);
    }
    return n;
}

const Op *fuse_first(const Program *p)
{
    const Op *op = p->step->first;
    while (op && op->kind != OP_fused)
        op = op->next;
    return op;
}

const char *fuse_print(const Program *p, int *kernels)
{
    Out o;
    out_init(&o, p->arena);
    out(&o, "#include \"parc_rt.h\"\n#include \"parc_math.h\"\n"
            "#include \"parc_random.h\"\n"
            "void parc_random_row(float *to, int64_t key, uint32_t site, "
            "int64_t first, int64_t n)\n{\n"
            "    for (int64_t i = 0; i < n; i++)\n"
            "        to[i] = parc_random_at(key, site, first + i);\n}\n"
            "int parc_threads(const ParcRt *rt)\n{\n    (void)rt;\n"
            "    return 2;\n}\n");
    *kernels = print_region(&o, p, p->step, 0);
    return o.text;
}

FuseKernel *fuse_kernel(Arena *a, void *library, int number)
{
    void *symbol = dlsym(library, arena_printf(a, "call_%d", number));
    FuseKernel *function;
    memcpy(&function, &symbol, sizeof function);
    return function;
}

/* ---- running ------------------------------------------------------------- */

typedef struct Runner {
    Check *check;
    FuseTest *t;
    void **at; /* by value id */
    void *library;
    bool in_place;
} Runner;

static size_t bytes_of(const Value *v)
{
    return (size_t)type_elements(&v->type) * (size_t)dtype_size(v->type.dtype);
}

static void *new_tensor(Runner *r, const Value *v)
{
    /* Bytes are not zero, so elements that a kernel fails to write differ. */
    void *x = arena_alloc(r->t->arena, bytes_of(v) + 64);
    memset(x, 0x7f, bytes_of(v) + 64);
    return r->at[v->id] = x;
}

static void fill(Runner *r, const Value *v, const double *from)
{
    float *x = new_tensor(r, v);
    for (int64_t i = 0; i < type_elements(&v->type); i++) {
        if (v->type.dtype == DT_I32)
            ((int32_t *)x)[i] = (int32_t)from[i];
        else
            x[i] = (float)from[i];
    }
}

static void call(Runner *r, const Op *op, int number)
{
    Arena *a = r->t->arena;
    const Kernel *k = kernel_build(r->t->p, op);
    void **argument = NEW_ARRAY(a, void *, op->nouts + op->nargs + 3);
    bool *taken = NEW_ARRAY(a, bool, op->nargs + 1);
    int n = 1;
    for (int i = 0; i < op->nouts; i++)
        argument[n++] = new_tensor(r, op->out[i]);
    for (int i = 0; i < op->nargs; i++)
        argument[n++] = r->at[op->arg[i]->id];
    for (int i = 0; i < op->nouts && r->in_place; i++)
        for (int j = 0; j < op->nargs; j++) {
            if (taken[j] || !kernel_in_place(k, i, j))
                continue;
            taken[j] = true;
            memcpy(argument[1 + i], argument[1 + op->nouts + j],
                   bytes_of(op->out[i]));
            argument[1 + op->nouts + j] = argument[1 + i];
            break;
        }
    argument[n] = arena_alloc(a, (size_t)k->workspace + 64);
    memset(argument[n], 0x7f, (size_t)k->workspace + 64);
    fuse_kernel(a, r->library, number)(argument);
}

static void compare(Runner *r, const Op *assign, const Interp *reference)
{
    int param = attr_param(assign);
    const Value *v = assign->arg[0];
    const double *want = interp_param((Interp *)(uintptr_t)reference, param);
    const float *is = r->at[v->id];
    double largest = 0, worst = 0;
    int64_t n = type_elements(&v->type), where = 0;
    for (int64_t i = 0; i < n; i++)
        if (fabs(want[i]) > largest)
            largest = fabs(want[i]);
    for (int64_t i = 0; i < n; i++) {
        double error = fabs((double)is[i] - want[i]) / (largest + 1e-30);
        if (!(error <= worst)) {
            worst = error;
            where = i;
        }
    }
    CHECK(r->check, worst < 2e-6);
    if (!(worst < 2e-6))
        printf("%s: error %g at %lld: %.9g, not %.9g\n", v->name, worst,
               (long long)where, (double)is[where], want[where]);
}

static void run_op(Runner *r, const Op *op, int *number,
                   const Interp *reference)
{
    const FuseTest *t = r->t;
    if (op->kind == OP_param) {
        fill(r, op->out[0], param_numbers(t, attr_param(op)));
    } else if (op->kind == OP_input) {
        fill(r, op->out[0], input_numbers(t, (int)attr_input(op)));
    } else if (op->kind == OP_scalar) {
        const char *name = attr_name(op);
        double x = strcmp(name, "lr") == 0      ? 1e-3
                   : strcmp(name, "bias1") == 0 ? 0.1
                                                : 0.05;
        fill(r, op->out[0], &x);
    } else if (op->kind == OP_fused) {
        call(r, op, (*number)++);
    } else if (op->kind == OP_reshape) {
        r->at[op->out[0]->id] = r->at[op->arg[0]->id];
    } else if (op->kind == OP_assign) {
        compare(r, op, reference);
    } else {
        bug("the test cannot run op '%s'", op_info(op->kind)->name);
    }
}

void fuse_run(Check *c, FuseTest *t, const char *name, int kernels)
{
    int failed = c->failed;
    Program *before = ir_copy(t->p);
    Interp *reference = run_reference(c, t, before);
    TargetInfo info = {.target = TARGET_CPU, .threads = 2};
    pass_fuse(t->p, &info);
    CHECK_TEXT(c, ir_verify(t->p), NULL);
    t->source = fuse_print(t->p, &t->kernels);
    CHECK(c, kernels < 0 || t->kernels == kernels);
    Runner r = {.check = c, .t = t};
    /* Sums of many numbers are exact enough if they are vectorized. */
    r.library = fuse_compile(t->arena, t->source, few_or_all(2, 3) == 2 ? "-O2" : "-O3");
    CHECK(c, r.library != NULL);
    r.at = NEW_ARRAY(t->arena, void *, t->p->nvalues + 1);
    for (int round = 0; round < 2 && r.library; round++) {
        int number = 0;
        r.in_place = round == 1;
        for (const Op *op = t->p->step->first; op; op = op->next)
            run_op(&r, op, &number, reference);
    }
    if (c->failed > failed || getenv("FUSE_PRINT")) {
        Out o;
        out_init(&o, t->arena);
        ir_print(&o, t->p);
        printf("---- %s: %d kernels\n%s\n%s\n", name, t->kernels, o.text,
               t->source);
    }
    if (r.library)
        dlclose(r.library);
    interp_free(reference);
    arena_free(t->arena);
}
