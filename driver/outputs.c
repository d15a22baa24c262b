/* outputs.c: writes the outputs that the command line requests: reports,
 * explanations and programs; see compilation.h.
 *
 * No output appears before all are complete: files are renamed into place
 * together, and standard output is written in one call.
 */
#include "driver/compilation.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "codegen/machine.h"
#include "codegen/package/program.h"
#include "codegen/target/target.h"
#include "forecast/calibrate.h"
#include "page/page.h"
#include "report/report.h"

/* Reports a message about an output; `loc` is the argument that requests it. */
static bool output_failed(Compilation *c, Loc loc, const char *message)
{
    if (message)
        diag_error(c->diag, loc, "%s", message);
    return message != NULL;
}

/* The argument that requests a program. */
static Loc program_loc(const Options *o)
{
    return o->binary.text ? o->binary.loc : o->directory.loc;
}

static bool add_report(Compilation *c, const EmitRequest *e, const Out *o)
{
    if (!e->file) {
        out_bytes(&c->text, o->text, o->size);
        return true;
    }
    return !output_failed(
        c, e->loc, outputs_add(c->outputs, e->file, o->text, o->size, false));
}

bool compilation_only_ast(const Compilation *c)
{
    for (int i = 0; i < c->o.emit.n; i++)
        if (c->o.emit.at[i].kind != EMIT_AST)
            return false;
    return c->o.emit.n > 0 && !c->o.binary.text && !c->o.directory.text &&
           !c->o.explain.text;
}

/* "cpu" of "machines/cpu.json". */
static const char *machine_name(Arena *a, const char *file)
{
    const char *slash = file ? strrchr(file, '/') : NULL;
    const char *name = slash ? slash + 1 : file ? file : "machine";
    const char *dot = strrchr(name, '.');
    return arena_strndup(a, name, dot ? (size_t)(dot - name) : strlen(name));
}

/* A machine file of the trace of a run. */
static bool machine_report(Compilation *c, const Program *p, const TargetInfo *t,
                           const EmitRequest *e, Out *o)
{
    const Argument *from = &c->o.from;
    size_t size;
    if (!from->text || t->target != TARGET_CPU) {
        diag_error(c->diag, e->loc, from->text ? "--emit machine is for --target cpu"
                                               : "--emit machine needs a trace");
        return diag_help(c->diag, "parc MODEL.pdl --target cpu --from TRACE --emit machine");
    }
    const char *trace = file_read(c->arena, from->text, &size);
    if (!trace)
        return diag_error(c->diag, from->loc, "cannot read '%s': %s", from->text,
                          strerror(errno));
    time_t now = time(NULL);
    char date[16];
    strftime(date, sizeof date, "%Y-%m-%d", gmtime(&now));
    const char *wrong = calibrate(o, p, machine_name(c->arena, e->file), trace, size,
                                  arena_printf(c->arena, "trace of a run of %s", p->model),
                                  date);
    return !wrong || diag_error(c->diag, from->loc, "'%s': %s", from->text, wrong);
}

/* The plan block, after the settings that --plan auto has chosen for it. */
static bool plan_report(Compilation *c, const Program *p, const EmitRequest *e, Out *o)
{
    const PlanDecl *plan = c->file ? file_find_plan(c->file, p->plan.name) : NULL;
    if (!plan) {
        diag_error(c->diag, e->loc, c->file ? "the file has no plan" : "an IR dump has no "
                   "plan block");
        return c->file && diag_help(c->diag, "--plan auto writes one");
    }
    for (int i = c->ngiven; i < c->ndefines; i++) {
        out(o, "# with ");
        ast_print_setting(o, c->define[i]);
        out(o, "\n");
    }
    ast_print_plan(o, plan);
    return true;
}

bool compilation_reports(Compilation *c, const Program *p, const TargetInfo *t,
                         const Warnings *warnings)
{
    for (int i = 0; i < c->o.emit.n; i++) {
        Out o;
        out_init(&o, c->arena);
        switch (c->o.emit.at[i].kind) {
        case EMIT_AST:
            ast_print(&o, c->file);
            break;
        case EMIT_IR:
            ir_print(&o, p);
            break;
        case EMIT_PLAN:
            report_plan(&o, p, t, c->forecast);
            break;
        case EMIT_JSON:
            report_json(&o, p, t, warnings, c->forecast);
            break;
        case EMIT_DOT:
            report_dot(&o, p, t);
            break;
        case EMIT_MACHINE:
            if (!machine_report(c, p, t, &c->o.emit.at[i], &o))
                return false;
            break;
        case EMIT_HTML:
            page_emit(&o, p, t, warnings, c->forecast);
            break;
        case EMIT_PDL_PLAN:
            if (!plan_report(c, p, &c->o.emit.at[i], &o))
                return false;
            break;
        case EMIT_KINDS:
            continue;
        }
        if (!add_report(c, &c->o.emit.at[i], &o))
            return false;
    }
    return true;
}

bool compilation_explain(Compilation *c, const Program *p,
                              const TargetInfo *t)
{
    const Argument *name = &c->o.explain;
    const char *near = NULL;
    if (!name->text || report_explain(&c->text, p, t, c->forecast, name->text, &near))
        return true;
    diag_error(c->diag, name->loc,
               "no parameter, collective, axis, module, kernel or value is "
               "called '%s'", name->text);
    if (near)
        diag_help(c->diag, "did you mean '%s'?", near);
    else
        diag_help(c->diag, "--emit plan and --emit ir print the names");
    return false;
}

