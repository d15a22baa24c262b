/* parse.c: parses a printed program; print.c shows the form.
 *
 * The result has the structure of a program; ir_verify checks whether it is
 * valid. Values must be defined before their uses, so that one pass over the
 * text builds everything.
 */
#include "ir/text/parse.h"

#include <string.h>

typedef struct Name {
    const char *text;
    Loc loc;
} Name;

static Name parse_name(Parser *s)
{
    Name name = {s->tok.text, s->tok.loc};
    if (s->tok.kind != TK_VALUE)
        parse_fail(s, s->tok.loc, "expected a value");
    parse_next(s);
    return name;
}

/* ---- notes --------------------------------------------------------------- */

static Why parse_why(Parser *s)
{
    Why why = {0};
    if (parse_take_word(s, "follows"))
        why.follows = parse_name(s).text;
    else
        why.text = parse_string(s);
    if (parse_take_key(s, "removed"))
        why.removed_by = parse_word(s, "a pass");
    why.loc = parse_loc(s);
    return why;
}

static Origin parse_origin(Parser *s)
{
    for (Origin o = ORIGIN_NONE + 1; o < ORIGINS; o++)
        if (parse_take_word(s, origin_name(o)))
            return o;
    return ORIGIN_NONE;
}

/* "| %h @1:2:3 tp "…" @1:4:5" or "| style because "…"", up to the line's
 * end. */
static void parse_notes(Parser *s, Op *op)
{
    while (parse_take(s, '|')) {
        Origin origin = op ? parse_origin(s) : ORIGIN_NONE;
        if (op && (origin || parse_is_word(s, "because"))) {
            parse_expect_word(s, "because");
            op->why = parse_why(s);
            op->why.origin = origin;
            continue;
        }
        Value *v = parse_use(s);
        if (!v)
            return;
        if (parse_is(s, '@'))
            v->loc = parse_loc(s);
        while (!s->tok.first && !s->failed) {
            int axis = parse_axis(s);
            v->why[axis] = parse_why(s);
        }
    }
}

/* ---- ops ----------------------------------------------------------------- */

/* An op while it is parsed: results first, types later. */
typedef struct Draft {
    VEC(Name) result;
    VEC(Type) type;
    VEC(const Address *) address; /* of each result */
    VEC(Value *) arg;
    const Placement *needs;
    OpKind kind;
    Attr attr[MAX_ATTRS];
    Phase phase;
    const char *path;
    int stream, workspace;
    bool recomputed, done;
    Loc loc, at;
} Draft;

static void parse_results(Parser *s, Draft *d)
{
    if (s->tok.kind != TK_VALUE)
        return;
    do {
        Name name = parse_name(s);
        vec_push(s->arena, &d->result, name);
    } while (parse_take(s, ','));
    parse_expect(s, '=');
}

static void parse_kind(Parser *s, Draft *d)
{
    Loc loc = s->tok.loc;
    const char *name = parse_word(s, "an operator");
    d->kind = op_by_name(name);
    if (d->kind != OP_COUNT)
        return;
    const char *names[OP_COUNT];
    for (int k = 0; k < OP_COUNT; k++)
        names[k] = op_info((OpKind)k)->name;
    const char *near = diag_near_miss(name, names, OP_COUNT);
    bool first = !s->failed;
    parse_fail(s, loc, "there is no operator '%s'", name);
    if (near && first)
        diag_note(s->diag, loc, "did you mean '%s'?", near);
}

static void parse_operands(Parser *s, Draft *d)
{
    if (s->tok.kind != TK_VALUE || s->tok.first)
        return;
    do {
        Value *v = parse_use(s);
        if (v)
            vec_push(s->arena, &d->arg, v);
    } while (parse_take(s, ','));
}

