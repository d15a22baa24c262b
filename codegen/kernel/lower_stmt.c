/* lower_stmt.c: adds statements to the block that a lowering (lower.h) has
 * open. */
#include <stdarg.h>

#include "codegen/kernel/lower.h"

#define FORMATTED(text, c, fmt)                                                \
    va_list ap;                                                                \
    va_start(ap, fmt);                                                         \
    const char *text = arena_vprintf((c)->arena, fmt, ap);                     \
    va_end(ap)

const char *lower_text(const Lowering *c, const char *fmt, ...)
{
    FORMATTED(text, c, fmt);
    return text;
}

const char *lower_index(const Lowering *c, const char *fmt, ...)
{
    FORMATTED(text, c, fmt);
    return text_fold(c->arena, text);
}

void lower_add(Lowering *c, Stmt s)
{
    stmt_add(c->arena, c->at, s);
}

void lower_line(Lowering *c, const char *fmt, ...)
{
    FORMATTED(text, c, fmt);
    lower_add(c, (Stmt){.code = STMT_LINE, .text = text});
}

void lower_let(Lowering *c, const char *type, const char *name, const char *fmt,
               ...)
{
    FORMATTED(text, c, fmt);
    lower_add(c, (Stmt){.code = STMT_LET,
                        .type = type,
                        .name = name,
                        .text = text_fold(c->arena, text)});
}

void lower_var(Lowering *c, const char *type, const char *name,
               const char *value)
{
    lower_add(
        c, (Stmt){.code = STMT_VAR, .type = type, .name = name, .text = value});
}

static Stmt *open(Lowering *c, Stmt s)
{
    return c->at = stmt_add(c->arena, c->at, s);
}

void lower_block(Lowering *c)
{
    open(c, (Stmt){.code = STMT_BLOCK});
}

void lower_if(Lowering *c, const char *fmt, ...)
{
    FORMATTED(text, c, fmt);
    open(c,
         (Stmt){.code = STMT_BLOCK, .text = lower_text(c, "if (%s)", text)});
}

void lower_return_if(Lowering *c, const char *fmt, ...)
{
    FORMATTED(text, c, fmt);
    Stmt *outer = c->at;
    open(c, (Stmt){.code = STMT_BLOCK,
                   .text = lower_text(c, "if (%s)", text),
                   .brief = true});
    lower_line(c, "return;");
    c->at = outer;
}

Stmt *lower_for(Lowering *c, LoopKind kind, const char *type, const char *name,
                const char *from, const char *to, int64_t step)
{
    return open(c, (Stmt){.code = STMT_FOR,
                          .loop = kind,
                          .type = type,
                          .name = name,
                          .text = from,
                          .to = to,
                          .step = step});
}

Stmt *lower_count(Lowering *c, LoopKind kind, const char *name, int64_t n)
{
    return lower_for(c, kind, "int", name, "0",
                     lower_text(c, "%lld", (long long)n), 1);
}

void lower_add_all(Lowering *c, OpKind op, const char *sum, const char *name,
                   const char *from, int64_t n, int64_t step, const char *x)
{
    Stmt *outer = c->at, *loop = lower_count(c, LOOP_SERIAL, name, n);
    loop->text = from;
    loop->step = step;
    loop->brief = true;
    lower_update(c, op, NULL, sum, x);
    c->at = outer;
}

void lower_rows(Lowering *c, const char *row, int64_t rows, int64_t parts,
                const char *first, int step)
{
    const char *of = lower_text(c, "* %lld / %lld", (long long)rows,
                                (long long)parts);
    if (parts > 1)
        lower_let(c, "const int64_t", "end", "(part + 1) %s", of);
    lower_for(c, LOOP_SERIAL, "int64_t", row,
              parts > 1 ? lower_index(c, "part %s + %s", of, first) : first,
              parts > 1 ? "end" : lower_text(c, "%lld", (long long)rows), step);
}

void lower_update(Lowering *c, OpKind op, const Op *source, const char *sum,
                  const char *x)
{
    lower_add(c, (Stmt){.code = STMT_UPDATE,
                        .op = op,
                        .source = source,
                        .name = sum,
                        .text = x});
}