/* The text as a word of a shell: quoted if it has special characters. */
static const char *shell_word(Arena *a, const char *text)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyz"
                                "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=.,:/";
    if (*text && !text[strspn(text, plain)])
        return text;
    Out o;
    out_init(&o, a);
    out(&o, "'");
    for (; *text; text++)
        out(&o, *text == '\'' ? "'\\''" : "%c", *text);
    out(&o, "'");
    return o.text;
}

/* The command that reproduces the program, for its header. Without directories
 * and outputs: the text does not depend on the directory of the build. */
static const char *program_command(Compilation *c, const char *source,
                                   const TargetInfo *t)
{
    Arena *a = c->arena;
    const char *text = arena_printf(a, "parc %s --target %s --threads %d",
                                    shell_word(a, source),
                                    t->target == TARGET_CPU ? "cpu" : "cuda",
                                    t->threads);
    if (t->cpu && cpu_level_is_named(t->cpu))
        text = arena_printf(a, "%s --cpu %s", text, t->cpu->name);
    if (c->mesh)
        text = arena_printf(a, "%s --mesh %s", text, c->mesh);
    if (c->o.node_size)
        text = arena_printf(a, "%s --node-size %s", text, c->o.node_size_arg.text);
    if (c->o.plan.text)
        text = arena_printf(a, "%s --plan %s", text, c->o.plan.text);
    if (c->o.config.text)
        text = arena_printf(a, "%s --config %s", text, shell_word(a, c->o.config.text));
    for (int i = 0; i < c->o.arch.n; i++)
        text = arena_printf(a, "%s%s%s", text, i ? "," : " --arch ",
                            c->o.arch.at[i]);
    for (int i = 0; i < c->o.define.n; i++)
        text = arena_printf(a, "%s -D %s", text,
                            shell_word(a, c->o.define.at[i].text));
    return text;
}

/* The architectures of --arch, terminated by NULL. */
static const char *const *architectures(Compilation *c)
{
    if (!c->o.arch.n)
        return cuda_default_archs;
    const char *end = NULL;
    vec_push(c->arena, &c->o.arch, end);
    c->o.arch.n--;
    return c->o.arch.at;
}

bool compilation_program(Compilation *c, const Program *p, const TargetInfo *t)
{
    if (!c->o.binary.text && !c->o.directory.text)
        return true;
    if (!target_can_run(p, t))
        return false;
    char self[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    self[n > 0 ? n : 0] = 0;
    const char *name = diag_source_at(c->diag, c->model)->name;
    const char *slash = strrchr(name, '/');
    Out plan;
    out_init(&plan, c->arena);
    report_plan(&plan, p, t, c->forecast);
    EmitOptions options = {
        .plan = plan.text,
        .source = slash ? slash + 1 : name,
        .command = program_command(c, slash ? slash + 1 : name, t),
        .directory = c->o.directory.text,
        .binary = c->o.binary.text,
        .self = n > 0 ? self : NULL,
        .arch = architectures(c),
        .verbose = c->o.verbose,
    };
    return !output_failed(c, program_loc(&c->o),
                          emit_program(p, t, &options, c->outputs));
}

bool stdout_flush(Diag *d, int error)
{
    if (fflush(stdout) != 0)
        error = errno;
    if (!error && !ferror(stdout))
        return true;
    /* The errno of a dump's write is not known. */
    return diag_error(d, (Loc){0}, "cannot write standard output%s%s",
                      error ? ": " : "", error ? strerror(error) : "");
}

bool compilation_publish(Compilation *c)
{
    size_t written = fwrite(c->text.text, 1, c->text.size, stdout);
    if (!stdout_flush(c->diag, written < c->text.size ? errno : 0))
        return false;
    Loc loc = program_loc(&c->o);
    for (int i = 0; i < c->o.emit.n && loc.file == 0; i++)
        if (c->o.emit.at[i].file)
            loc = c->o.emit.at[i].loc;
    return !output_failed(c, loc, outputs_commit(c->outputs));
}

/* Whether two outputs overwrite each other. Devices and pipes accept several
 * outputs. */
static bool same_file(const char *a, const char *b)
{
    struct stat x, y;
    bool there = stat(a, &x) == 0;
    if (!there || stat(b, &y) != 0)
        return !there && strcmp(a, b) == 0;
    return S_ISREG(x.st_mode) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* Output i of the command line. Its text is NULL for standard output and for an
 * option that is not given. */
static Argument output_at(const Options *o, int i)
{
    if (i == o->emit.n)
        return o->binary;
    return (Argument){o->emit.at[i].file, o->emit.at[i].loc};
}

/* The first output before i that is the same file; text NULL if none is. */
static Argument same_before(const Options *o, int i)
{
    Argument output = output_at(o, i);
    for (int j = 0; j < i; j++) {
        Argument other = output_at(o, j);
        if (other.text && same_file(output.text, other.text))
            return other;
    }
    return (Argument){0};
}

bool outputs_differ(Diag *d, const Options *o)
{
    int before = diag_error_count(d);
    for (int i = 0; i <= o->emit.n; i++) {
        Argument output = output_at(o, i);
        if (!output.text)
            continue;
        Argument other = same_before(o, i);
        if (same_file(output.text, o->input.text))
            diag_error(d, output.loc, "this output would overwrite the model");
        else if (other.text)
            diag_twice(d, output.loc, other.loc, "two outputs go to '%s'",
                       output.text);
    }
    return diag_error_count(d) == before;
}
