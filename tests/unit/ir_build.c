/* ir_build.c: tests the construction and modification of programs: builder,
 * loops, clones, names, removal of dead ops, readers, flops. */
#include "check.h"
#include "ir/analysis/flops.h"
#include "ir/analysis/readers.h"
#include "ir/analysis/uses.h"
#include "tests/unit/ir_tools.h"

static const char *text_of(Program *p)
{
    Out o;
    out_init(&o, p->arena);
    ir_print(&o, p);
    const char *step = strstr(o.text, "step {\n");
    return step + strlen("step {\n");
}

static Program *global_program(Arena *a)
{
    return tool_parse(a, "parc ir 1\nstage global\nmodel \"t\"\nmesh\n"
                         "input \"x\" : f32[4, 8]\nstep {\n}\n");
}

static Value *input(Build *b)
{
    Attr attr[] = {{.i = 0}};
    return ir_value(b, OP_input, 0, NULL, attr, "x");
}

static void test_names(Check *c, Program *p)
{
    CHECK_TEXT(c, ir_unique_name(p, "h"), "h");
    CHECK_TEXT(c, ir_unique_name(p, "h"), "h.2");
    CHECK_TEXT(c, ir_unique_name(p, "h.2"), "h.3");
    CHECK_TEXT(c, ir_unique_name(p, "layers.*.w"), "layers._.w");
    CHECK_TEXT(c, ir_unique_name(p, ""), "v");
    CHECK(c, !ir_claim_name(p, "h.3"));
    CHECK(c, ir_claim_name(p, "h.4"));
    CHECK_TEXT(c, ir_unique_name(p, "h"), "h.5");
    CHECK_TEXT(c, ir_unique_name(p, "7"), "7");
    for (int i = 0; i < 100000; i++)
        ir_unique_name(p, "many");
    CHECK_TEXT(c, ir_unique_name(p, "many"), "many.100001");
}

static void test_builder(Check *c, Arena *a)
{
    Program *p = global_program(a);
    Build b = {.p = p, .region = p->step, .phase = PH_FORWARD, .path = "m"};
    Value *x = input(&b);
    Value *s = ir_sum(&b, x, (AttrList){1, {1}}, true);
    Value *y = ir_binary(&b, OP_sub, x, s);
    CHECK(c, ir_cast(&b, y, DT_F32) == y);
    Value *z = ir_cast(&b, y, DT_BF16);
    Value *q = ir_binary(&b, OP_mul, z, ir_scalar_const(&b, 2));
    CHECK(c, q->type.dtype == DT_BF16);
    Value *e = ir_einsum(&b, "bk,bf->kf", DT_F32, x, x);
    CHECK(c, op_flops(p, e->def) == 2 * 4 * 8 * 8);
    CHECK(c, program_flops(p, PH_FORWARD) == 2 * 4 * 8 * 8);
    ir_transpose(&b, ir_reshape(&b, e, 3, (int64_t[]){2, 4, 8}),
                 (AttrList){3, {2, 0, 1}});
    ir_broadcast(&b, s, 3, (int64_t[]){2, 4, 8});
    ir_boundary(&b, x, "m", (Port){.input = true}, false);
    CHECK_TEXT(c, text_of(p),
               "  %x = input{input=0} : f32[4, 8] forward \"m\"\n"
               "  %sum = sum{dims=[1], keep=true} %x : f32[4, 1] forward "
               "\"m\"\n"
               "  %sub = sub %x, %sum : f32[4, 8] forward \"m\"\n"
               "  %cast = cast{to=bf16} %sub : bf16[4, 8] forward \"m\"\n"
               "  %full = full{value=2, type=f32, dims=[]} : f32[] forward "
               "\"m\"\n"
               "  %mul = mul %cast, %full : bf16[4, 8] forward \"m\"\n"
               "  %einsum = einsum{spec=\"bk,bf->kf\", type=f32} %x, %x : "
               "f32[8, 8] forward \"m\"\n"
               "  %reshape = reshape{dims=[2, 4, 8]} %einsum : f32[2, 4, 8] "
               "forward \"m\"\n"
               "  %transpose = transpose{perm=[2, 0, 1]} %reshape : "
               "f32[8, 2, 4] forward \"m\"\n"
               "  %broadcast = broadcast{dims=[2, 4, 8]} %sum : f32[2, 4, 8] "
               "forward \"m\"\n"
               "  %x.2 = boundary{path=\"m\", port=in0, grad=false, styles=[]} %x : "
               "f32[4, 8] forward \"m\"\n"
               "}\n");
    ir_eliminate_dead(p);
    CHECK_TEXT(c, text_of(p),
               "  %x = input{input=0} : f32[4, 8] forward \"m\"\n}\n");
}

