/* rounds.c: computes experts in several rounds where their rows exceed the buffers.
 *
 * requires: STAGE_GLOBAL. `buffer=` of expert_parallel may have given group_rows fewer rows
 *           than the choices of its group can need. Programs that compute across rows are
 *           refused
 * ensures:  each program has an output "overflow", the number of rows without a place in all
 *           buffers; if it is not 0, a step changes nothing (autodiff). In programs other than
 *           the training step, what depends on the rows of a buffer runs in a loop of rounds,
 *           at most the number of buffers that all choices can fill. The runtime repeats a step
 *           that overflows by the program of purpose FOR_ROUNDS, and any other program with
 *           more rounds
 *
 * before   %pair, %row, %ends, %needed = group_rows{shape=[1, 1, 4, 96, 2]} %ids, %first
 *          %x = gather_rows %h, %pair, %row : f32[1, 1, 4, 96, 24]
 *          %y = grouped_matmul %x, %w, %ends : f32[1, 1, 4, 96, 24]
 *          %z = combine_rows %y, %pair, %row : f32[8, 16, 24]
 * after, in the training step
 *          %over = relu(%needed - 96), summed over groups, shards, and layers
 *          output{name="overflow"} %over
 * after, in the others, for 256 choices
 *          %none = full{value=0, …} : f32[8, 16, 24]
 *          %round.3, %left.2, %z = loop{n=3, reverse=false} : … rounds {
 *            carry %round = %first : i32[]
 *            carry %left = %zero : f32[]
 *            carry %sum = %none : f32[8, 16, 24]
 *            free …
 *            %pair, %row, %ends, %needed = group_rows{shape=[1, 1, 4, 96, 2]} %ids, %round
 *            …
 *            %sum.2 = add %sum, %z.2
 *            %one = full{value=1, …} : i32[]
 *            %round.2 = add %round, %one
 *            %over = relu(%needed - 96 %round.2), summed over groups and shards
 *            yield %round.2, %over, %sum.2
 *          }
 *          output{name="overflow"} %left.2
 *
 * The rounds of a program that trains save nothing but choices: their plan recomputes them.
 */
#include "ir/analysis/choices.h"
#include "ir/analysis/expert_rows.h"
#include "ir/options.h"
#include "passes/microbatch/step_sum.h"
#include "passes/pass.h"

/* ---- rows without a place -------------------------------------------------- */

/* The number of rows that are needed beyond those of the rounds up to the one before `next`. */
static Value *rows_over(Build *b, const Op *group, Value *next)
{
    Attr rows[MAX_ATTRS] = {{.f = (double)attr_shape(group)->v[3]}};
    Value *had = ir_cast(b, next, DT_F32);
    had = ir_value(b, OP_scale, 1, &had, rows, NULL);
    Value *over = ir_unary(b, OP_relu, ir_binary(b, OP_sub, group->out[3], had));
    return ir_sum(b, over, (AttrList){3, {0, 1, 2}}, false);
}

static Value *next_round(Build *b, Value *round)
{
    return ir_binary(b, OP_add, round, ir_full(b, 1, DT_I32, 0, NULL));
}

static Value *overflow_of(Program *p, Op *group)
{
    Build b = ir_build_at(p, group, group->next);
    return rows_over(&b, group, next_round(&b, group->arg[1]));
}

/* Modules keep their states in a step that overflows. */
static void keep_states(Program *p, Value *overflow)
{
    for (Op *op = p->step->first; op; op = op->next) {
        if (op->kind != OP_assign)
            continue;
        Build b = ir_build_at(p, op, op);
        Value *limit = ir_scalar_const(&b, 0.5), *fits = ir_binary(&b, OP_less, overflow, limit);
        Value *args[] = {fits, op->arg[0], p->param.at[attr_param(op)].value};
        op->arg[0] = ir_value(&b, OP_select, 3, args, NULL, op->arg[0]->name);
    }
}

/* ---- rounds --------------------------------------------------------------- */

/* The ops that depend on the rows of a group, up to those that combine rows. */
typedef struct Rows {
    Program *p;
    Op *group;
    bool *inside;        /* values that depend on rows, by id */
    bool *after;         /* those that depend on combined rows */
    VEC(Op *) op;        /* the group first */
    VEC(Value *) result; /* of combine_rows */
} Rows;

static bool is_combined(const Op *op)
{
    return op->kind == OP_combine_rows || op->kind == OP_scatter_pairs;
}

static void find_rows(Rows *r)
{
    for (Op *op = r->group; op; op = op->next) {
        bool inside = op == r->group || op_reads_any(op, r->inside);
        bool combined = inside && is_combined(op), after = op_reads_any(op, r->after);
        if (inside)
            vec_push(r->p->arena, &r->op, op);
        for (int i = 0; i < op->nouts; i++) {
            r->inside[op->out[i]->id] = inside && !combined;
            r->after[op->out[i]->id] = combined || after;
        }
        if (combined)
            vec_push(r->p->arena, &r->result, op->out[0]);
    }
}

/* Whether rows reach other ops only combined, as rounds need. */
static bool check_rows(const Rows *r)
{
    const Region *region = r->group->region;
    bool fine = r->result.n > 0;
    for (int i = 0; i < r->op.n && fine; i++) {
        const Op *op = r->op.at[i];
        fine = !op_info(op->kind)->effect && !op->body && !op_reads_any(op, r->after);
    }
    for (int i = 0; i < region->nyields && fine; i++)
        fine = !r->inside[region->yield[i]->id];
    if (fine)
        return true;
    diag_error(r->p->diag, r->group->loc, "rows of experts, or what group_rows says of them, are "
               "used elsewhere than up to one combine_rows: they would be those of one buffer");
    diag_help(r->p->diag, "write '%s=none' after the modules in the clause %s",
              option_name(OPTION_buffer), clause_name(CL_EXPERT_PARALLEL));
    return false;
}

