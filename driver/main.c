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
#include "driver/auto/auto_mesh.h"
#include "driver/auto/auto_plan.h"
#include "driver/auto/fit.h"
#include "driver/compilation.h"
#include "driver/options/config_file.h"
#include "driver/options/options.h"
#include "driver/subcommands/calibrate.h"
#include "driver/subcommands/compare.h"
#include "driver/subcommands/plot.h"
#include "frontend/frontend.h"
#include "ir/ir.h"
#include "passes/side_program.h"
#include "report/hint.h"
#include "report/report.h"


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

/* ---- the stages ---- */

static Program *lower_model(Compilation *c, Diag *d)
{
    FrontendOptions options = {
        .mesh = c->mesh,
        .mesh_loc = c->o.mesh.loc,
        .node_size = c->o.node_size,
        .node_loc = c->o.node_size_arg.loc,
        .plan = c->o.plan.text,
        .plan_loc = c->o.plan.loc,
        .define = c->define,
        .ndefines = c->ndefines,
        .config = c->config,
        .defaults = c->defaults,
        .side = !c->o.no_eval,
    };
    return lower(c->arena, d, c->prelude_file, c->file, &options);
}

/* The lowered model; NULL: it has errors, which are not reported. */
static const Program *lower_quietly(Compilation *c)
{
    Diag *quiet = diag_quiet(c->arena, c->diag);
    const Program *p = lower_model(c, quiet);
    return p && diag_error_count(quiet) == 0 ? p : NULL;
}

/* What the plans of other meshes are made from. */
static PlanSource plan_source(const Compilation *c, const TargetInfo *t)
{
    return (PlanSource){.mesh = c->mesh,
                        .node_size = c->o.node_size,
                        .t = t,
                        .pass = pass_table,
                        .prelude = c->prelude_file,
                        .file = c->file,
                        .define = c->define,
                        .ndefines = c->ndefines,
                        .defaults = c->defaults,
                        .side = !c->o.no_eval};
}

static TargetInfo target_of(const Compilation *c, int64_t ranks, int64_t node);

/* Limits what parc chooses to the machine's memory, unless --device-memory is given. */
static void limit_memory(Compilation *c)
{
    if (c->machine && !c->o.memory_limit)
        c->o.memory_limit = (int64_t)machine_value(c->machine, device_memory);
}

/* Writes the plan of --plan auto; false after an error. */
static bool begin_plan(Compilation *c, AutoPlan **plan)
{
    *plan = NULL;
    if (!auto_plan_requested(&c->o, c->file))
        return true;
    limit_memory(c);
    TargetInfo t = target_of(c, 1, 1);
    PlanSource from = plan_source(c, &t);
    if (diag_error_count(c->diag) > 0 ||
        !(*plan = auto_plan_begin(c->arena, &from, &c->o, c->diag)))
        return false;
    c->file = auto_plan_file(*plan, true);
    return true;
}

/* Chooses among the variants of the plan, and these meshes; false after an error. */
static bool choose_plan(Compilation *c, const AutoPlan *plan, const OtherMeshes *others)
{
    const Program *p = lower_quietly(c);
    if (!p) { /* the mesh may not divide the experts */
        c->file = auto_plan_file(plan, false);
        p = lower_quietly(c);
    }
    if (!p)
        return true;
    TargetInfo t = target_of(c, mesh_ranks(&p->mesh), p->mesh.node);
    PlanSource from = plan_source(c, &t);
    if (!auto_plan_choose(plan, p, &from, others))
        return false;
    c->file = from.file;
    c->mesh = from.mesh;
    c->define = from.define;
    c->ndefines = from.ndefines;
    return true;
}

/* Chooses the sizes of --mesh auto; false after an error. A model that has
 * errors is lowered again, to report them. */
static bool choose_mesh(Compilation *c, const AutoPlan *plan, OtherMeshes *others)
{
    if (c->o.ranks == 0) {
        diag_error(c->diag, c->o.mesh.loc, "the size 'auto' needs the number of "
                   "ranks");
        return diag_help(c->diag, "add --ranks N, the number of GPUs or CPU ranks");
    }
    c->mesh = NULL;
    limit_memory(c);
    const Program *p = lower_quietly(c);
    if (!p)
        return true;
    TargetInfo t = target_of(c, c->o.ranks, c->o.node_size);
    PlanSource from = plan_source(c, &t);
    c->mesh = auto_mesh_choose(p, &from, &c->o, c->diag, plan != NULL, others);
    return c->mesh != NULL;
}

