/* main.c: runs parc: command line, compilation, outputs.
 *
 *   prelude + file -> check -> lower -> passes -> reports and programs
 *
 * No output appears before all are complete: files are renamed into place
 * together, and standard output is written in one call. Dumps of the IR are
 * printed immediately, since they are for debugging parc.
 */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bug.h"
#include "base/clock.h"
#include "base/file.h"
#include "codegen/kernel/kernel.h"
#include "codegen/machine.h"
#include "codegen/package/program.h"
#include "codegen/target/target.h"
#include "driver/fit.h"
#include "driver/options.h"
#include "driver/plot.h"
#include "frontend/frontend.h"
#include "ir/ir.h"
#include "report/hint.h"
#include "report/report.h"

enum { MAX_TIMES = 4 };

typedef struct Compilation {
    Arena *arena;
    Diag *diag;
    Options o;
    uint16_t model, prelude, command; /* numbers of the sources */
    const char *command_text;
    const File *file; /* NULL: the input is an IR dump */
    const File *prelude_file;
    Setting **define; /* -D */
    int ndefines;
    Outputs *outputs;
    Out text; /* for standard output */
    Timing time[MAX_TIMES];
    int ntimes;
    double begun;
} Compilation;

static void time_begin(Compilation *c)
{
    c->begun = seconds_now();
}

static void time_end(Compilation *c, const char *name)
{
    c->time[c->ntimes++] = (Timing){name, seconds_now() - c->begun};
}

/* ---- input ---- */

static bool open_model(Compilation *c)
{
    const Argument *in = &c->o.input;
    size_t size;
    char *text = file_read(c->arena, in->text, &size);
    if (!text)
        return diag_error(c->diag, in->loc, "cannot read '%s': %s", in->text,
                          strerror(errno));
    static const char bom[] = "\xef\xbb\xbf";
    if (size >= 3 && memcmp(text, bom, 3) == 0) { /* a UTF-8 BOM */
        text += 3;
        size -= 3;
    }
    bool standard = strcmp(in->text, "-") == 0;
    diag_set_source(c->diag, c->model, standard ? "<standard input>" : in->text,
                    text, size);
    return true;
}

static const File *parse_prelude(Compilation *c)
{
    const File *f = pdl_parse(c->arena, c->diag, c->prelude);
    if (!f) {
        diag_flush(c->diag, stderr);
        bug("the prelude has syntax errors");
    }
    return f;
}

/* ---- outputs ---- */

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

static bool deliver(Compilation *c, const EmitRequest *e, const Out *o)
{
    if (!e->file) {
        out_bytes(&c->text, o->text, o->size);
        return true;
    }
    return !output_failed(
        c, e->loc, outputs_add(c->outputs, e->file, o->text, o->size, false));
}

static bool only_ast(const Compilation *c)
{
    for (int i = 0; i < c->o.emit.n; i++)
        if (c->o.emit.at[i].kind != EMIT_AST)
            return false;
    return c->o.emit.n > 0 && !c->o.binary.text && !c->o.directory.text &&
           !c->o.explain.text;
}

/* The last three are NULL if --emit ast is the only request. */
static bool emit_reports(Compilation *c, const Program *p, const TargetInfo *t,
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
            report_plan(&o, p, t);
            break;
        case EMIT_JSON:
            report_json(&o, p, t, warnings);
            break;
        case EMIT_DOT:
            report_dot(&o, p, t);
            break;
        case EMIT_KINDS:
            continue;
        }
        if (!deliver(c, &c->o.emit.at[i], &o))
            return false;
    }
    return true;
}