/* Moves the ops that depend on combined rows after the last op of the loop. */
static void move_after(Rows *r)
{
    Op *end = r->op.at[r->op.n - 1], *to = end->next;
    for (Op *op = r->group, *next; op != end; op = next) {
        next = op->next;
        if (op_reads_any(op, r->after))
            ir_move(op, op->region, to);
    }
}

/* The values that the loop reads. */
static int operands(const Rows *r, Value **arg)
{
    int n = 0;
    for (int i = 0; i < r->op.n; i++) {
        const Op *op = r->op.at[i];
        for (int k = 0; k < op->nargs; k++) {
            bool known = r->inside[op->arg[k]->id] || op->arg[k] == r->group->arg[1];
            for (int j = 0; j < n; j++)
                known |= arg[j] == op->arg[k];
            if (!known)
                arg[n++] = op->arg[k];
        }
    }
    return n;
}

enum { ROUND, LEFT, SUMS }; /* carries; a sum for each result */

/* Opens the loop, and maps what it reads to its arguments. */
static Op *open_loop(Rows *r, Build *b, Value **map)
{
    Program *p = r->p;
    int ncarry = SUMS + r->result.n, most = ncarry;
    for (int i = 0; i < r->op.n; i++)
        most += r->op.at[i]->nargs;
    Value **arg = NEW_ARRAY(p->arena, Value *, most);
    arg[ROUND] = r->group->arg[1];
    arg[LEFT] = ir_scalar_const(b, 0);
    for (int i = 0; i < r->result.n; i++) {
        const Type *t = &r->result.at[i]->type;
        arg[SUMS + i] = ir_full(b, 0, DT_F32, t->ndim, t->dim);
    }
    int nargs = ncarry + operands(r, arg + ncarry);
    Attr attr[MAX_ATTRS] = {{.i = group_rounds(r->group)}, {.i = false}};
    Op *loop = ir_open(b, OP_loop, nargs, arg, ncarry, 0, attr);
    loop->rounds = true;
    map[arg[ROUND]->id] = loop->body->arg[ROUND];
    for (int i = ncarry; i < nargs; i++)
        map[arg[i]->id] = loop->body->arg[i];
    return loop;
}

/* Moves the ops into a loop; returns the number of rows that lack a place after it. */
static Value *run_in_rounds(Rows *r)
{
    Program *p = r->p;
    Build b = ir_build_at(p, r->group, r->op.at[r->op.n - 1]->next), in = b;
    Value **map = NEW_ARRAY(p->arena, Value *, p->nvalues);
    Op *loop = open_loop(r, &b, map);
    Region *body = loop->body;
    in.region = body;
    in.before = NULL;
    for (int i = 0; i < r->op.n; i++)
        ir_clone(&in, r->op.at[i], map);
    Value **yield = NEW_ARRAY(p->arena, Value *, loop->ncarry);
    yield[ROUND] = next_round(&in, body->arg[ROUND]);
    yield[LEFT] = rows_over(&in, map[r->group->out[0]->id]->def, yield[ROUND]);
    for (int i = 0; i < r->result.n; i++) {
        Value *x = ir_cast(&in, map[r->result.at[i]->id], DT_F32);
        yield[SUMS + i] = ir_binary(&in, OP_add, body->arg[SUMS + i], x);
    }
    ir_yield(p, body, loop->ncarry, yield);
    ir_close(p, loop);
    for (int i = 0; i < r->result.n; i++) {
        Value *of = r->result.at[i], *sum = ir_cast(&b, loop->out[SUMS + i], of->type.dtype);
        ir_replace_uses(of->region, of, sum);
    }
    for (int i = r->op.n - 1; i >= 0; i--)
        ir_remove(r->op.at[i]);
    return loop->out[LEFT];
}

/* NULL after an error. */
static Value *in_rounds(Program *p, Op *group)
{
    Rows r = {.p = p, .group = group, .inside = NEW_ARRAY(p->arena, bool, p->nvalues),
              .after = NEW_ARRAY(p->arena, bool, p->nvalues)};
    find_rows(&r);
    if (!check_rows(&r))
        return NULL;
    move_after(&r);
    return run_in_rounds(&r);
}

/* Sums over rows would read unused ones, whose number depends on the plan. */
static bool check_mixed(Program *p)
{
    const Op *mixed = expert_rows_mixed(p);
    if (!mixed)
        return true;
    diag_error(p->diag, mixed->loc, "'%s' works across rows of experts, of which some are unused: "
               "each row must be computed by itself until combine_rows adds them",
               op_info(mixed->kind)->name);
    return diag_help(p->diag, "compute it from tokens, before gather_rows or after combine_rows");
}

void pass_rounds(Program *p, const TargetInfo *t)
{
    (void)t;
    if (!check_mixed(p))
        return;
    VEC(Op *) group = {0};
    for_ops(op, p->step)
        if (op->kind == OP_group_rows && group_rounds(op) > 1)
            vec_push(p->arena, &group, op);
    Value **over = NEW_ARRAY(p->arena, Value *, group.n + 1);
    for (int i = 0; i < group.n; i++) {
        bool once = p->purpose == FOR_TRAINING;
        over[i] = once ? overflow_of(p, group.at[i]) : in_rounds(p, group.at[i]);
    }
    if (group.n && diag_error_count(p->diag) == 0)
        keep_states(p, step_sum(p, over, group.n, "overflow"));
}