/* "needs f32[8/dp, 64], f32[64]": the operands' types as the op needs them. */
static void parse_needs(Parser *s, Draft *d)
{
    VEC(Placement) needs = {0};
    if (!parse_is_word(s, "needs"))
        return;
    do {
        parse_next(s);
        Loc loc = s->tok.loc;
        Type t = parse_type(s);
        if (needs.n == d->arg.n || !d->arg.at[needs.n] ||
            !type_same_shape(&t, &d->arg.at[needs.n]->type))
            parse_fail(s, loc, "there is no operand of this shape");
        vec_push(s->arena, &needs, t.place);
    } while (parse_is(s, ',') && !s->failed);
    if (needs.n != d->arg.n)
        parse_fail(s, d->at, "%d operands, but it needs %d", d->arg.n, needs.n);
    d->needs = needs.at;
}

static void parse_draft(Parser *s, Draft *d)
{
    static const char *const phases[] = {"init", "forward", "backward",
                                         "optimizer", NULL};
    d->at = s->tok.loc;
    parse_results(s, d);
    parse_kind(s, d);
    if (s->failed)
        return;
    parse_attrs(s, d->kind, d->attr);
    parse_operands(s, d);
    if (d->result.n) {
        parse_expect(s, ':');
        do {
            Type t = parse_type(s);
            vec_push(s->arena, &d->type, t);
            const Address *at = parse_address(s);
            vec_push(s->arena, &d->address, at);
        } while (parse_take(s, ','));
    }
    if (d->type.n != d->result.n)
        parse_fail(s, d->at, "%d results, but %d types", d->result.n,
                   d->type.n);
    parse_needs(s, d);
    d->phase = (Phase)parse_choice(s, phases, "a phase");
    d->recomputed = parse_take_word(s, "recomputed");
    d->done = parse_take_word(s, "done");
    d->path = s->tok.kind == TK_STRING ? parse_string(s) : "";
    if (parse_take_key(s, "stream"))
        d->stream = parse_small(s);
    d->workspace = -1;
    if (parse_take_key(s, "workspace"))
        d->workspace = parse_small(s);
    d->loc = parse_loc(s);
}

enum { MAX_BODIES = 16 }; /* inside one another */

static void parse_op(Parser *s, Region *r, int depth);

static void parse_ops(Parser *s, Region *r, int depth)
{
    while (!parse_is(s, '}') && !parse_is_word(s, "yield") && !s->failed)
        parse_op(s, r, depth);
}

/* "%x = %start : type", after "carry", at the start of a body. */
static void parse_argument(Parser *s, Op *op, Draft *d, Value **arg, int n)
{
    Name name = parse_name(s);
    parse_expect(s, '=');
    Value *operand = parse_use(s);
    parse_expect(s, ':');
    Type t = parse_type(s);
    const Address *at = parse_address(s);
    if (s->failed)
        return;
    Value *v = parse_define(s, name.text, name.loc, t, op->loc);
    v->address = at;
    v->region = op->body;
    v->index = n;
    *arg = v;
    vec_push(s->arena, &d->arg, operand);
    parse_notes(s, NULL);
}

static void parse_body(Parser *s, Op *op, Draft *d, int depth)
{
    static const char *const roles[] = {"carry", "stack", "free", "arg"};
    VEC(Value *) inner = {0};
    bool fused = op->kind == OP_fused;
    int role = fused ? 3 : 0, last = fused ? 3 : 2;
    op->body = ir_raw_region(s->p, op, 0);
    if (depth > MAX_BODIES)
        parse_fail(s, s->tok.loc, "bodies are nested too deep");
    /* Roles come in this order. */
    for (; role <= last && op->kind != OP_early && !s->failed; role++)
        while (parse_take_word(s, roles[role]) && !s->failed) {
            Value *v = NULL;
            parse_argument(s, op, d, &v, inner.n);
            vec_push(s->arena, &inner, v);
            op->ncarry += role == 0;
            op->nstack += role == 1;
        }
    op->body->arg = inner.at;
    op->body->nargs = inner.n;
    op->arg = d->arg.at;
    op->nargs = d->arg.n;
    parse_ops(s, op->body, depth + 1);
    VEC(Value *) yield = {0};
    if (op->kind != OP_early)
        parse_expect_word(s, "yield");
    if (!parse_is(s, '}'))
        do {
            Value *v = parse_use(s);
            vec_push(s->arena, &yield, v);
        } while (parse_take(s, ','));
    parse_expect(s, '}');
    op->body->yield = yield.at;
    op->body->nyields = yield.n;
}

