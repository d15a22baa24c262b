/* kernel_build.c: builds the kernel IR (kernel.h) of a fused op: its named
 * buffers, its instructions, and its stores and reductions. It also decides
 * which results may overwrite an operand in place.
 *
 * Views, broadcasts and permutations produce no instruction: their result is
 * the operand's instruction with other axes, and loads and stores use other
 * strides. kernel_phase.c then orders the instructions.
 */
#include <string.h>

#include "base/bug.h"
#include "base/text.h"
#include "codegen/c_text.h"
#include "codegen/kernel/kernel.h"
#include "ir/analysis/alias.h"

typedef struct Builder {
    const Program *p;
    Kernel *k;
    VEC(KernelInstr) instr;
    VEC(KernelRoot) root;
    int *map; /* by index of a value in the space: the instruction that computes
               * it; -1: none yet */
} Builder;

/* ---- names --------------------------------------------------------------- */

const char *kernel_where(const Program *p, Loc loc)
{
    const Source *s =
        p->diag && loc.file ? diag_source_at(p->diag, loc.file) : NULL;
    if (!s)
        return "";
    const char *slash = strrchr(s->name, '/');
    return arena_printf(p->arena, "%s:%u", slash ? slash + 1 : s->name,
                        (unsigned)loc.line);
}

/* Whether s is a keyword of C or C++, or a name that printed kernels use: t12,
 * r3, i0 … */
static bool is_reserved(const char *s)
{
    static const char *const word[] = {
        "rt", "workspace", "task", "part", "row", "end", "columns", "more",
        "kept", "kept_row", "tile", "group", "rest", "at", "head", "item",
        /* keywords of C++, for CUDA */
        "and", "bool", "catch", "class", "delete", "explicit", "export",
        "false", "friend", "mutable", "namespace", "new", "not", "operator",
        "or", "private", "protected", "public", "template", "this", "throw",
        "true", "try", "typename", "using", "virtual", "xor", "asm"};
    static const char *const start[] = {
        "in", "out", "kept", "held", "top", "base", "sum", "share", "edge",
        "block_", "warp_", "thread_", "lane_"};
    if (c_is_reserved(s) || table_find(word, s))
        return true;
    for (size_t i = 0; i < sizeof start / sizeof *start; i++) {
        size_t n = strlen(start[i]);
        if (strncmp(s, start[i], n) == 0 &&
            (start[i][n - 1] == '_' || (s[n] >= '0' && s[n] <= '9')))
            return true;
    }
    if (*s == '_')
        return true;
    bool digits = s[1] != 0;
    for (const char *c = s + 1; *c; c++)
        digits &= *c >= '0' && *c <= '9';
    return strchr("aceijrstu", *s) && (digits || !s[1]) && *s != 0;
}

/* Whether a name or its row pointer "<name>_row" is in use. */
static bool is_buffer_name(const Kernel *k, const char *name)
{
    size_t n = strlen(name);
    for (int i = 0; i < k->nbuffers; i++) {
        const char *other = k->buffer[i].name;
        if (!other)
            continue;
        size_t m = strlen(other);
        if (strcmp(other, name) == 0 ||
            (n == m + 4 && strncmp(name, other, m) == 0) ||
            (m == n + 4 && strncmp(name, other, n) == 0))
            return true;
    }
    return false;
}

/* The name that train.c gives to the buffer, if that is free. */
static const char *buffer_name(Builder *b, Value *v)
{
    Arena *a = b->p->arena;
    const char *base = c_identifier(a, c_model_name(a, value_root(v)->name)),
               *name = base;
    if (is_reserved(base))
        name = base = arena_printf(a, "%s_%s", v->def ? "v" : "in", base);
    for (int i = 2; is_buffer_name(b->k, name); i++)
        name = arena_printf(a, "%s_%d", base, i);
    return name;
}

/* ---- buffers ------------------------------------------------------------- */

/* The alignment of a buffer's address in elements; 0: aligned. Layers of a
 * stack are stored without gaps, and an iteration may access any of them. A
 * shard that is stored inside its gathered parameter (value_gathered_shard) is
 * the rank's run of a layer, and layers are as far apart as all ranks' runs
 * are long. */
static int64_t row_distance(const Program *p, const Op *op, Value *v)
{
    const Value *shard = value_gathered_shard(p, v);
    int64_t run = type_flat_run(&v->type, &p->mesh);
    if (type_is_flat(&v->type, &p->mesh))
        return run;
    if (!op->region->owner)
        return 0;
    return shard ? type_flat_row(&shard->type, &p->mesh) : run;
}

