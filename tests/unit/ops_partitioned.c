/* ops_partitioned.c: tests every operator under every split that its rule
 * allows.
 *
 * Each sample is interpreted once as a global program. Then, for every split
 * on one axis of 2 and every pair of splits on a 2 x 2 mesh, it is built as a
 * partitioned program: operands and results in the placements of the split, and
 * where the rule needs one, a base operand, which says where a rank's part
 * begins. The verifier must accept it, and the combined results of the ranks
 * must equal the global result.
 *
 * Conversions follow: from every placement of a small tensor to every other.
 */
#include "ir/analysis/attention.h"
#include "ir/rules/rules.h"
#include "passes/pass.h"
#include "passes/sharding/reshard.h"
#include "tests/unit/check.h"
#include "tests/unit/op_samples.h"

#include <math.h>

static const double tolerance = 1e-12;

enum { MAX_SPLITS = MAX_FACTORS + SAMPLE_ARGS + 3, MAX_OUTS = 4 };

/* One placement of a sample: a split for each axis of the mesh. */
typedef struct Trial {
    const OpSample *sample;
    Arena *arena;
    Program *p;
    Rule rule;
    Split split[MAX_AXES];
    bool turned; /* if both axes split one dim: axis 1 is the major one */
} Trial;

/* ---- building ---------------------------------------------------------- */

static Program *new_program(Arena *a, const Mesh *mesh, Stage stage)
{
    Program *p = ir_program(a, diag_new(a, COLOR_NEVER));
    p->model = "sample";
    p->mesh = *mesh;
    p->stage = stage;
    return p;
}

static Build at_end(Program *p)
{
    return (Build){.p = p, .region = p->step, .phase = PH_FORWARD, .path = ""};
}

/* Share k of a number that is Partial over `parts` ranks. The shares are
 * unequal and not zero: an op that passes a Partial on, although it is not
 * linear, then gives a wrong number. */
static double share(int64_t k, int64_t parts)
{
    double all = (double)(parts * (parts - 1)) / 8;
    return k > 0 ? (double)k / 4 : 1 - all;
}

static int partial_axes(const Mesh *m, const Type *t, AxisKind *kind)
{
    int n = 0;
    for (int a = 0; a < m->n; a++)
        if (t->place.ax[a].kind == AX_P || t->place.ax[a].kind == AX_PMAX) {
            *kind = (AxisKind)t->place.ax[a].kind;
            n++;
        }
    return n;
}

/* The type with an additional outer dim, whose reduction makes it Partial. */
static Type with_shares(const Mesh *m, Type t)
{
    int order = 0;
    memmove(t.dim + 1, t.dim, sizeof *t.dim * (size_t)t.ndim++);
    t.dim[0] = 1;
    for (int a = 0; a < m->n; a++) {
        AxisPlace *place = &t.place.ax[a];
        if (place->kind == AX_S)
            place->dim++;
        if (place->kind != AX_P && place->kind != AX_PMAX)
            continue;
        *place = (AxisPlace){AX_S, 0, (uint8_t)order++};
        t.dim[0] *= m->size[a] * mesh_pieces(m, a);
    }
    return t;
}

/* Integers become inputs, floats parameters, both with placement t. */
static Value *make_operand(Program *p, Type t, int i)
{
    Build b = at_end(p);
    const char *name = arena_printf(p->arena, "x%d", i);
    if (!dtype_is_float(t.dtype)) {
        Attr attr[MAX_ATTRS] = {{.i = p->input.n}};
        Input input = {.name = name, .type = t, .below = 1 << 20};
        Op *op = ir_op_typed(&b, OP_input, 0, NULL, attr, 1, &t, &name);
        input.value = op->out[0];
        vec_push(p->arena, &p->input, input);
        return op->out[0];
    }
    AxisKind kind = AX_R;
    if (partial_axes(&p->mesh, &t, &kind) > 0)
        t = with_shares(&p->mesh, t);
    Attr attr[MAX_ATTRS] = {{.i = p->param.n}};
    Param param = {.name = name, .type = t, .state_of = -1};
    Op *op = ir_op_typed(&b, OP_param, 0, NULL, attr, 1, &t, &name);
    param.value = op->out[0];
    vec_push(p->arena, &p->param, param);
    AttrList first = {1, {0}};
    if (kind == AX_P)
        return ir_sum(&b, op->out[0], first, false);
    if (kind == AX_PMAX)
        return ir_max(&b, op->out[0], first, false);
    return op->out[0];
}