/* Sets the value of a parameter or input to its op's result. */
static void note_value(Parser *s, const Op *op)
{
    Program *p = s->p;
    if (op->nouts != 1 || (op->kind != OP_param && op->kind != OP_input))
        return;
    int64_t i = op->kind == OP_param ? attr_param(op) : attr_input(op);
    if (i < 0)
        return;
    if (op->kind == OP_param && i < p->param.n)
        p->param.at[i].value = op->out[0];
    if (op->kind == OP_input && i < p->input.n)
        p->input.at[i].value = op->out[0];
}

static void parse_op(Parser *s, Region *r, int depth)
{
    Draft d = {0};
    parse_draft(s, &d);
    if (s->failed)
        return;
    Op *op = ir_raw_op(s->p, d.kind, d.arg.n, d.result.n);
    if (d.arg.n)
        memcpy(op->arg, d.arg.at, sizeof *op->arg * (size_t)d.arg.n);
    memcpy(op->attr, d.attr, sizeof op->attr);
    op->phase = d.phase;
    op->path = d.path;
    op->stream = d.stream;
    op->recomputed = d.recomputed;
    op->done = d.done;
    op->loc = d.loc;
    op->workspace = d.workspace;
    op->needs = d.needs;
    for (int i = 0; i < d.result.n; i++) {
        ir_set_out(op, i,
                   parse_define(s, d.result.at[i].text, d.result.at[i].loc,
                          d.type.at[i], d.loc));
        op->out[i]->address = d.address.at[i];
    }
    ir_insert(op, r, NULL);
    note_value(s, op);
    parse_note_op_names(s, op, d.at);
    bool body = op_has_body(op->kind);
    if (body)
        parse_expect(s, '{');
    parse_notes(s, op);
    if (body)
        parse_body(s, op, &d, depth);
}

/* Parses one program. */
static void parse_program(Parser *s)
{
    s->p = ir_program(s->arena, s->diag);
    s->source.n = 0;
    s->block.n = s->block.capacity = 0;
    s->block.at = NULL;
    s->value = (TextMap){.arena = s->arena};
    s->repeats = -1;
    parse_head(s);
    parse_expect(s, '{');
    parse_ops(s, s->p->step, 0);
    parse_expect(s, '}');
    parse_find_ops(s);
}

/* Parses a forward program of the training step p. */
static void parse_forward(Parser *s, Program *p)
{
    Loc loc = s->tok.loc;
    parse_program(s);
    Purpose purpose = s->p->purpose;
    if (s->failed)
        return;
    if (purpose == FOR_TRAINING)
        parse_fail(s, loc, "a program after the first has a line 'purpose'");
    else if (p->forward[purpose])
        parse_fail(s, loc, "the second program of purpose '%s'",
                   purpose_words[purpose]);
    else if (s->p->stage != p->stage)
        parse_fail(s, loc, "this program has another stage than the first");
    else if (s->repeats == (int)FOR_TRAINING)
        s->p->repeats = p;
    else if (s->repeats >= 0 && !p->forward[s->repeats])
        parse_fail(s, loc, "it repeats a program that does not precede it");
    else if (s->repeats >= 0)
        s->p->repeats = p->forward[s->repeats];
    s->p->training = p;
    p->forward[purpose] = s->p;
}

Program *ir_parse(Arena *a, Diag *d, uint16_t file)
{
    const Source *source = diag_source_at(d, file);
    Parser s = {.arena = a, .diag = d, .file = file, .line = 1};
    s.at = s.line_start = source->text;
    s.end = source->text + source->size;
    s.p = ir_program(a, d);
    parse_next(&s);
    parse_program(&s);
    Program *p = s.p;
    if (!s.failed && p->purpose != FOR_TRAINING)
        parse_fail(&s, (Loc){file, 1, 1, 1}, "a forward program follows the "
                   "training step whose parameters it reads");
    while (!s.failed && parse_is_word(&s, "parc"))
        parse_forward(&s, p);
    if (!s.failed && s.tok.kind != TK_END)
        parse_fail(&s, s.tok.loc, "unexpected text after the step");
    return s.failed ? NULL : p;
}