static void set_buffer(Builder *b, int i, Value *outer,
                       const Value *inner, bool out)
{
    const Space *s = &b->k->space;
    KernelBuffer *buffer = &b->k->buffer[i];
    buffer->name = buffer_name(b, outer);
    buffer->value = outer;
    buffer->dtype = outer->type.dtype;
    buffer->out = out;
    buffer->elements = type_local_elements(&outer->type, &b->p->mesh);
    buffer->alignment = row_distance(b->p, b->k->op, outer);
    for (int v = 0; v < s->nvalues; v++) {
        if (s->value[v].value != inner)
            continue;
        buffer->axes = s->value[v].axes;
        memcpy(buffer->stride, s->value[v].stride, sizeof buffer->stride);
    }
}

static void set_buffers(Builder *b)
{
    Kernel *k = b->k;
    const Op *op = k->op;
    k->nbuffers = op->nouts + op->nargs;
    k->buffer = NEW_ARRAY(b->p->arena, KernelBuffer, k->nbuffers + 1);
    for (int i = 0; i < op->nouts; i++)
        set_buffer(b, i, op->out[i], op->body->yield[i], true);
    for (int i = 0; i < op->nargs; i++)
        set_buffer(b, op->nouts + i, op->arg[i], op->body->arg[i], false);
}

/* ---- instructions -------------------------------------------------------- */

static int value_index(const Builder *b, const Value *v)
{
    const Space *s = &b->k->space;
    for (int i = 0; i < s->nvalues; i++)
        if (s->value[i].value == v)
            return i;
    bug("value %%%s is not in the kernel's space", v->name);
}

static const SpaceValue *space_of(const Builder *b, const Value *v)
{
    return &b->k->space.value[value_index(b, v)];
}

static int add_instr(Builder *b, KernelInstr instr)
{
    for (int i = 0; i < instr.nargs; i++) {
        const KernelInstr *arg = &b->instr.at[instr.arg[i]];
        if (instr.code != KERNEL_REDUCE && instr.code != KERNEL_TOTAL)
            instr.axes |= arg->axes;
        int phase = arg->phase + (instr.code == KERNEL_REDUCE);
        if (phase > instr.phase)
            instr.phase = phase;
        instr.epilogue |= arg->epilogue;
    }
    vec_push(b->p->arena, &b->instr, instr);
    return b->instr.n - 1;
}

static void add_root(Builder *b, KernelRoot root)
{
    const KernelInstr *instr = &b->instr.at[root.instr];
    root.phase = instr->epilogue ? 0 : instr->phase;
    root.epilogue = instr->epilogue;
    vec_push(b->p->arena, &b->root, root);
}

/* The instruction of an operand; a load if it is an operand of the kernel. */
static int instr_of(Builder *b, const Value *v)
{
    int at = value_index(b, v);
    if (b->map[at] >= 0)
        return b->map[at];
    const Op *op = b->k->op;
    for (int i = 0; i < op->nargs; i++) {
        if (op->body->arg[i] != v)
            continue;
        KernelInstr load = {.code = KERNEL_LOAD,
                            .dtype = v->type.dtype,
                            .buffer = op->nouts + i,
                            .axes = b->k->space.value[at].axes};
        return b->map[at] = add_instr(b, load);
    }
    bug("value %%%s of a fused op comes from nowhere", v->name);
}

static int make_alias(Builder *b, const Op *op)
{
    return instr_of(b, op->arg[0]);
}

/* An instruction that computes the op from its operands. */
static KernelInstr instr_for(Builder *b, const Op *op, KernelCode code)
{
    KernelInstr instr = {.code = code,
                         .source = op,
                         .dtype = op->out[0]->type.dtype,
                         .nargs = op->nargs};
    for (int i = 0; i < op->nargs; i++)
        instr.arg[i] = instr_of(b, op->arg[i]);
    return instr;
}

static int make_const(Builder *b, const Op *op)
{
    KernelInstr instr = instr_for(b, op, KERNEL_CONST);
    instr.number = attr_value(op);
    return add_instr(b, instr);
}

/* Builds the index along the axes that the result has and operand 0 of a onehot
 * lacks. */
static int make_index(Builder *b, const Op *op)
{
    const SpaceValue *r = space_of(b, op->out[0]);
    bool onehot = op->kind == OP_onehot;
    uint32_t outer = onehot ? space_of(b, op->arg[0])->axes : 0;
    KernelInstr instr = instr_for(b, op, onehot ? KERNEL_ONEHOT : KERNEL_INDEX);
    instr.axes = r->axes & ~outer;
    for (int a = 0; a < b->k->space.naxes; a++)
        if (instr.axes >> a & 1)
            instr.stride[a] = r->stride[a];
    return add_instr(b, instr);
}