enum { MOST_NUMBERS = 1 << 14 };

/* Sets an operand's numbers; those of a Partial operand are shares. */
static void set_numbers(const OpSample *s, const Program *p, Interp *in)
{
    int params = 0, inputs = 0;
    for (int i = 0; i < s->nargs; i++) {
        double x[MOST_NUMBERS], y[MOST_NUMBERS];
        Type t = sample_type(&s->arg[i]);
        int64_t n = type_elements(&t);
        sample_numbers(&s->arg[i], (uint64_t)i + 1, x);
        if (sample_is_integer(&s->arg[i])) {
            interp_set_input(in, inputs++, x);
            continue;
        }
        const Value *v = p->param.at[params].value;
        int64_t parts = type_elements(&v->type) / n;
        bool sum = parts > 1 && v->def->next->kind == OP_sum;
        for (int64_t k = 0; k < parts; k++)
            for (int64_t j = 0; j < n; j++)
                y[k * n + j] =
                    sum ? share(k, parts) * x[j] : x[j] - (double)k / 2;
        interp_set_param(in, params++, y);
    }
}

static Op *build_global(Program *p, const OpSample *s)
{
    Build b = at_end(p);
    Value *args[SAMPLE_ARGS];
    for (int i = 0; i < s->nargs; i++)
        args[i] = make_operand(p, sample_type(&s->arg[i]), i);
    return ir_op(&b, s->kind, s->nargs, args, s->attr, "y");
}

/* The placement of the rule's tensor number `tensor` in the trial. */
static Placement place_of(const Trial *t, int tensor)
{
    Placement place = {0};
    const Mesh *m = &t->p->mesh;
    for (int a = 0; a < m->n; a++)
        place.ax[a] = rule_place(&t->rule, tensor, t->split[a]);
    bool shared = m->n == 2 && place.ax[0].kind == AX_S &&
                  place.ax[1].kind == AX_S &&
                  place.ax[0].dim == place.ax[1].dim;
    bool second = !t->turned;
    if (shared && t->split[0].factor != t->split[1].factor)
        second = t->rule.dim[tensor][place.ax[0].dim].f[0] ==
                 t->split[0].factor;
    if (shared)
        place.ax[second ? 1 : 0].order = 1;
    return place;
}

static bool any_base(const Trial *t)
{
    bool any = false;
    for (int a = 0; a < t->p->mesh.n; a++) {
        Split s = t->split[a];
        any |= s.kind == SPLIT_FACTOR && t->rule.factor[s.factor].base >= 0;
    }
    return any;
}

/* A base operand: where each rank's part of base factor k begins. */
static Value *make_base(Trial *t, int k)
{
    Placement place = {0};
    int64_t parts = 1;
    int axes = 0, size = 0;
    for (int f = 0; f < t->rule.nfactors; f++)
        if (t->rule.factor[f].base == k)
            size = (int)t->rule.factor[f].size;
    for (int a = 0; a < t->p->mesh.n; a++) {
        Split s = t->split[a];
        if (s.kind != SPLIT_FACTOR || t->rule.factor[s.factor].base != k)
            continue;
        place.ax[a] = (AxisPlace){AX_S, 0, (uint8_t)axes++};
        parts *= t->p->mesh.size[a];
    }
    if (axes == 2 && t->turned) {
        place.ax[0].order = 1;
        place.ax[1].order = 0;
    }
    Build b = at_end(t->p);
    Type type = {.dtype = DT_I64, .ndim = 1, .dim = {parts}, .place = place};
    if (type_pieces(&type, &t->p->mesh, 0) > parts) /* in zigzag order */
        type.dim[0] = t->sample->kind == OP_random ? size : 2 * parts;
    Attr attr[MAX_ATTRS] = {{.i = size}};
    return ir_op_typed(&b, OP_base, 0, NULL, attr, 1, &type, NULL)->out[0];
}

