/* pipeline.c: runs the passes in order and verifies the program after each.
 *
 * On an internal error in a pass, the passes before it run again on a copy of the
 * first program: their result is written to a file, with a command that repeats
 * the error.
 */
#include "driver/passes/pipeline.h"

#include <stdio.h>

#include "base/bug.h"
#include "base/clock.h"
#include "base/file.h"
#include "ir/memory.h"
#include "ir/verify/total.h"
#include "passes/side_program.h"
#include "passes/sync/sync.h"

const PassInfo pass_table[] = {
#define PASS(directory, name, meaning) {#name, meaning, pass_##name},
#include "passes/passes.def"
#undef PASS
};
/* The numbers of the passes. */
enum {
#define PASS(directory, name, meaning) PASS_##name,
#include "passes/passes.def"
#undef PASS
};
const int pass_count = sizeof pass_table / sizeof *pass_table;

const char *pass_name(int pass)
{
    return pass < 0 ? "lower" : pass_table[pass].name;
}

static const char *pass_meaning(int pass)
{
    return pass < 0 ? "makes the global forward program from the checked file"
                    : pass_table[pass].meaning;
}

void pass_list(Out *o)
{
    for (int i = -1; i < pass_count; i++)
        out(o, "%-19s %s\n", pass_name(i), pass_meaning(i));
}

/* ---- dumps ---- */

static void dump(const Program *p, const char *when, int pass)
{
    Out o;
    out_init(&o, p->arena);
    out(&o, "# %s %s\n", when, pass_name(pass));
    ir_print(&o, p);
    fwrite(o.text, 1, o.size, stdout);
    fflush(stdout);
}

static bool is_listed(const int *list, int n, int pass)
{
    for (int i = 0; i < n; i++)
        if (list[i] == pass)
            return true;
    return false;
}

static void dump_before(const Program *p, const PipelineOptions *o, int pass)
{
    if (is_listed(o->dump_before.at, o->dump_before.n, pass))
        dump(p, "before", pass);
}

static void dump_after(const Program *p, const PipelineOptions *o, int pass)
{
    if (o->dump_after_all || is_listed(o->dump_after.at, o->dump_after.n, pass))
        dump(p, "after", pass);
}

/* ---- times ---- */

static void print_time(const char *name, double seconds)
{
    fprintf(stderr, "%10.3f ms  %s\n", 1e3 * seconds, name);
}

/* ---- running ---- */

/* Passes find the value of an assigned parameter where the step reads it. */
static void check_assign(Op *op, void *context)
{
    const Program *p = context;
    if (op->kind != OP_assign)
        return;
    const Param *param = &p->param.at[attr_param(op)];
    if (!param->value)
        diag_error(p->diag, op->loc,
                   "the IR assigns '%s' but has no 'param' that reads it",
                   param->name);
}

/* A dump may have been edited by hand: its errors are the user's. */
static bool verify_input(Program *p)
{
    const char *fault = ir_verify(p);
    if (!fault) {
        ir_walk(p->step, check_assign, p);
        return diag_error_count(p->diag) == 0;
    }
    return diag_error(p->diag, (Loc){0}, "the IR is not valid: %s", fault);
}

/* A tensor that a pass made too large is an error in the model. */
static void check_size(Op *op, void *context)
{
    const Program *p = context;
    for (int i = 0; i < op->nouts; i++)
        if (type_too_large(&op->out[i]->type))
            diag_error(p->diag, op->loc,
                       "a tensor of this statement is too large: %s has more "
                       "than 2^%d elements",
                       type_text(p->arena, &op->out[i]->type, &p->mesh), MAX_ELEMENTS_LOG2);
}

/* Verifies the result of a pass. */
static void verify(Program *p, int pass)
{
    if (diag_error_count(p->diag) > 0)
        return;
    const char *fault = ir_verify(p);
    if (fault)
        ir_walk(p->step, check_size, p);
    if (fault && diag_error_count(p->diag) == 0)
        bug("pass '%s' left an invalid program for %s: %s", pass_name(pass),
            purpose_words[p->purpose], fault);
    if (!fault)
        ir_check_total(p);
}

static double run_on(Program *p, const TargetInfo *t, int pass,
                     double *verifying)
{
    ir_renumber(p); /* ids as after parsing a dump, so that a run from the dump
                     * is identical */
    double begin = seconds_now();
    pass_table[pass].run(p, t);
    why_update(p, pass_name(pass));
    double ran = seconds_now();
    if (verifying) {
        verify(p, pass);
        *verifying += seconds_now() - ran;
    }
    return ran - begin;
}

/* Runs the pass on the training step, then on its side programs. The pass
 * memory needs their parameters to be stored as in the training step. Adds the
 * time of the verifier to *verifying; NULL: nothing is verified. */