static int make_random(Builder *b, const Op *op)
{
    const SpaceValue *r = space_of(b, op->out[0]);
    KernelInstr instr = instr_for(b, op, KERNEL_RANDOM);
    instr.axes = r->axes;
    memcpy(instr.stride, r->count, sizeof instr.stride);
    for (int i = 1; i < instr.nargs; i++) /* these give the whole index in their dim */
        for (int a = 0; a < b->k->space.naxes; a++)
            if (b->instr.at[instr.arg[i]].axes >> a & 1)
                instr.stride[a] = 0;
    return add_instr(b, instr);
}

static int make_rotary(Builder *b, const Op *op)
{
    KernelInstr instr = instr_for(b, op, KERNEL_ROTARY);
    instr.axes = 1u << b->k->space.pair;
    instr.number = attr_inverse(op) ? -1 : 1;
    return add_instr(b, instr);
}

static double number_of(const Op *op)
{
    if (op->kind == OP_scale || op->kind == OP_offset)
        return attr_by(op);
    return op->kind == OP_power ? attr_exponent(op) : 0;
}

/* All floats are f32 inside a kernel; they are rounded when they are stored. */
static bool is_free_cast(const Op *op)
{
    DType from = op->arg[0]->type.dtype, to = op->out[0]->type.dtype;
    return from == to || (dtype_is_float(from) && dtype_is_float(to));
}

static int make_op(Builder *b, const Op *op)
{
    if (op->kind == OP_power && number_of(op) == 0)
        return add_instr(b, (KernelInstr){.code = KERNEL_CONST,
                                          .source = op,
                                          .dtype = op->out[0]->type.dtype,
                                          .number = 1});
    if (op->kind == OP_cast && is_free_cast(op))
        return make_alias(b, op);
    KernelInstr instr = instr_for(b, op, KERNEL_OP);
    instr.op = op->kind;
    instr.number = number_of(op);
    return add_instr(b, instr);
}

/* Builds a reduction within the row, over rows, or first within and then over
 * rows. */
static int make_reduce(Builder *b, const Op *op)
{
    const Space *s = &b->k->space;
    const SpaceOp *info = NULL;
    for (int i = 0; i < s->nops; i++)
        if (s->op[i].op == op)
            info = &s->op[i];
    OpKind kind = op->kind == OP_max ? OP_max : OP_sum;
    uint32_t domain = space_of(b, op->arg[0])->axes;
    int x = instr_of(b, op->arg[0]);
    KernelInstr instr = {
        .op = kind, .source = op, .dtype = op->out[0]->type.dtype, .nargs = 1};
    if (op->kind == OP_sumsq) {
        KernelInstr square = {.code = KERNEL_OP,
                              .op = OP_mul,
                              .source = op,
                              .dtype = instr.dtype,
                              .nargs = 2,
                              .arg = {x, x}};
        x = add_instr(b, square);
    }
    if (info->reduce == REDUCE_NONE)
        return x;
    if (info->reduced & s->column) {
        instr.code = KERNEL_REDUCE;
        instr.arg[0] = x;
        instr.axes = s->all & ~s->column;
        int row = add_instr(b, instr);
        add_root(b, (KernelRoot){.kind = ROOT_REDUCE,
                                 .instr = x,
                                 .target = row,
                                 .element = true});
        x = row;
        domain &= ~s->column;
    }
    if (info->reduce == REDUCE_ROW)
        return x;
    instr.code = KERNEL_TOTAL;
    instr.arg[0] = x;
    instr.axes = space_of(b, op->out[0])->axes;
    int total = add_instr(b, instr);
    b->instr.at[total].epilogue = true;
    b->instr.at[total].phase = 0;
    add_root(b, (KernelRoot){.kind = ROOT_TOTAL,
                             .instr = x,
                             .target = total,
                             .element = kernel_is_element(b->k, domain)});
    return total;
}

static int make_instr(Builder *b, const Op *op)
{
    switch ((int)op->kind) {
    case OP_full: return make_const(b, op);
    case OP_iota:
    case OP_onehot: return make_index(b, op);
    case OP_rotary: return make_rotary(b, op);
    case OP_random: return make_random(b, op);
    case OP_sum:
    case OP_max:
    case OP_sumsq: return make_reduce(b, op);
    case OP_reshape:
    case OP_broadcast:
    case OP_transpose:
    case OP_detach: return make_alias(b, op);
    }
    return make_op(b, op);
}