static Op *build_partitioned(Trial *t, const Op *global)
{
    const OpSample *s = t->sample;
    Value *args[SAMPLE_ARGS + MAX_DIMS];
    Type out[MAX_OUTS];
    int nargs = s->nargs;
    for (int i = 0; i < s->nargs; i++) {
        Type type = sample_type(&s->arg[i]);
        type.place = place_of(t, i);
        args[i] = make_operand(t->p, type, i);
    }
    for (int k = 0; k < t->rule.nbases && any_base(t); k++)
        args[nargs++] = make_base(t, k);
    for (int i = 0; i < global->nouts; i++) {
        out[i] = global->out[i]->type;
        out[i].place = place_of(t, s->nargs + i);
    }
    Build b = at_end(t->p);
    const char *const names[MAX_OUTS] = {"y0", "y1", "y2", "y3"};
    return ir_op_typed(&b, s->kind, nargs, args, s->attr, global->nouts, out,
                       names);
}

/* ---- comparing --------------------------------------------------------- */

static bool equal(const double *is, const double *wanted, int64_t n)
{
    double largest = 0;
    for (int64_t i = 0; i < n; i++)
        largest = fmax(largest, fabs(wanted[i]));
    for (int64_t i = 0; i < n; i++)
        if (!(fabs(is[i] - wanted[i]) <= tolerance * largest) &&
            !(isnan(is[i]) && isnan(wanted[i]))) { /* an unused row of experts */
            printf("element %lld is %.17g, not %.17g\n", (long long)i, is[i],
                   wanted[i]);
            return false;
        }
    return true;
}

static void print_program(const Program *p, const char *fault)
{
    Out o;
    out_init(&o, p->arena);
    ir_print(&o, p);
    printf("%s\n%s", fault, o.text);
}

static bool run_trial(Trial *t, const Op *global, Interp *reference)
{
    Op *op = build_partitioned(t, global);
    /* A partitioned program may not have boundaries; their rule is tested. */
    const char *fault = op->kind == OP_boundary ? NULL : ir_verify(t->p);
    Interp *in = interp_new(t->p);
    if (!fault) {
        set_numbers(t->sample, t->p, in);
        fault = interp_run(in);
    }
    for (int i = 0; i < op->nouts && !fault; i++) {
        const double *is = interp_value(in, op->out[i]->name, NULL);
        const double *wanted =
            interp_value(reference, global->out[i]->name, NULL);
        if (!equal(is, wanted, type_elements(&op->out[i]->type)))
            fault = "the result differs from the global one";
    }
    if (fault)
        print_program(t->p, fault);
    interp_free(in);
    return !fault;
}

/* ---- all splits of an op ----------------------------------------------- */

static int all_splits(const Rule *r, Split *split)
{
    int n = 0;
    split[n++] = (Split){SPLIT_NONE, -1, -1};
    for (int f = 0; f < r->nfactors; f++)
        split[n++] = (Split){SPLIT_FACTOR, f, -1};
    for (int i = -1; i < r->nargs; i++)
        split[n++] = (Split){SPLIT_PARTIAL, -1, i};
    split[n++] = (Split){SPLIT_PMAX, -1, -1};
    return n;
}

/* Whether the axes may have these splits together; a value cannot be both
 * Partial(sum) and Partial(max). */
