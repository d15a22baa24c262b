/* pdl_program.c: lowers PDL text and runs all passes; see pdl_program.h. */
#include "tests/unit/pdl_program.h"

#include <string.h>

#include "base/embedded.h"
#include "frontend/frontend.h"

static const PassInfo passes[] = {
#define PASS(directory, name, meaning) {#name, meaning, pass_##name},
#include "passes/passes.def"
#undef PASS
};

static Program *program(Arena *a, Diag *d, const char *text, const char *mesh,
                        const char *plan, const char *const *define,
                        bool side)
{
    enum { MOST = 24 };
    const File *prelude = pdl_parse(
        a, d, diag_source(d, "prelude.pdl", prelude_text, prelude_size));
    const File *file =
        pdl_parse(a, d, diag_source(d, "test.pdl", text, strlen(text)));
    if (!prelude || !file)
        return NULL;
    Setting *setting[MOST];
    int n = 0;
    for (; define[n] && n < MOST; n++)
        setting[n] = pdl_parse_define(
            a, d, diag_source(d, "-D", define[n], strlen(define[n])));
    pdl_check(a, d, prelude, file);
    FrontendOptions o = {
        .mesh = mesh, .plan = plan, .define = setting, .ndefines = n,
        .side = side};
    return diag_error_count(d) ? NULL : lower(a, d, prelude, file, &o);
}

Program *pdl_program(Arena *a, Diag *d, const char *text, const char *mesh,
                     const char *plan, const char *const *define)
{
    return program(a, d, text, mesh, plan, define, false);
}

Program *pdl_programs(Arena *a, Diag *d, const char *text, const char *mesh,
                      const char *plan, const char *const *define)
{
    return program(a, d, text, mesh, plan, define, true);
}

static void run_pass(const PassInfo *pass, Program *p, const TargetInfo *t)
{
    ir_renumber(p);
    pass->run(p, t);
}

const char *run_all_passes(Program *p, const TargetInfo *t)
{
    for (size_t i = 0; i < sizeof passes / sizeof *passes; i++) {
        run_pass(&passes[i], p, t);
        for (int k = 0; k < PURPOSES; k++)
            if (p->side[k] && diag_error_count(p->diag) == 0)
                run_pass(&passes[i], p->side[k], t);
        if (diag_error_count(p->diag) > 0)
            return passes[i].name;
    }
    return NULL;
}
