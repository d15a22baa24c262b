/* ops.c: prints and parses programs and their ops; docs/ir.md has the grammar.
 *
 *   %h.3 = add %x, %wo : f32[8/dp, 32/tp, 64] forward "layers.*" @1:40:15
 *     | %h.3 tp "follows operand 0 of add" @1:44:9
 *   %h.4, %zs = loop{n=4, reverse=false} : f32[8/dp, 64], f32[4 x 8/dp] … {
 *     carry %x = %h.3 : f32[8/dp, 64]
 *     stack %w = %ws : f32[64, 64]
 *     free %t = %table : f32[32, 8]
 *     …
 *     yield %h1, %z
 *   }
 *
 * The result of the parser has the structure of a program; ir_verify checks
 * whether it is valid. Values must be defined before their uses, so that one
 * pass over the text builds everything.
 */
#include <string.h>

#include "ir/text/text.h"

typedef struct Name {
    const char *text;
    Loc loc;
} Name;

static Name parse_name(Text *t)
{
    Name name = {t->tok.text, t->tok.loc};
    if (t->tok.kind != TK_VALUE)
        parse_fail(t, t->tok.loc, "expected a value");
    parse_next(t);
    return name;
}

/* Begins a line. */
static void text_indented(Text *t, const char *form)
{
    if (t->out)
        out(t->out, "%*s", t->indent, "");
    text_form(t, form);
}

/* "%x, %y"; returns how many. */
static int text_uses(Text *t, int n, Value ***list)
{
    VEC(Value *) v = {0};
    int i = 0;
    do {
        Value *next = text_use(t, "", t->out ? (*list)[i] : NULL);
        if (next)
            vec_push(t->arena, &v, next);
    } while (text_given(t, ++i < n, ", "));
    if (!t->out)
        *list = v.at;
    return v.n;
}

/* ---- notes --------------------------------------------------------------- */

static void text_why(Text *t, Why *why)
{
    if (!text_given(t, why->follows, " follows"))
        text_field(t, " ", &why->text);
    else if (t->out)
        out(t->out, " %%%s", why->follows);
    else
        why->follows = parse_name(t).text;
    if (text_given(t, why->removed_by, " removed=")) {
        if (t->out)
            text_form(t, why->removed_by);
        else
            why->removed_by = parse_word(t, "a pass");
    }
    text_field(t, "", &why->loc);
}

/* The location of a value, if it differs from its op's, and its placements'
 * reasons: "| %h @1:2:3 tp "…" @1:4:5". */
static void print_value_notes(Text *t, Value *v, Loc known)
{
    bool any = false;
    for (int a = 0; a < t->p->mesh.n; a++)
        any |= why_is_given(&v->why[a]);
    bool moved = v->loc.file && (!loc_equal(v->loc, known) ||
                                 v->loc.len != known.len);
    if (!any && !moved)
        return;
    text_indented(t, "  | ");
    text_use(t, "", v);
    if (moved)
        text_field(t, "", &v->loc);
    for (int a = 0; a < t->p->mesh.n; a++)
        if (why_is_given(&v->why[a])) {
            text_axis(t, " ", a);
            text_why(t, &v->why[a]);
        }
    text_form(t, "\n");
}

/* The reason for the op: "| style because "…"", and its results' notes. */
static void print_notes(Text *t, Op *op)
{
    if (op->why.text) {
        const char *origin = origin_name(op->why.origin);
        text_indented(t, *origin ? "  | " : "  |");
        out(t->out, "%s because", origin);
        text_why(t, &op->why);
        text_form(t, "\n");
    }
    for (int i = 0; i < op->nouts; i++)
        print_value_notes(t, op->out[i], op->loc);
}

static void parse_value_notes(Text *t)
{
    Value *v = text_use(t, "", NULL);
    if (v && parse_is(t, "@"))
        text_field(t, "", &v->loc);
    while (v && !t->tok.first && !t->failed)
        text_why(t, &v->why[text_axis(t, "", 0)]);
}

static Origin parse_origin(Text *t)
{
    for (Origin o = ORIGIN_NONE + 1; o < ORIGINS; o++)
        if (text_given(t, false, origin_name(o)))
            return o;
    return ORIGIN_NONE;
}