static bool allowed(const Trial *t, const Op *op, const Mesh *m)
{
    int64_t taken[MAX_FACTORS], pieces[MAX_FACTORS];
    bool sum = false, max = false;
    for (int f = 0; f < MAX_FACTORS; f++)
        taken[f] = pieces[f] = 1;
    for (int a = 0; a < m->n; a++) {
        Split s = t->split[a];
        if (!rule_allows(op, &t->rule, s, m->size[a], mesh_pieces(m, a), pieces))
            return false;
        if (s.kind == SPLIT_FACTOR) {
            taken[s.factor] *= m->size[a];
            pieces[s.factor] *= m->size[a] * mesh_pieces(m, a);
        }
        for (int i = 0; i < t->rule.nargs + t->rule.nouts; i++) {
            AxisPlace place = rule_place(&t->rule, i, s);
            sum |= place.kind == AX_P;
            max |= place.kind == AX_PMAX;
        }
    }
    return !(sum && max) && rule_fits(&t->rule, taken);
}

static bool try_splits(const OpSample *s, const Split *split, bool turned,
                       const Mesh *m, const Program *gp, const Op *global,
                       Interp *reference, bool *ran)
{
    Trial t = {.sample = s, .turned = turned, .arena = arena_new()};
    t.p = new_program(t.arena, m, STAGE_PARTITIONED);
    rule_of(gp, global, &t.rule);
    for (int a = 0; a < m->n; a++)
        t.split[a] = split[a];
    *ran = allowed(&t, global, m);
    bool good = !*ran || run_trial(&t, global, reference);
    arena_free(t.arena);
    return good;
}

static void check_sample(Check *c, const OpSample *s)
{
    static const Mesh one[] = {
        {.n = 1, .name = {"tp"}, .size = {2}},
        {.n = 1, .name = {"tp"}, .size = {2}, .zigzag = 1},
    };
    static const Mesh two[] = {
        {.n = 2, .name = {"dp", "tp"}, .size = {2, 2}},
        {.n = 2, .name = {"dp", "tp"}, .size = {2, 2}, .zigzag = 1},
    };
    static const Mesh none = {0};
    Arena *a = arena_new();
    Program *p = new_program(a, &none, STAGE_GLOBAL);
    Op *op = build_global(p, s);
    Interp *reference = interp_new(p);
    set_numbers(s, p, reference);
    const char *fault = interp_run(reference);
    Rule rule;
    Split split[MAX_SPLITS];
    rule_of(p, op, &rule);
    int n = all_splits(&rule, split), rans = 0;
    for (int i = 0; i < n && !fault; i++)
        for (int j = -1; j < n; j++)
            for (int k = 0; k < (j < 0 ? 2 : 4); k++) {
                Split both[] = {split[i], split[j < 0 ? 0 : j]};
                const Mesh *m = j < 0 ? &one[k % 2] : &two[k % 2];
                bool ran, good = try_splits(s, both, k >= 2, m, p, op, reference, &ran);
                if (!good)
                    printf("%s: splits %d and %d%s\n", sample_text(a, s), i, j,
                           m->zigzag ? ", zigzag" : "");
                rans += ran;
                if (ran)
                    CHECK(c, good);
            }
    if (fault)
        printf("%s: %s\n", sample_text(a, s), fault);
    CHECK(c, rans > 0);
    interp_free(reference);
    arena_free(a);
}

static void check_table(Check *c)
{
    for (int kind = 0; kind < OP_COUNT; kind++) {
        int rows = 0;
        for (int i = 0; i < op_sample_count; i++)
            if ((int)op_sample[i].kind == kind) {
                rows++;
                check_sample(c, &op_sample[i]);
            }
        if (op_info((OpKind)kind)->rule && rows == 0) {
            printf("no sample of '%s'\n", op_info((OpKind)kind)->name);
            CHECK(c, rows > 0);
        }
    }
}

/* ---- rings of attention -------------------------------------------------- */

typedef struct RingTrial {
    Trial t;
    const Op *global;
    Interp *reference;
    const char *result[MAX_OUTS];
} RingTrial;

static const Context over_first_axis = {.axes = 1, .exchange = EXCHANGE_RING};
/* Whether the results of the program are those of the global one; false also if the verifier
 * refuses it. */