/* Chooses the defaults of the plan: what fits --device-memory. A model that has errors
 * is lowered again, to report them. */
static void choose_plan_defaults(Compilation *c)
{
    c->defaults = (PlanDefaults){PER_STEP, PER_STEP, .overlap = true};
    if (c->o.memory_limit == 0)
        return;
    const Program *p = lower_quietly(c);
    if (!p)
        return;
    TargetInfo t = target_of(c, mesh_ranks(&p->mesh), p->mesh.node);
    PlanSource from = plan_source(c, &t);
    c->defaults = fit_plan_defaults(p, &from, &c->o, c->diag);
}

static bool check_ranks(Compilation *c, const Program *p)
{
    int64_t ranks = mesh_ranks(&p->mesh);
    if (c->o.ranks == 0 || c->o.ranks == ranks)
        return true;
    diag_error(c->diag, c->o.ranks_arg.loc, "the mesh has %lld rank%s, not %lld",
               (long long)ranks, ranks == 1 ? "" : "s", (long long)c->o.ranks);
    return diag_help(c->diag, "with --mesh auto parc chooses the sizes");
}

/* Sets the model's parameters that --config has; false after an error. */
static bool take_config(Compilation *c)
{
    if (!c->o.config.text)
        return true;
    int before = diag_error_count(c->diag);
    c->config = config_file_read(c->arena, c->diag, &c->o.config);
    if (!c->config || before)
        return false;
    FrontendOptions options = {.define = c->define, .ndefines = c->ndefines, .config = c->config};
    c->define = config_defines(c->arena, c->diag, c->file, &options, &c->ndefines);
    return diag_error_count(c->diag) == 0;
}

static Program *front_end(Compilation *c)
{
    Setting **define = NEW_ARRAY(c->arena, Setting *, c->o.define.n);
    c->define = define;
    for (int i = 0; i < c->o.define.n; i++) {
        const Argument *a = &c->o.define.at[i];
        Setting *s = pdl_parse_define_at(c->arena, c->diag, c->command,
                                         a->loc.col - 1, strlen(a->text));
        if (s)
            define[c->ndefines++] = s;
    }
    time_begin(c);
    c->prelude_file = parse_prelude(c);
    pdl_check(c->arena, c->diag, c->prelude_file, c->file);
    time_end(c, "check");
    if (!take_config(c))
        return NULL;
    c->ngiven = c->ndefines;
    c->mesh = c->o.mesh.text;
    AutoPlan *plan;
    OtherMeshes others = {0};
    if (!begin_plan(c, &plan) || (auto_mesh_requested(&c->o) && !choose_mesh(c, plan, &others)) ||
        (plan && !choose_plan(c, plan, &others)))
        return NULL;
    choose_plan_defaults(c);
    time_begin(c);
    Program *p = lower_model(c, c->diag);
    time_end(c, "lower");
    return diag_error_count(c->diag) > 0 || !check_ranks(c, p) ? NULL : p;
}

static Program *make_program(Compilation *c)
{
    if (!c->o.pipeline.starts)
        return front_end(c);
    Program *p = ir_parse(c->arena, c->diag, c->model);
    for (int k = 0; p && c->o.no_eval && k < FOR_ROUNDS; k++)
        p->side[k] = NULL;
    return p;
}

/* The threads of a rank: its share of the cores, if a node has those of this
 * machine. */
static int default_threads(int64_t ranks, int64_t node)
{
    int64_t cores = sysconf(_SC_NPROCESSORS_ONLN);
    int64_t threads = cores / (node > 0 && node < ranks ? node : ranks);
    return threads > 1 ? (int)threads : 1;
}