/* Notes up to the end of each line; op: NULL for those of an argument. */
static void parse_notes(Text *t, Op *op)
{
    while (text_given(t, false, "|")) {
        Origin origin = op ? parse_origin(t) : ORIGIN_NONE;
        if (op && (origin || parse_is(t, "because"))) {
            text_form(t, "because");
            op->why.origin = origin;
            text_why(t, &op->why);
        } else {
            parse_value_notes(t);
        }
    }
}

/* ---- ops ----------------------------------------------------------------- */

static Op *parse_kind(Text *t)
{
    Loc loc = t->tok.loc;
    const char *name = parse_word(t, "an operator");
    OpKind kind = op_by_name(name);
    if (kind != OP_COUNT)
        return ir_raw_op(t->p, kind, 0, 0);
    const char *names[OP_COUNT];
    for (int k = 0; k < OP_COUNT; k++)
        names[k] = op_info((OpKind)k)->name;
    const char *near = diag_near_miss(name, names, OP_COUNT);
    bool first = !t->failed;
    parse_fail(t, loc, "there is no operator '%s'", name);
    if (near && first)
        diag_note(t->diag, loc, "did you mean '%s'?", near);
    return NULL;
}

/* The results' types and places. The parser defines the results, whose names it
 * has read. */
static void text_results(Text *t, Op *op, const Name *name, Loc at)
{
    int n = 0;
    if (op->nouts)
        do {
            Type type = t->out ? op->out[n]->type : (Type){0};
            text_field(t, n ? "" : " : ", &type);
            const Address *place =
                text_address(t, t->out ? op->out[n]->address : NULL);
            if (!t->out && n < op->nouts) {
                op->out[n] = parse_define(t, name[n].text, name[n].loc, type,
                                          (Loc){0});
                op->out[n]->address = place;
            }
        } while (text_given(t, ++n < op->nouts, ", "));
    if (n != op->nouts)
        parse_fail(t, at, "%d results, but %d types", op->nouts, n);
}

/* "needs f32[8/dp, 64], f32[64]": the operands' types as the op needs them. */
static void text_needs(Text *t, Op *op, Loc at)
{
    VEC(Placement) needs = {0};
    if (!text_given(t, op->needs && op->nargs, " needs "))
        return;
    do {
        Loc loc = t->tok.loc;
        Type type = {0};
        if (t->out) {
            type = op->arg[needs.n]->type;
            type.place = op->needs[needs.n];
        }
        text_field(t, "", &type);
        if (needs.n == op->nargs ||
            !type_same_shape(&type, &op->arg[needs.n]->type))
            parse_fail(t, loc, "there is no operand of this shape");
        vec_push(t->arena, &needs, type.place);
    } while (text_given(t, needs.n < op->nargs, ", "));
    if (needs.n != op->nargs)
        parse_fail(t, at, "%d operands, but it needs %d", op->nargs, needs.n);
    op->needs = needs.at;
}

/* What follows the types. */
static void text_properties(Text *t, Op *op)
{
    static const char *const phases[] = {"init", "forward", "backward", "weights",
                                         "optimizer", NULL};
    op->phase = (Phase)text_choice(t, " ", (int)op->phase, phases, "a phase");
    text_field_if(t, op->piece, " piece=", &op->piece);
    text_flag(t, " recomputed", &op->recomputed);
    text_flag(t, " concurrent", &op->concurrent);
    text_flag(t, " done", &op->done);
    if (t->out ? *op->path != 0 : t->tok.kind == TK_STRING)
        text_field(t, " ", &op->path);
    text_field_if(t, op->cut, " cut=", &op->cut);
    text_flag(t, " staged", &op->staged);
    text_flag(t, " rounds", &op->rounds);
    text_field_if(t, op->stream, " stream=", &op->stream);
    text_field_if(t, op->workspace >= 0, " workspace=", &op->workspace);
    text_field(t, "", &op->loc);
}

/* Sets the value of a parameter or input to its op's result. */
static void note_value(Text *t, const Op *op)
{
    Program *p = t->p;
    if (op->nouts != 1 || (op->kind != OP_param && op->kind != OP_input))
        return;
    int64_t i = op->kind == OP_param ? attr_param(op) : attr_input(op);
    if (op->kind == OP_param && i >= 0 && i < p->param.n)
        p->param.at[i].value = op->out[0];
    if (op->kind == OP_input && i >= 0 && i < p->input.n)
        p->input.at[i].value = op->out[0];
}