/* A loop with a carry, a stacked result, and results that are added later. */
static void test_loop(Check *c, Arena *a)
{
    Program *p = global_program(a);
    Build b = {.p = p, .region = p->step, .phase = PH_FORWARD, .path = ""};
    Value *x = input(&b), *k = ir_scalar_const(&b, 3);
    Attr attr[] = {{.i = 5}, {.i = 0}};
    Op *loop = ir_open(&b, OP_loop, 1, &x, 1, 0, attr);
    Build in = b;
    in.region = loop->body;
    Value *y = ir_unary(&in, OP_exp, loop->body->arg[0]);
    ir_yield(p, loop->body, 2, (Value *[]){y, y});
    ir_close(p, loop);
    CHECK(c, ir_verify(p) == NULL);
    Value *t = ir_loop_add_free(p, loop, k);
    Value *stack = ir_loop_add_yield(p, loop, t);
    CHECK(c, loop->ncarry == 1 && loop->nargs == 2 && loop->nouts == 3);
    CHECK(c, t->index == 1 && stack->index == 2);
    CHECK(c, stack->type.nstack == 1 && stack->type.stack[0] == 5);
    CHECK(c, ir_verify(p) == NULL);
    CHECK(c, ir_trip_count(y->def) == 5 && ir_trip_count(loop) == 1);

    /* A second loop reads the stack by layer. */
    Op *second = ir_open(&b, OP_loop, 1, &stack, 0, 1, attr);
    ir_yield(p, second->body, 1, second->body->arg);
    ir_close(p, second);
    CHECK(c, type_equal(&second->out[0]->type, &stack->type));
    CHECK(c, ir_verify(p) == NULL);
}

