/* loops_print.c: prints the explicit form of kernels (loops.h) as C with OpenMP
 * or as CUDA C++. */
#include "codegen/kernel/loops.h"

#include <string.h>

#include "base/bug.h"
#include "codegen/kernel/kernel.h"

const Dialect dialect_c = {
    .restricted = "restrict",
    .pragma = {[LOOP_PARALLEL] = "#pragma omp parallel for schedule(static) "
                                 "num_threads(parc_threads(rt))",
               [LOOP_SIMD] = "#pragma omp simd"},
    .keys = true};

const Dialect dialect_cuda = {.restricted = "__restrict__",
                              .pragma = {[LOOP_UNROLLED] = "PARC_UNROLL",
                                         [LOOP_UNROLLED_2] = "PARC_UNROLL_2",
                                         [LOOP_ROLLED] = "PARC_ROLL"}};

typedef struct Printer {
    Out *o;
    const Dialect *d;
    const Program *where;
    VEC(const Stmt *) sum; /* SUMs since the last FINISH_LOOP */
} Printer;

/* Prints a line of code with a comment that has the source line and the name of
 * its op; the comment precedes the code if both do not fit on one line. */
static void code(Printer *p, const Op *source, const char *text)
{
    if (!source || !p->where) {
        out_code(p->o, "%s", text);
        return;
    }
    const char *where = kernel_where(p->where, source->loc);
    const char *comment =
        arena_printf(p->o->arena, "/* %s%s%s */", where, *where ? " " : "",
                     op_info(source->kind)->name);
    size_t width =
        (size_t)p->o->indent + strlen(text) + 1 + strlen(comment);
    if (width <= OUT_WIDTH) {
        out_line(p->o, "%s %s", text, comment);
        return;
    }
    out_line(p->o, "%s", comment);
    out_code(p->o, "%s", text);
}

static const char *declared(Arena *a, const Stmt *s)
{
    bool pointer = s->type[strlen(s->type) - 1] == '*';
    const char *name = arena_printf(a, "%s%s%s", s->type, pointer ? "" : " ",
                                    s->name);
    return arena_printf(a, s->text ? "%s = %s;" : "%s;", name, s->text);
}

/* Whether a reduction is a maximum that the dialect takes over integer keys. */
static bool is_key(const Printer *p, const Stmt *s)
{
    return p->d->keys && s->op == OP_max;
}

static const char *update(const Printer *p, const Stmt *s)
{
    Arena *a = p->o->arena;
    if (s->over_columns && is_key(p, s))
        return arena_printf(a, "%s_key = parc_higher(%s_key, parc_key(%s));",
                            s->name, s->name, s->text);
    return s->op == OP_max ? arena_printf(a, "%s = parc_max(%s, %s);", s->name,
                                          s->name, s->text)
                           : arena_printf(a, "%s += %s;", s->name, s->text);
}

static void begin_sum(Printer *p, const Stmt *s)
{
    vec_push(p->o->arena, &p->sum, s);
    if (is_key(p, s))
        out_line(p->o, "int32_t %s_key = parc_key(-INFINITY);", s->name);
    else
        out_line(p->o, "float %s = %s;", s->name,
                 s->op == OP_max ? "-INFINITY" : "0.0f");
}

static void finish(Printer *p, const Stmt *s)
{
    const char *kind = s->top ? "online" : s->op == OP_max ? "max" : "sum";
    const char *top = s->top ? arena_printf(p->o->arena, ", %s", s->top) : "";
    switch (s->part) {
    case FINISH_LOOP:
        p->sum.n = 0;
        if (is_key(p, s))
            out_line(p->o, "const float %s = parc_from_key(%s_key);", s->name,
                     s->name);
        return;
    case FINISH_WARP:
        out_line(p->o, "%s = warp_%s(%s%s);", s->name, kind, s->name, top);
        return;
    case FINISH_PUT:
        out_line(p->o, "block_put(warp_%s(%s%s), %s);", kind, s->name, top,
                 s->array);
        return;
    case FINISH_OWN:
        out_line(p->o, "block_put(%s, %s);", s->name, s->array);
        return;
    case FINISH_GET:
        out_line(p->o, "%s = block_get_%s(%s%s);", s->name, kind, s->array,
                 top);
        return;
    }
}