static double run_pass(Program *p, const TargetInfo *t, int pass,
                       double *verifying)
{
    double seconds = run_on(p, t, pass, verifying);
    if (pass == PASS_memory)
        side_drop(p);
    for (int k = 0; k < PURPOSES; k++)
        if (p->side[k] && diag_error_count(p->diag) == 0)
            seconds += run_on(p->side[k], t, pass, verifying);
    return seconds;
}

/* ---- an internal error ---- */

typedef struct Crash {
    Program *first_program; /* a copy of the program before the first pass, or NULL */
    int first, pass;        /* the first pass, and the one that runs */
    const TargetInfo *t;
    const PipelineOptions *options;
} Crash;

/* The valid program before the pass that has failed. */
static const Program *last_good(const Crash *c)
{
    for (int pass = c->first; pass < c->pass; pass++)
        run_pass(c->first_program, c->t, pass, NULL);
    return c->first_program;
}

static void save_crash(void *context)
{
    static const char name[] = "parc-crash.ir";
    const Crash *c = context;
    if (!c->first_program)
        return;
    const Program *good = last_good(c);
    Out o;
    out_init(&o, good->arena);
    ir_print(&o, good);
    Outputs *set = outputs_new(good->arena);
    const char *failure = outputs_replace(set, name, o.text, o.size);
    if (!failure)
        failure = outputs_commit(set);
    else
        outputs_abandon(set);
    if (failure) {
        fprintf(stderr, "parc: %s\n", failure);
        return;
    }
    const char *more = c->options->reproduce ? c->options->reproduce : "";
    const char *after = pass_name(c->pass - 1);
    fprintf(stderr,
            "parc: the IR after '%s' is in %s; this repeats the error:\n"
            "    parc %s%s--start-after=%s %s\n",
            after, name, more, *more ? " " : "", after, name);
}

bool pipeline_has_parts(Program *p, const TargetInfo *t, int pass)
{
    const char *fault = NULL;
    bool scheduled = pass >= PASS_schedule, placed = pass >= PASS_memory;
    if (scheduled && p->streams == 0)
        fault = "it has no line 'streams'";
    else if (scheduled && p->streams != t->streams)
        fault = "it has the streams of another target";
    else if (placed && !p->memory)
        fault = "it has no memory plan";
    else if (placed && p->memory->alignment % t->alignment)
        fault = "its memory has the alignment of another target";
    else if (pass == pass_count - 1)
        fault = events_check(p);
    if (fault)
        diag_error(p->diag, (Loc){0}, "the IR is not a program after '%s': %s",
                   pass_name(pass), fault);
    for (int k = 0; k < PURPOSES && !fault; k++)
        if (p->side[k] && !pipeline_has_parts(p->side[k], t, pass))
            return false;
    return fault == NULL;
}

/* Checks a program before the first pass. */
static bool begin_pipeline(Program *p, bool is_dump)
{
    const char *fault = is_dump ? NULL : ir_verify(p);
    if (fault)
        bug("'lower' made an invalid program: %s", fault);
    if (is_dump && !verify_input(p))
        return false;
    ir_check_total(p);
    return diag_error_count(p->diag) == 0;
}

/* Ids as after parsing the last dump, so that its program is emitted
 * identically. */
static void renumber_all(Program *p)
{
    ir_renumber(p);
    for (int k = 0; k < PURPOSES; k++)
        if (p->side[k])
            ir_renumber(p->side[k]);
}

bool pipeline_run(Program *p, const TargetInfo *t, const PipelineOptions *o,
                  const Timing *before, int nbefore)
{
    int first = o->starts ? o->start_after + 1 : 0;
    int last = o->stops ? o->stop_after : pass_count - 1;
    double verifying = 0;
    Crash crash = {.first = first, .t = t, .options = o};
    for (int i = 0; o->time_passes && i < nbefore; i++)
        print_time(before[i].name, before[i].seconds);
    bug_set_hook(save_crash, &crash);
    if (!begin_pipeline(p, o->starts))
        return false;
    for (int k = 0; k < PURPOSES; k++)
        if (p->side[k] && !begin_pipeline(p->side[k], o->starts))
            return false;
    if (first <= last && o->starts &&
        !pipeline_has_parts(p, t, o->start_after))
        return false;
    if (!o->starts)
        dump_after(p, o, -1);
    if (first <= last)
        crash.first_program = ir_copy(p);
    for (int pass = first; pass <= last; pass++) {
        crash.pass = pass;
        dump_before(p, o, pass);
        double seconds = run_pass(p, t, pass, &verifying);
        if (o->time_passes)
            print_time(pass_name(pass), seconds);
        if (diag_error_count(p->diag) > 0)
            break;
        dump_after(p, o, pass);
    }
    renumber_all(p);
    if (o->time_passes)
        print_time("(verifying)", verifying);
    bug_set_hook(NULL, NULL);
    return diag_error_count(p->diag) == 0;
}