static void test_dead(Check *c, Arena *a)
{
    Program *p = tool_parse(
        a, "parc ir 1\nstage partitioned\nmodel \"t\"\nmesh dp=2\n"
           "input \"x\" : f32[4/dp]\nstep {\n"
           "  %x = input{input=0} : f32[4/dp] forward\n"
           "  %u = neg %x : f32[4/dp] forward\n"
           "  %a, %b, %s, %t = loop{n=2, reverse=false} : f32[4/dp], "
           "f32[4/dp], f32[2 x 4/dp], f32[2 x 4/dp] forward {\n"
           "    carry %c = %x : f32[4/dp]\n"
           "    carry %d = %u : f32[4/dp]\n"
           "    free %f = %x : f32[4/dp]\n"
           "    free %g = %u : f32[4/dp]\n"
           "    %e = add %c, %f : f32[4/dp] forward\n"
           "    %h = add %d, %g : f32[4/dp] forward\n"
           "    yield %e, %h, %h, %e\n"
           "  }\n"
           "  %m, %n = all_gather{axes={dp}, unit=none, prefetch=0} %a, %b : "
           "f32[4], f32[4] forward\n"
           "  %o = sum{dims=[0], keep=false} %m : f32[] forward\n"
           "  output{name=\"loss\"} %o forward\n}\n");
    CHECK(c, ir_verify(p) == NULL);
    ir_eliminate_dead(p);
    CHECK(c, ir_verify(p) == NULL);
    CHECK_TEXT(c, text_of(p),
               "  %x = input{input=0} : f32[4/dp] forward\n"
               "  %a = loop{n=2, reverse=false} : f32[4/dp] forward {\n"
               "    carry %c = %x : f32[4/dp]\n"
               "    free %f = %x : f32[4/dp]\n"
               "    %e = add %c, %f : f32[4/dp] forward\n"
               "    yield %e\n"
               "  }\n"
               "  %m = all_gather{axes={dp}, unit=none, prefetch=0} %a : "
               "f32[4] forward\n"
               "  %o = sum{dims=[0], keep=false} %m : f32[] forward\n"
               "  output{name=\"loss\"} %o forward\n}\n");

    /* A clone of the loop that reads another value. */
    Op *loop = p->step->first->next;
    Build b = {.p = p,
               .region = p->step,
               .before = loop->next,
               .phase = PH_BACKWARD,
               .path = ""};
    Value **map = NEW_ARRAY(a, Value *, p->nvalues + 8);
    Value *y = ir_unary(&b, OP_exp, loop->arg[0]);
    map[loop->arg[0]->id] = y;
    Op *clone = ir_clone(&b, loop, map);
    CHECK(c, clone->arg[0] == y && clone->body != loop->body);
    CHECK(c, clone->body->owner == clone && clone->phase == PH_BACKWARD);
    CHECK_TEXT(c, clone->out[0]->name, "a.2");
    CHECK(c, map[loop->out[0]->id] == clone->out[0]);
    ir_replace_uses(p->step, loop->out[0], clone->out[0]);
    CHECK(c, ir_verify(p) == NULL);
    ir_eliminate_dead(p);
    CHECK(c, loop->region == NULL);
    CHECK(c, ir_verify(p) == NULL);
    ir_loop_drop_result(p, clone, 0);
    CHECK(c, clone->nargs == 1 && clone->ncarry == 0 && clone->nouts == 0);
}

static void test_types(Check *c, Arena *a)
{
    Program *p = tool_program(a, "dp=3 one=1 tp=2");
    Type t = tool_type(p, "f32[2 x 12/(tp·dp), 7]");
    CHECK(c, type_check(a, &t, &p->mesh) == NULL);
    CHECK(c, type_parts(&t, &p->mesh, 0) == 6);
    CHECK(c, type_local_dim(&t, &p->mesh, 0) == 2);
    CHECK(c, type_local_elements(&t, &p->mesh) == 2 * 2 * 7);
    /* tp is major: rank 3 is dp=1, tp=1, part 1*3+1. */
    CHECK(c, type_local_index(&t, &p->mesh, 0, 3, 0) == 8);
    CHECK(c, mesh_ranks(&p->mesh) == 6 && mesh_coord(&p->mesh, 3, 0) == 1);
    Type flat = tool_type(p, "f32[2 x 10/tp, 2]~dp");
    CHECK(c, type_flat_run(&flat, &p->mesh) == 4);
    CHECK(c, type_local_bytes(&flat, &p->mesh) == 4 * 2 * 4);
    CHECK(c, type_is_flat(&flat, &p->mesh) && !type_is_flat(&t, &p->mesh));
    t.place.ax[1] = (AxisPlace){AX_S, 0, 0};
    t.place.ax[2].order = 1;
    t.place.ax[0].order = 2;
    CHECK(c, type_check(a, &t, &p->mesh) != NULL);
    type_normalize(&t, &p->mesh);
    CHECK_TEXT(c, type_text(a, &t, &p->mesh), "f32[2 x 12/(tp·dp), 7]");
    CHECK_TEXT(c, axis_place_text(a, t.place.ax[0]), "S(0)");
}

/* Whether u lists every reader of v in its region, and no other op. */
static bool lists_readers(const Uses *u, const Value *v)
{
    int n, found = 0;
    Op *const *reader = uses_readers(u, v, &n);
    for (const Op *op = v->region->first; op; op = op->next) {
        bool reads = false;
        for (int i = 0; i < op->nargs; i++)
            reads |= op->arg[i] == v;
        if (reads && (found == n || reader[found++] != op))
            return false;
    }
    return found == n && u->count[v->id] == ir_count_uses(v);
}