/* " reduction(+ : r2, r5)": the reductions of a loop over vector lanes. */
static const char *clause(const Printer *p, OpKind op)
{
    Arena *a = p->o->arena;
    const char *list = "";
    for (int i = 0; i < p->sum.n; i++)
        if (p->sum.at[i]->op == op)
            list = arena_printf(a, "%s%s%s%s", list, *list ? ", " : "",
                                p->sum.at[i]->name, op == OP_max ? "_key" : "");
    return *list ? arena_printf(a, " reduction(%s : %s)",
                                op == OP_max ? "max" : "+", list)
                 : "";
}

static const char *loop_head(Printer *p, const Stmt *s)
{
    Arena *a = p->o->arena;
    const char *pragma = p->d->pragma[s->loop];
    if (pragma && s->loop == LOOP_SIMD)
        out_line(p->o, "%s%s%s", pragma, clause(p, OP_sum), clause(p, OP_max));
    else if (pragma)
        out_line(p->o, "%s", pragma);
    const char *step = s->by ? arena_printf(a, " += %s", s->by)
                       : s->step == 1
                           ? "++"
                           : arena_printf(a, " += %lld", (long long)s->step);
    return arena_printf(a, "for (%s %s = %s; %s < %s; %s%s)", s->type, s->name,
                        s->text, s->name, s->to, s->name, step);
}

static void print_all(Printer *p, const Stmt *in);

static void block(Printer *p, const Stmt *s, const char *head)
{
    if (!s->first)
        return;
    if (s->brief) {
        out_line(p->o, "%s", head);
        p->o->indent += OUT_INDENT;
        print_all(p, s);
        p->o->indent -= OUT_INDENT;
        return;
    }
    out_open(p->o, *head ? "%s {" : "%s{", head);
    print_all(p, s);
    out_close(p->o);
}

static void move(Printer *p, const Stmt *s)
{
    const char *type = s->words ? "words" : dtype_name(s->dtype);
    if (s->code == STMT_LOAD)
        out_code(p->o, "parc_read_%s(%s, %s, %lld);", type, s->name, s->text,
                 (long long)s->count);
    else
        out_code(p->o, "parc_write_%s(%s, %s, %lld);", type, s->text, s->name,
                 (long long)s->count);
}

static void print(Printer *p, const Stmt *s)
{
    switch (s->code) {
    case STMT_LINE: code(p, s->source, s->text); return;
    case STMT_LET:
    case STMT_VAR: code(p, s->source, declared(p->o->arena, s)); return;
    case STMT_SHARED:
        out_line(p->o, "PARC_SHARED %s", declared(p->o->arena, s));
        return;
    case STMT_BLOCK: block(p, s, s->text ? s->text : ""); return;
    case STMT_FOR: block(p, s, loop_head(p, s)); return;
    case STMT_LOAD:
    case STMT_STORE: move(p, s); return;
    case STMT_SUM: begin_sum(p, s); return;
    case STMT_UPDATE: code(p, s->source, update(p, s)); return;
    case STMT_FINISH: finish(p, s); return;
    case STMT_BARRIER: out_line(p->o, "block_barrier();"); return;
    }
}

static void print_all(Printer *p, const Stmt *in)
{
    for (const Stmt *s = in->first; s; s = s->next)
        if (!s->unused)
            print(p, s);
}

void loops_print(Out *o, const Dialect *d, const Stmt *function,
                 const Program *where)
{
    Printer p = {.o = o, .d = d, .where = where};
    print_all(&p, function);
}