static void text_body(Text *t, Op *op, int depth);

/* op: NULL for the parser, which adds the op to the region. */
static void text_op(Text *t, Region *r, Op *op, int depth)
{
    Loc at = t->tok.loc;
    VEC(Name) name = {0};
    text_indented(t, "");
    if (t->out) {
        if (op->nouts)
            text_uses(t, op->nouts, &op->out);
        out(t->out, "%s%s", op->nouts ? " = " : "", op_info(op->kind)->name);
    } else {
        if (t->tok.kind == TK_VALUE) {
            do
                vec_push(t->arena, &name, parse_name(t));
            while (text_given(t, false, ","));
            text_form(t, "=");
        }
        op = parse_kind(t);
        if (!op)
            return;
        op->nouts = name.n;
        op->out = NEW_ARRAY(t->arena, Value *, name.n);
    }
    bool body = op_has_body(op->kind);
    text_attrs(t, op, at);
    if (!body && (t->out ? op->nargs > 0
                         : t->tok.kind == TK_VALUE && !t->tok.first)) {
        text_form(t, " ");
        op->nargs = text_uses(t, op->nargs, &op->arg);
    }
    text_results(t, op, name.at, at);
    text_needs(t, op, at);
    text_properties(t, op);
    if (t->failed)
        return;
    if (!t->out) {
        for (int i = 0; i < op->nouts; i++)
            ir_set_out(op, i, op->out[i]);
        ir_insert(op, r, NULL);
        note_value(t, op);
    }
    text_form(t, body ? " {\n" : "\n");
    if (t->out)
        print_notes(t, op);
    else
        parse_notes(t, op);
    if (body)
        text_body(t, op, depth);
}

/* ---- bodies -------------------------------------------------------------- */

enum { MAX_BODIES = 16 }; /* inside one another */

static void text_ops(Text *t, Region *r, int depth)
{
    for (Op *op = r->first; t->out && op; op = op->next)
        text_op(t, r, op, depth);
    while (!t->out && !t->failed && !parse_is(t, "}") && !parse_is(t, "yield"))
        text_op(t, r, NULL, depth);
}

static const char *const roles[] = {"carry", "stack", "free", "arg"};
enum { CARRY, STACK, FREE, ARG };

static void print_arguments(Text *t, Op *op)
{
    for (int i = 0; i < op->nargs; i++) {
        Value *v = op->body->arg[i];
        int role = op->kind != OP_loop           ? ARG
                   : i < op->ncarry              ? CARRY
                   : i < op->ncarry + op->nstack ? STACK
                                                 : FREE;
        text_indented(t, roles[role]);
        text_use(t, " ", v);
        text_use(t, " = ", op->arg[i]);
        text_field(t, " : ", &v->type);
        text_address(t, v->address);
        text_form(t, "\n");
        print_value_notes(t, v, op->loc);
    }
}

typedef VEC(Value *) Values;

/* "%x = %start : type", after "carry", at the start of a body. */
static void parse_argument(Text *t, Op *op, Values *inner, Values *operand)
{
    Name name = parse_name(t);
    Value *start = text_use(t, "=", NULL);
    Type type;
    text_field(t, ":", &type);
    const Address *place = text_address(t, NULL);
    if (t->failed)
        return;
    Value *v = parse_define(t, name.text, name.loc, type, op->loc);
    v->address = place;
    v->region = op->body;
    v->index = inner->n;
    vec_push(t->arena, inner, v);
    vec_push(t->arena, operand, start);
    parse_notes(t, NULL);
}

/* Roles come in their order. */
static void parse_arguments(Text *t, Op *op)
{
    Values inner = {0}, operand = {0};
    int role = op->kind == OP_loop ? CARRY : ARG;
    int last = op->kind == OP_loop ? FREE : ARG;
    for (; role <= last && op->kind != OP_early; role++)
        while (text_given(t, false, roles[role])) {
            parse_argument(t, op, &inner, &operand);
            op->ncarry += role == CARRY;
            op->nstack += role == STACK;
        }
    op->body->arg = inner.at;
    op->arg = operand.at;
    op->body->nargs = op->nargs = inner.n;
}