static void make_stores(Builder *b)
{
    const Region *body = b->k->op->body;
    for (int i = 0; i < body->nyields; i++) {
        uint32_t axes = b->k->buffer[i].axes;
        add_root(b, (KernelRoot){.kind = ROOT_STORE,
                                 .instr = instr_of(b, body->yield[i]),
                                 .target = i,
                                 .element = kernel_is_element(b->k, axes)});
    }
}

/* ---- building the kernel ------------------------------------------------- */

static const char *find_space(const Program *p, const Op *fused, Space *space)
{
    const Region *body = fused->body;
    Arena *a = p->arena;
    int n = 0;
    for (const Op *op = body->first; op; op = op->next)
        n++;
    Op **ops = NEW_ARRAY(a, Op *, n + 1);
    bool *stored = NEW_ARRAY(a, bool, n + 1);
    n = 0;
    for (Op *op = body->first; op; op = op->next) {
        for (int i = 0; i < body->nyields; i++)
            stored[n] |= body->yield[i] == op->out[0];
        ops[n++] = op;
    }
    return space_build(a, p, n, ops, stored, space);
}

const char *kernel_fault(const Program *p, const Op *fused)
{
    Space space;
    return find_space(p, fused, &space);
}

static Kernel *build_kernel(const Program *p, const Op *fused, bool cached)
{
    if (fused->kind != OP_fused)
        bug("a kernel is built of op '%s'", op_info(fused->kind)->name);
    Builder b = {.p = p, .k = NEW(p->arena, Kernel)};
    b.k->op = fused;
    b.k->name = c_identifier(p->arena, attr_name(fused));
    const char *fault = find_space(p, fused, &b.k->space);
    if (fault)
        bug("fused op '%s' is no kernel: %s", b.k->name, fault);
    set_buffers(&b);
    b.map = NEW_ARRAY(p->arena, int, b.k->space.nvalues + 1);
    for (int i = 0; i < b.k->space.nvalues; i++)
        b.map[i] = -1;
    for (const Op *op = fused->body->first; op; op = op->next)
        b.map[value_index(&b, op->out[0])] = make_instr(&b, op);
    make_stores(&b);
    b.k->instr = b.instr.at;
    b.k->ninstrs = b.instr.n;
    b.k->root = b.root.at;
    b.k->nroots = b.root.n;
    kernel_phases(p, b.k, cached);
    return b.k;
}

const Kernel *kernel_build(const Program *p, const Op *fused)
{
    Kernel *k = build_kernel(p, fused, true);
    for (int i = 0; i < fused->nouts; i++)
        for (int j = 0; j < fused->nargs; j++)
            if (kernel_in_place(k, i, j))
                k->buffer[i].shared = k->buffer[fused->nouts + j].shared =
                    true;
    return k;
}

Kernel *kernel_build_plain(const Program *p, const Op *fused)
{
    return build_kernel(p, fused, false);
}

bool kernel_loads(const Kernel *k, int n, const int *instr, int buffer)
{
    for (int i = 0; i < n; i++)
        if (k->instr[instr[i]].code == KERNEL_LOAD &&
            k->instr[instr[i]].buffer == buffer)
            return true;
    return false;
}

bool kernel_in_place(const Kernel *k, int out, int arg)
{
    int operand = k->op->nouts + arg;
    const KernelBuffer *y = &k->buffer[out], *x = &k->buffer[operand];
    if (x->dtype != y->dtype || x->axes != y->axes ||
        x->elements != y->elements ||
        memcmp(x->stride, y->stride, sizeof x->stride) != 0)
        return false;
    int stored = k->nphases;
    for (int r = 0; r < k->nroots; r++) {
        if (k->root[r].kind != ROOT_STORE || k->root[r].target != out)
            continue;
        if (k->root[r].epilogue)
            return false;
        if (k->root[r].phase < stored)
            stored = k->root[r].phase;
    }
    /* Nothing may read the operand after the row has been overwritten. */
    int last = 0;
    for (int p = 0; p < k->nphases; p++)
        for (int i = 0; i < k->phase[p].nelement; i++) {
            const KernelStep *step = &k->phase[p].element[i];
            if (!step->reused && kernel_loads(k, 1, &step->instr, operand))
                last = p;
        }
    return last <= stored && !kernel_loads(k, k->nkept, k->kept, operand) &&
           !kernel_loads(k, k->ncolumn, k->column, operand);
}

int64_t kernel_bytes(const Kernel *k)
{
    int64_t bytes = 0;
    for (int i = 0; i < k->nbuffers; i++)
        bytes += k->buffer[i].elements * dtype_size(k->buffer[i].dtype);
    return bytes;
}