static void test_uses(Check *c, Arena *a)
{
    Program *p = global_program(a);
    Build b = {.p = p, .region = p->step, .phase = PH_FORWARD, .path = ""};
    Value *x = input(&b), *args[] = {x};
    Value *square = ir_binary(&b, OP_mul, x, x);
    Op *loop = ir_open(&b, OP_loop, 1, args, 1, 0,
                       (Attr[MAX_ATTRS]){{.i = 3}});
    Build in = b;
    in.region = loop->body;
    Value *inner = ir_binary(&in, OP_add, loop->body->arg[0],
                             ir_unary(&in, OP_exp, loop->body->arg[0]));
    ir_yield(p, loop->body, 1, &inner);
    ir_close(p, loop);
    ir_binary(&b, OP_add, square, loop->out[0]);
    Uses uses = uses_find(p);
    int n;
    uses_readers(&uses, x, &n);
    CHECK(c, n == 2 && uses.count[x->id] == 3);
    CHECK(c, lists_readers(&uses, x) && lists_readers(&uses, square));
    CHECK(c, lists_readers(&uses, loop->body->arg[0]));
    CHECK(c, lists_readers(&uses, inner) && uses.count[inner->id] == 1);
    Value *late = ir_unary(&b, OP_exp, x);
    CHECK(c, !uses_readers(&uses, late, &n) && n == 0);
}

/* The names of the ops' results. */
static const char *names_of(Arena *a, Op *const *op, int n)
{
    const char *text = "";
    for (int i = 0; i < n; i++)
        text = arena_printf(a, "%s %s", text, op[i]->out[0]->name);
    return text;
}

/* Readers follow replacements, insertions, moves and removals of ops. */
static void test_readers(Check *c, Arena *a)
{
    Program *p = global_program(a);
    Build b = {.p = p, .region = p->step, .phase = PH_FORWARD, .path = ""};
    Value *x = input(&b);
    Value *y = ir_unary(&b, OP_exp, x);
    Value *z = ir_binary(&b, OP_mul, x, x);
    Value *last = ir_binary(&b, OP_add, y, z);
    Readers *r = readers_new(p);
    int n;
    Op *const *op = readers_of(r, x, &n);
    CHECK_TEXT(c, names_of(a, op, n), " exp mul");
    CHECK(c, readers_count(r, x) == 3);
    CHECK(c, readers_precedes(r, y->def, z->def));

    b.before = z->def;
    Value *first = ir_unary(&b, OP_neg, x);
    readers_enter(r, first->def);
    for (int i = 0; i < 100; i++) { /* more ops than the gap has numbers */
        b.before = z->def;
        readers_enter(r, ir_unary(&b, OP_neg, y)->def);
    }
    CHECK(c, readers_precedes(r, first->def, z->def->prev));
    CHECK(c, readers_precedes(r, z->def->prev->prev, z->def->prev));
    CHECK(c, readers_precedes(r, z->def->prev, z->def));
    CHECK(c, readers_precedes(r, z->def, last->def));
    CHECK(c, readers_count(r, y) == 101);

    readers_replace(r, z, first);
    CHECK(c, last->def->arg[1] == first);
    ir_remove(z->def);
    op = readers_of(r, x, &n);
    CHECK_TEXT(c, names_of(a, op, n), " exp neg");
    ir_move(first->def, p->step, y->def);
    readers_enter(r, first->def);
    op = readers_of(r, x, &n);
    CHECK_TEXT(c, names_of(a, op, n), " neg exp");
    op = readers_of(r, first, &n);
    CHECK_TEXT(c, names_of(a, op, n), " add");
    CHECK(c, readers_count(r, first) == 1);
}

int main(void)
{
    Check c = {0};
    Arena *a = arena_new();
    test_names(&c, global_program(a));
    test_builder(&c, a);
    test_loop(&c, a);
    test_dead(&c, a);
    test_types(&c, a);
    test_uses(&c, a);
    test_readers(&c, a);
    arena_free(a);
    return check_end(&c);
}