static void text_body(Text *t, Op *op, int depth)
{
    if (depth > MAX_BODIES)
        parse_fail(t, t->tok.loc, "bodies are nested too deep");
    t->indent += 2;
    if (t->out) {
        print_arguments(t, op);
    } else {
        op->body = ir_raw_region(t->p, op, 0);
        parse_arguments(t, op);
    }
    Region *body = op->body;
    text_ops(t, body, depth + 1);
    if (op->kind != OP_early) {
        text_indented(t, "yield ");
        if (t->out ? body->nyields > 0 : !parse_is(t, "}"))
            body->nyields = text_uses(t, body->nyields, &body->yield);
        text_form(t, "\n");
    }
    t->indent -= 2;
    text_indented(t, "}\n");
}

/* ---- programs ------------------------------------------------------------ */

static void text_program(Text *t)
{
    text_head(t);
    text_form(t, " {\n");
    t->indent += 2;
    text_ops(t, t->p->step, 0);
    t->indent -= 2;
    text_form(t, "}\n");
    parse_find_ops(t);
}

/* Prints the program twice: the first text, which is dropped, shows which
 * sources are in use. They are numbered in the dump from 1 without gaps. */
static void print_program(Out *o, const Program *p)
{
    Out dropped;
    out_init(&dropped, p->arena);
    Text t = {.p = (Program *)p, .arena = p->arena, .out = &dropped,
              .nfiles = 1, .marks = true};
    while (p->diag && t.nfiles < UINT16_MAX &&
           diag_source_at(p->diag, (uint16_t)t.nfiles))
        t.nfiles++;
    t.file = NEW_ARRAY(p->arena, uint16_t, t.nfiles);
    text_program(&t);
    uint16_t n = 0;
    for (int i = 1; i < t.nfiles; i++)
        if (t.file[i])
            t.file[i] = ++n;
    t.out = o;
    t.marks = false;
    text_program(&t);
}

void ir_print(Out *o, const Program *p)
{
    print_program(o, p);
    for (int k = 0; k < PURPOSES; k++)
        if (p->side[k])
            print_program(o, p->side[k]);
}

static void parse_program(Text *t)
{
    t->p = ir_program(t->arena, t->diag);
    t->named_source.n = 0;
    t->value = (TextMap){.arena = t->arena};
    text_program(t);
}

/* Parses a side program of the training step p. */
static void parse_side(Text *t, Program *p)
{
    Loc loc = t->tok.loc;
    parse_program(t);
    Purpose purpose = t->p->purpose;
    if (t->failed)
        return;
    if (purpose == FOR_TRAINING)
        parse_fail(t, loc, "a program after the first has a line 'purpose'");
    else if (p->side[purpose])
        parse_fail(t, loc, "the second program of purpose '%s'",
                   purpose_words[purpose]);
    else if (t->p->stage != p->stage)
        parse_fail(t, loc, "this program has another stage than the first");
    else if (t->repeats == (int)FOR_TRAINING)
        t->p->repeats = p;
    else if (t->repeats >= 0 && !p->side[t->repeats])
        parse_fail(t, loc, "it repeats a program that does not precede it");
    else if (t->repeats >= 0)
        t->p->repeats = p->side[t->repeats];
    t->p->training = p;
    p->side[purpose] = t->p;
}

Program *ir_parse(Arena *a, Diag *d, uint16_t file)
{
    const Source *source = diag_source_at(d, file);
    Text t = {.arena = a, .diag = d, .source = file, .line = 1};
    t.at = t.line_start = source->text;
    t.end = source->text + source->size;
    t.p = ir_program(a, d);
    parse_next(&t);
    parse_program(&t);
    Program *p = t.p;
    if (!t.failed && p->purpose != FOR_TRAINING)
        parse_fail(&t, (Loc){file, 1, 1, 1}, "a side program follows the "
                   "training step whose parameters it reads");
    while (!t.failed && parse_is(&t, "parc"))
        parse_side(&t, p);
    if (!t.failed && t.tok.kind != TK_END)
        parse_fail(&t, t.tok.loc, "unexpected text after the step");
    return t.failed ? NULL : p;
}