static bool ring_agrees(const RingTrial *r, Program *p, const char **fault)
{
    Interp *in = interp_new(p);
    *fault = ir_verify(p);
    if (!*fault) {
        set_numbers(r->t.sample, p, in);
        *fault = interp_run(in);
    }
    bool agrees = !*fault;
    for (int i = 0; i < r->global->nouts && agrees; i++) {
        const Value *wanted = r->global->out[i];
        const double *is = interp_value(in, r->result[i], NULL);
        const double *should = interp_value(r->reference, wanted->name, NULL);
        double largest = 0, off = 0;
        for (int64_t k = 0; is && k < type_elements(&wanted->type); k++) {
            largest = fmax(largest, fabs(should[k]));
            if (is[k] > -1e29 || should[k] != 0) /* the lse of a query without keys */
                off = fmax(off, fabs(is[k] - should[k]));
        }
        agrees = is && off <= tolerance * largest;
    }
    interp_free(in);
    return agrees;
}

/* Also the result that has the name of v. */
static void put_instead(Program *p, Value *v, Value *with)
{
    ir_replace_uses(p->step, v, with);
    ir_swap_names(v, with);
}

/* Fault number n: an operand of a shift is left where it is, or goes one rank too far; or a
 * step is left out. `hidden`: no result need show it. False: there are fewer. */
static bool make_ring_fault(Program *p, int n, bool bases_may, bool *hidden)
{
    for_ops(op, p->step) {
        int members = op->kind == OP_shift ? op->nargs : 0;
        bool step = op->kind == OP_attention_step && !attr_first(op);
        if (n >= 2 * members + step) {
            n -= 2 * members + step;
            continue;
        }
        if (step) {
            int state = attention_operands(op).state;
            for (int i = 0; i < 2; i++)
                put_instead(p, op->out[i], op->arg[state + i]);
            return true;
        }
        Value *v = op->out[n / 2], *from = op->arg[n / 2];
        *hidden = v->type.dtype == DT_I64 && bases_may;
        if (n % 2) {
            Build b = ir_build_at(p, op, op->next);
            from = ir_op_typed(&b, OP_shift, 1, &v, op->attr, 1, &v->type, NULL)->out[0];
        }
        put_instead(p, v, from);
        if (n % 2)
            from->def->arg[0] = v;
        return true;
    }
    return false;
}

static void check_ring_faults(Check *c, const RingTrial *r, const Program *p)
{
    const Attr *attr = r->t.sample->attr; /* causal, scale, window, softcap, segments, rate */
    bool may = !attr[0].i && !attr[2].i && attr[5].f <= 0;
    int most = attr[4].i ? 6 : 1 << 20; /* with segments a late step may have no pairs */
    const char *fault;
    for (int n = 0; n < most; n++) {
        bool hidden = false;
        Program *wrong = ir_copy(p);
        if (!make_ring_fault(wrong, n, may, &hidden))
            return;
        bool hides = ring_agrees(r, wrong, &fault) && !hidden;
        if (hides)
            printf("%s: fault %d of a ring\n", sample_text(r->t.arena, r->t.sample), n);
        CHECK(c, !hides);
    }
}

static void check_ring(Check *c, const OpSample *s, const Mesh *m)
{
    static const Mesh whole = {0};
    RingTrial r = {.t = {.sample = s, .arena = arena_new()}};
    Program *gp = new_program(r.t.arena, &whole, STAGE_GLOBAL);
    gp->plan.context = over_first_axis;
    Op *global = build_global(gp, s);
    r.global = global;
    r.reference = interp_new(gp);
    set_numbers(s, gp, r.reference);
    rule_of(gp, global, &r.t.rule);
    const DimFactors *tokens = &r.t.rule.dim[attention_operands(global).q][1];
    r.t.split[0] = (Split){SPLIT_FACTOR, tokens->n ? tokens->f[0] : -1, -1};
    r.t.p = new_program(r.t.arena, m, STAGE_PARTITIONED);
    r.t.p->plan.context = over_first_axis;
    const char *fault = interp_run(r.reference);
    if (!fault && tokens->n && allowed(&r.t, global, m)) {
        Op *op = build_partitioned(&r.t, global);
        for (int i = 0; i < op->nouts; i++)
            r.result[i] = op->out[i]->name;
        CHECK(c, attention_ring(r.t.p, op) == 1);
        CHECK(c, ring_agrees(&r, r.t.p, &fault));
        pass_ring(r.t.p, &(TargetInfo){0});
        bool agrees = ring_agrees(&r, r.t.p, &fault);
        CHECK(c, agrees);
        if (!agrees)
            print_program(r.t.p, fault ? fault : "the result differs from the global one");
        check_ring_faults(c, &r, r.t.p);
    }
    interp_free(r.reference);
    arena_free(r.t.arena);
}

