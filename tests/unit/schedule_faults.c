/* schedule_faults.c: tests that a faulty schedule or memory plan is refused.
 *
 * The dump after the last pass is changed in one place at a time: a wait, a
 * record or a barrier is removed, an address overlaps another live buffer, is
 * misaligned, or is outside of its part of memory. Each changed dump must be
 * refused, by the verifier or by the check of waits and barriers; the unchanged
 * dump must be accepted.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "codegen/machine.h"
#include "codegen/target/target.h"
#include "driver/passes/pipeline.h"
#include "ir/memory.h"
#include "tests/unit/check.h"
#include "tests/unit/pdl_program.h"

/* A dump, and how many faults were tried in it. */
typedef struct Dump {
    Check *c;
    const char *name;
    Arena *arena;
    const Program *p; /* the program that was dumped */
    const char *text;
    TargetInfo t;
    int removed[OP_COUNT], moved;
} Dump;

/* Whether parc takes the text as a program after the last pass. */
static bool accepts(const Dump *d, const char *text)
{
    Arena *a = arena_new();
    Diag *diag = diag_new(a, COLOR_NEVER);
    PipelineOptions o = {.starts = true, .start_after = pass_count - 1};
    Program *p =
        ir_parse(a, diag, diag_source(diag, "dump.ir", text, strlen(text)));
    bool good = p && !ir_verify(p) && pipeline_run(p, &d->t, &o, NULL, 0) &&
                pipeline_has_parts(p, &d->t, pass_count - 1);
    arena_free(a);
    return good;
}

/* The text in which `with` replaces n bytes at `at`. */
static void try_with(Dump *d, const char *at, size_t n, const char *with)
{
    const char *text =
        arena_printf(d->arena, "%.*s%s%s", (int)(at - d->text), d->text, with,
                     at + n);
    check_that(d->c, !accepts(d, text), __FILE__, __LINE__,
               arena_printf(d->arena, "%s: accepted with '%s' for '%.*s'",
                            d->name, with, (int)strcspn(at, "\n"), at));
}

/* ---- statements ---------------------------------------------------------- */

static const OpKind removable[] = {OP_wait, OP_record, OP_barrier};

static void try_without_line(Dump *d, const char *line)
{
    const char *word = line + strspn(line, " ");
    for (size_t i = 0; i < sizeof removable / sizeof *removable; i++) {
        const char *name = op_info(removable[i])->name;
        size_t n = strlen(name);
        if (strncmp(word, name, n) != 0 || word[n] != '{')
            continue;
        d->removed[removable[i]]++;
        try_with(d, line, strcspn(line, "\n") + 1, "");
    }
}

/* ---- addresses ----------------------------------------------------------- */

/* A buffer of the same part of memory that is live at the same time. */
static const Block *neighbour(const MemoryPlan *m, const Block *of)
{
    for (int i = 0; i < m->nblocks; i++) {
        const Block *b = &m->block[i];
        if (b != of && b->host == of->host && b->shared == of->shared &&
            b->bytes > 0 && b->first <= of->last && of->first <= b->last)
            return b;
    }
    return NULL;
}

static void try_addresses(Dump *d, const char *line)
{
    const MemoryPlan *m = d->p->memory;
    const Block *b = &m->block[atoi(line + strlen("buffer "))];
    const Block *other = neighbour(m, b);
    const char *at = strstr(line, "at=") + strlen("at=");
    size_t n = strspn(at, "0123456789");
    int64_t outside[] = {m->extent + m->host, b->offset + m->alignment / 2,
                         b->shared ? 0 : m->own, b->host ? 0 : m->extent};
    if (b->bytes == 0)
        return;
    d->moved++;
    for (size_t i = 0; i < sizeof outside / sizeof *outside; i++)
        try_with(d, at, n, arena_printf(d->arena, "%lld",
                                        (long long)outside[i]));
    if (other)
        try_with(d, at, n, arena_printf(d->arena, "%lld",
                                        (long long)other->offset));
}

/* ---- programs ------------------------------------------------------------ */

static void test_dump(Dump *d)
{
    CHECK(d->c, accepts(d, d->text));
    for (const char *line = d->text; *line;) {
        if (strncmp(line, "buffer ", strlen("buffer ")) == 0)
            try_addresses(d, line);
        try_without_line(d, line);
        line += strcspn(line, "\n");
        line += *line == '\n';
    }
}

static void test_program(Check *c, const char *model, const char *mesh,
                         Target target, const char *const *define,
                         const OpKind *expected)
{
    Arena *a = arena_new();
    Diag *diag = diag_new(a, COLOR_NEVER);
    size_t size;
    Out dump;
    PipelineOptions o = {0};
    const char *text =
        file_read(a, arena_printf(a, "examples/%s.pdl", model), &size);
    Dump d = {.c = c, .name = model, .arena = a, .t = target_info(target, 1)};
    if (target == TARGET_CPU)
        d.t.cpu = &cpu_level[PARC_CPU_X86_64_V3];
    Program *p = text ? pdl_program(a, diag, text, mesh, NULL, define) : NULL;
    CHECK(c, p && pipeline_run(p, &d.t, &o, NULL, 0));
    if (diag_error_count(diag)) {
        diag_flush(diag, stdout);
    } else if (p) {
        out_init(&dump, a);
        ir_print(&dump, p);
        d.p = p;
        d.text = dump.text;
        test_dump(&d);
        CHECK(c, d.moved > 0);
        for (; *expected; expected++)
            check_that(c, d.removed[*expected] > 0, __FILE__, __LINE__,
                       arena_printf(a, "%s has no %s", model,
                                    op_info(*expected)->name));
    }
    arena_free(a);
}

int main(void)
{
    Check c = {0};
    static const char *const llama[] = {
        "vocab=64", "dim=32", "n_heads=4", "n_kv_heads=4", "n_layers=4",
        "hidden=64", "seq=8", "batch=8", NULL};
    static const char *const none[] = {NULL};
    static const OpKind cuda[] = {OP_wait, OP_record, 0};
    static const OpKind cpu[] = {OP_barrier, 0};
    test_program(&c, "llama", "2x2", TARGET_CUDA, llama, cuda);
    if (few_or_all(false, true))
        test_program(&c, "gpt2", "2x2", TARGET_CPU, none, cpu);
    test_program(&c, "toy", "2x2", TARGET_CUDA, none, cuda);
    test_program(&c, "toy", "2x1", TARGET_CPU, none, cpu);
    return check_end(&c);
}