/* `node`: ranks of a node; 0: not given. */
static TargetInfo target_of(const Compilation *c, int64_t ranks, int64_t node)
{
    const Options *o = &c->o;
    bool one = o->target == TARGET_CUDA || cpu_level_is_named(o->cpu);
    TargetInfo t = target_info(o->target, o->threads ? o->threads
                                          : one      ? 1
                                                     : default_threads(ranks, node));
    if (t.cpu)
        t.cpu = o->cpu;
    t.machine = c->machine;
    t.device_memory = o->memory_limit ? o->memory_limit
                      : c->machine    ? (int64_t)machine_value(c->machine, device_memory)
                                      : 0;
    t.link = c->machine && !machine_is_cpu(c->machine) ? c->machine->link : NULL;
    return t;
}

/* After an internal error: removes the outputs, prints the command. */
static void on_bug(void *context)
{
    const Compilation *c = context;
    outputs_abandon(c->outputs);
    fprintf(stderr, "parc: this command reproduces the error:\n    %s\n",
            c->command_text);
}

static bool load_machine(Compilation *c)
{
    const Argument *name = &c->o.machine;
    const char *error = NULL;
    if (!name->text)
        return true;
    c->machine = machine_load(c->arena, name->text, &error);
    if (!c->machine)
        return diag_error(c->diag, name->loc, "%s", error);
    const char *target = c->o.target == TARGET_CPU ? "cpu" : "cuda";
    return strcmp(c->machine->target, target) == 0 ||
           diag_error(c->diag, name->loc, "the machine %s is for --target %s",
                      c->machine->name, c->machine->target);
}

static void make_forecast(Compilation *c, const Program *p)
{
    if (!c->machine)
        return;
    Forecast *f = NEW(c->arena, Forecast);
    *f = forecast_of(p, c->machine, false);
    c->forecast = f;
}

static bool finish(Compilation *c, Program *p)
{
    TargetInfo t = target_of(c, mesh_ranks(&p->mesh), p->mesh.node);
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
    PlanSource from = plan_source(c, &t);
    if (planned && dump && options_need_plan(&c->o) &&
        !pipeline_has_parts(p, &t, pass_count - 1))
        return false;
    if (planned && !fit_check(p, &from, &c->o))
        return false;
    if (c->o.verbose && p->memory)
        fprintf(stderr,
                "parc: %s: a rank of %" PRId64 " needs %" PRId64 " bytes\n",
                p->model, mesh_ranks(&p->mesh), p->memory->peak);
    bool measures = false;
    for (int i = 0; i < c->o.emit.n; i++)
        measures |= c->o.emit.at[i].kind == EMIT_MACHINE;
    if (c->o.from.text && !measures)
        return diag_error(c->diag, c->o.from.loc, "--from has no effect without --emit "
                          "machine");
    Warnings warnings = {0};
    if (planned && p->memory) {
        warnings = report_find_warnings(p);
        if (c->file)
            hints_find(p, &warnings, &from);
        report_warnings(p, &warnings);
        report_unsharded(p);
        report_sequence(p);
        side_drop(p);
        kernels_share(p);
        make_forecast(c, p);
    }
    return compilation_reports(c, p, &t, &warnings) && compilation_explain(c, p, &t) &&
           compilation_program(c, p, &t);
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
    if (!load_machine(c) || !open_model(c))
        return false;
    if (!c->o.pipeline.starts) {
        time_begin(c);
        c->file = pdl_parse_plan(c->arena, c->diag, c->model, c->o.plan.text);
        time_end(c, "parse");
        if (!c->file)
            return false;
    }
    if (compilation_only_ast(c))
        return compilation_reports(c, NULL, NULL, NULL);
    Program *p = make_program(c);
    return p && finish(c, p);
}

static bool compile_input(Compilation *c)
{
    if (!make_outputs(c) || !compilation_publish(c))
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
        if (stdout_flush(c->diag, 0))
            return 0;
        diag_flush(c->diag, stderr);
        return 1;
    case OPTIONS_WRONG:
        diag_flush(c->diag, stderr);
        return 2;
    case OPTIONS_RUN:
        break;
    }
    if (!auto_check_search(c->diag, &c->o)) {
        diag_flush(c->diag, stderr);
        return 2;
    }
    if (!outputs_differ(c->diag, &c->o)) {
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
    if (argc > 1 && !strcmp(argv[1], "calibrate"))
        return calibrate_main(argc - 1, argv + 1);
    if (argc > 1 && !strcmp(argv[1], "compare"))
        return compare_main(argc - 1, argv + 1);
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