static void check_rings(Check *c)
{
    for (int i = 0; i < op_sample_count; i++) {
        const OpSample *s = &op_sample[i];
        int q = s->kind != OP_attention;
        if ((s->kind == OP_attention || s->kind == OP_attention_grad) && !s->attr[8].i &&
            s->arg[q].dim[1] == s->arg[q + 1].dim[1])
            for (uint32_t k = 0; k < 4; k++)
                check_ring(c, s, &(Mesh){.n = 1, .name = {"cp"}, .size = {k < 2 ? 2 : 4},
                                         .zigzag = k % 2});
    }
}

/* ---- conversions ------------------------------------------------------- */

/* Placement number i of a [16, 16] tensor on two axes; false: none. */
static bool nth_placement(int i, Placement *place)
{
    static const AxisPlace choice[] = {
        {AX_R, 0, 0},
        {AX_P, 0, 0},
        {AX_S, 0, 0},
        {AX_S, 1, 0},
    };
    enum { N = sizeof choice / sizeof *choice };
    if (i >= 2 * N * N)
        return false;
    *place = (Placement){{choice[i % N], choice[i / N % N]}};
    if (place->ax[0].kind == AX_S && place->ax[1].kind == AX_S &&
        place->ax[0].dim == place->ax[1].dim)
        place->ax[i / (N * N) ? 0 : 1].order = 1;
    return true;
}

static bool check_conversion(const Placement *from, const Placement *to, uint32_t zigzag)
{
    enum { N = 16 };
    Mesh mesh = {.n = 2, .name = {"dp", "tp"}, .size = {2, 4}, .zigzag = zigzag};
    static const OpSample sample = {
        OP_detach, 1, {{ANY, 2, {N, N}, 0, false}}, {{.i = 0}}};
    Arena *a = arena_new();
    Program *p = new_program(a, &mesh, STAGE_PARTITIONED);
    Type t = sample_type(&sample.arg[0]);
    t.place = *from;
    Value *x = make_operand(p, t, 0);
    Build b = at_end(p);
    Value *y = reshard_emit(&b, x, to, why_is("test", (Loc){0}));
    const char *fault = ir_verify(p);
    if (!fault && !place_equal(&y->type.place, to))
        fault = "the result is placed otherwise";
    Interp *in = interp_new(p);
    set_numbers(&sample, p, in);
    if (!fault)
        fault = interp_run(in);
    double wanted[N * N];
    sample_numbers(&sample.arg[0], 1, wanted);
    if (!fault && !equal(interp_value(in, y->name, NULL), wanted, N * N))
        fault = "the tensor has changed";
    if (fault)
        print_program(p, fault);
    interp_free(in);
    arena_free(a);
    return !fault;
}

static void check_conversions(Check *c)
{
    Placement from, to;
    for (int i = 0; nth_placement(i, &from); i++)
        for (int j = 0; nth_placement(j, &to); j++)
            for (uint32_t zigzag = 0; zigzag < 3; zigzag++) /* neither, dp, tp */
                CHECK(c, check_conversion(&from, &to, zigzag));
}

int main(void)
{
    Check c = {0, 0};
    check_table(&c);
    check_rings(&c);
    check_conversions(&c);
    return check_end(&c);
}