static bool write_explanation(Compilation *c, const Program *p,
                              const TargetInfo *t)
{
    const Argument *name = &c->o.explain;
    const char *near = NULL;
    if (!name->text || report_explain(&c->text, p, t, name->text, &near))
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
    if (c->o.mesh.text)
        text = arena_printf(a, "%s --mesh %s", text, c->o.mesh.text);
    if (c->o.plan.text)
        text = arena_printf(a, "%s --plan %s", text, c->o.plan.text);
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

static bool write_program(Compilation *c, const Program *p, const TargetInfo *t)
{
    if (!c->o.binary.text && !c->o.directory.text)
        return true;
    if (c->o.pipeline.starts && !target_can_run(p, t))
        return false;
    char self[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    self[n > 0 ? n : 0] = 0;
    const char *name = diag_source_at(c->diag, c->model)->name;
    const char *slash = strrchr(name, '/');
    Out plan;
    out_init(&plan, c->arena);
    report_plan(&plan, p, t);
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

/* Whether all that was printed, by dumps too, has been written. `error` is the
 * errno of the last write, or 0. */
static bool flush_stdout(Diag *d, int error)
{
    if (fflush(stdout) != 0)
        error = errno;
    if (!error && !ferror(stdout))
        return true;
    /* The errno of a dump's write is not known. */
    return diag_error(d, (Loc){0}, "cannot write standard output%s%s",
                      error ? ": " : "", error ? strerror(error) : "");
}

/* Makes the complete outputs appear. */
static bool publish(Compilation *c)
{
    size_t written = fwrite(c->text.text, 1, c->text.size, stdout);
    if (!flush_stdout(c->diag, written < c->text.size ? errno : 0))
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

/* Reports outputs that overwrite the model or another output; returns whether
 * there are none. */
static bool clash_check(Diag *d, const Options *o)
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

/* ---- the stages ---- */

static Program *front_end(Compilation *c)
{
    c->define = NEW_ARRAY(c->arena, Setting *, c->o.define.n);
    for (int i = 0; i < c->o.define.n; i++) {
        const Argument *a = &c->o.define.at[i];
        Setting *s = pdl_parse_define_at(c->arena, c->diag, c->command,
                                         a->loc.col - 1, strlen(a->text));
        if (s)
            c->define[c->ndefines++] = s;
    }
    time_begin(c);
    c->prelude_file = parse_prelude(c);
    pdl_check(c->arena, c->diag, c->prelude_file, c->file);
    time_end(c, "check");
    FrontendOptions options = {
        .mesh = c->o.mesh.text,
        .mesh_loc = c->o.mesh.loc,
        .plan = c->o.plan.text,
        .plan_loc = c->o.plan.loc,
        .define = c->define,
        .ndefines = c->ndefines,
        .forward = !c->o.no_eval,
    };
    time_begin(c);
    Program *p = lower(c->arena, c->diag, c->prelude_file, c->file,
                       &options);
    time_end(c, "lower");
    return diag_error_count(c->diag) > 0 ? NULL : p;
}

static Program *make_program(Compilation *c)
{
    if (!c->o.pipeline.starts)
        return front_end(c);
    Program *p = ir_parse(c->arena, c->diag, c->model);
    for (int k = 0; p && c->o.no_eval && k < PURPOSES; k++)
        p->forward[k] = NULL;
    return p;
}

/* The threads of a rank: its share of the cores of this machine. */
static int default_threads(const Program *p)
{
    int64_t cores = sysconf(_SC_NPROCESSORS_ONLN);
    int64_t threads = cores / mesh_ranks(&p->mesh);
    return threads > 1 ? (int)threads : 1;
}

/* After an internal error: removes the outputs, prints the command. */
static void on_bug(void *context)
{
    const Compilation *c = context;
    outputs_abandon(c->outputs);
    fprintf(stderr, "parc: this command reproduces the error:\n    %s\n",
            c->command_text);
}

static bool finish(Compilation *c, Program *p)
{
    bool one = c->o.target == TARGET_CUDA || cpu_level_is_named(c->o.cpu);
    int threads = c->o.threads ? c->o.threads : one ? 1 : default_threads(p);
    TargetInfo t = target_info(c->o.target, threads);
    if (t.cpu)
        t.cpu = c->o.cpu;
    bool dump = c->o.pipeline.starts && !ir_verify(p);
    if (dump && !target_takes_dump(p))
        return false;
    if (!pipeline_run(p, &t, &c->o.pipeline, c->time, c->ntimes))
        return false;
    bug_set_hook(on_bug, c); /* pipeline_run replaced it */
    if (p->plan.offload && c->o.target == TARGET_CPU)
        diag_note(p->diag, p->plan.offload_loc,
                  "offload has no effect on the CPU: all memory is host "
                  "memory");
    const PipelineOptions *o = &c->o.pipeline;
    bool planned = !o->stops || o->stop_after == pass_count - 1;
    PlanSource from = {c->o.mesh.text,  &t,      pass_table,
                       c->prelude_file, c->file, c->define, c->ndefines};
    if (planned && dump && options_need_plan(&c->o) &&
        !pipeline_has_parts(p, &t, pass_count - 1))
        return false;
    if (planned && !fit_check(p, &from, &c->o))
        return false;
    if (c->o.verbose && p->memory)
        fprintf(stderr,
                "parc: %s: a rank of %" PRId64 " needs %" PRId64 " bytes\n",
                p->model, mesh_ranks(&p->mesh), p->memory->peak);
    Warnings warnings = {0};
    if (planned && p->memory) {
        warnings = report_find_warnings(p);
        if (c->file)
            hints_find(p, &warnings, &from);
        report_warnings(p, &warnings);
        report_unsharded(p);
        pipeline_drop_forward(p);
        kernels_share(p);
    }
    return emit_reports(c, p, &t, &warnings) && write_explanation(c, p, &t) &&
           write_program(c, p, &t);
}

static bool asked_for_nothing(const Options *o)
{
    const PipelineOptions *p = &o->pipeline;
    return o->emit.n == 0 && !o->binary.text && !o->directory.text &&
           !o->explain.text && !p->stops && !p->dump_after_all &&
           p->dump_after.n == 0 && p->dump_before.n == 0 && !p->time_passes &&
           o->memory_limit == 0;
}

static bool make_outputs(Compilation *c)
{
    if (!open_model(c))
        return false;
    if (!c->o.pipeline.starts) {
        time_begin(c);
        c->file = pdl_parse_plan(c->arena, c->diag, c->model, c->o.plan.text);
        time_end(c, "parse");
        if (!c->file)
            return false;
    }
    if (only_ast(c))
        return emit_reports(c, NULL, NULL, NULL);
    Program *p = make_program(c);
    return p && finish(c, p);
}

static bool compile_input(Compilation *c)
{
    if (!make_outputs(c) || !publish(c))
        return false;
    if (asked_for_nothing(&c->o))
        fprintf(stderr,
                "parc: '%s' has no errors; use -o, -S or --emit for "
                "output\n",
                c->o.input.text);
    return true;
}

/* Options that a rerun from a saved dump needs. */
static const char *reproduce_options(const Compilation *c)
{
    const Options *o = &c->o;
    const char *text = o->target == TARGET_CPU ? " --target cpu" : "";
    if (o->target == TARGET_CPU && cpu_level_is_named(o->cpu))
        text = arena_printf(c->arena, "%s --cpu %s", text, o->cpu->name);
    if (o->threads)
        text = arena_printf(c->arena, "%s --threads %d", text, o->threads);
    return *text ? text + 1 : text;
}

/* The set that is removed if memory runs out, which ends parc by exit(). */
static Outputs *unfinished;

static void remove_unfinished(void)
{
    if (unfinished)
        outputs_abandon(unfinished);
}

static int run_command_line(Compilation *c, int argc, char **argv)
{
    const char *failure = stack_prepare(c->arena);
    if (failure) {
        diag_error(c->diag, (Loc){0}, "%s", failure);
        diag_flush(c->diag, stderr);
        return 1;
    }
    switch (options_parse(c->arena, c->diag, c->command, argc, argv, &c->o)) {
    case OPTIONS_DONE:
        if (flush_stdout(c->diag, 0))
            return 0;
        diag_flush(c->diag, stderr);
        return 1;
    case OPTIONS_WRONG:
        diag_flush(c->diag, stderr);
        return 2;
    case OPTIONS_RUN:
        break;
    }
    if (!clash_check(c->diag, &c->o)) {
        diag_flush(c->diag, stderr);
        return 1;
    }
    c->o.pipeline.reproduce = reproduce_options(c);
    c->outputs = unfinished = outputs_new(c->arena);
    atexit(remove_unfinished);
    bug_set_hook(on_bug, c);
    jmp_buf stop;
    bool good = false;
    diag_set_stop(c->diag, &stop);
    if (setjmp(stop) == 0)
        good = compile_input(c);
    outputs_abandon(c->outputs); /* no effect after a commit */
    unfinished = NULL;
    diag_flush(c->diag, stderr);
    return good ? 0 : 1;
}

int main(int argc, char **argv)
{
    streams_prepare();
    if (argc > 1 && !strcmp(argv[1], "plot"))
        return plot_main(argc - 1, argv + 1);
    Compilation c = {.arena = arena_new()};
    c.diag = diag_new(c.arena, COLOR_AUTO);
    out_init(&c.text, c.arena);
    c.command_text = command_line_text(c.arena, argc, argv);
    /* The model comes first: dumps and reports number it 1. */
    c.model = diag_source(c.diag, "", "", 0);
    c.prelude = diag_source(c.diag, "prelude.pdl", prelude_text, prelude_size);
    c.command = diag_command_line(c.diag, c.command_text);
    int status = run_command_line(&c, argc, argv);
    arena_free(c.arena);
    return status;
}
