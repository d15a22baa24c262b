/* forecast.c: sums up the timeline of a step; see forecast.h. */
#include "forecast/forecast.h"

#include <math.h>

#include "ir/analysis/flops.h"
#include "ir/analysis/statement.h"
#include "ir/plan/pipeline.h"

const char *const forecast_phase_name[FORECAST_PHASES] = {"forward", "backward",
                                                          "optimizer"};

ForecastPhase forecast_phase(const Statement *s)
{
    return s->op->phase == PH_OPTIMIZER ? FORECAST_OPTIMIZER
           : op_is_backward(s->op)      ? FORECAST_BACKWARD
                                        : FORECAST_FORWARD;
}

/* The rate that products of the program's precision could reach. */
static double peak(const Program *p, const Machine *m)
{
    return p->train.precision == DT_F32 ? machine_value(m, peak_f32)
                                        : machine_value(m, peak_bf16);
}

/* The constants of one class are wrong together, those of different classes not. */
static double spread_of(const Forecast *f)
{
    double class[WORK_CLASSES] = {0}, sum = 0;
    for (int i = 0; i < f->n; i++)
        class[f->work[i].class] += f->time[i].exposed * f->work[i].spread;
    for (int k = 0; k < WORK_CLASSES; k++)
        sum += class[k] * class[k];
    return sqrt(sum) / f->seconds;
}

static void time_step(const Program *p, Forecast *f, bool whole)
{
    bool stages = pipeline_axis(p) >= 0;
    IssueScope step = {.part = stages ? ISSUE_SEQUENCE : ISSUE_WHOLE};
    Timeline t = timeline_of(p, f->machine, f->work, f->n, step, whole);
    f->time = t.time;
    f->waits = t.waits;
    f->seconds = t.seconds;
    TimelineLog *log = NEW(p->arena, TimelineLog);
    *log = t.log;
    f->log = log;
}

static void time_pipeline(const Program *p, Forecast *f, bool whole)
{
    PipelineTime *t = NEW(p->arena, PipelineTime);
    *t = pipelined_time(p, f->machine, f->work, f->n, whole);
    f->pipeline = t;
    f->time = t->time;
    f->waits = t->waits;
    f->bubble = t->bubble[t->slowest];
    f->seconds = t->seconds;
}

Forecast forecast_of(const Program *p, const Machine *m, bool whole)
{
    Forecast f = {.machine = m};
    f.statement = statements_of(p, &f.n);
    f.work = works_of(p, m, f.statement, f.n);
    if (pipeline_loop(p))
        time_pipeline(p, &f, whole);
    else
        time_step(p, &f, whole);
    f.waits += machine_value(m, graph_step);
    f.seconds += machine_value(m, graph_step);
    for (int i = 0; i < f.n; i++) {
        double exposed = f.time[i].exposed;
        f.by_class[f.work[i].class] += exposed;
        f.by_phase[forecast_phase(&f.statement[i])] += exposed;
        if (f.work[i].class == WORK_COLLECTIVE)
            f.exposed += exposed;
    }
    f.spread = spread_of(&f);
    double flops = program_flops_model(p) / (double)mesh_ranks(&p->mesh);
    f.mfu = flops / f.seconds / peak(p, m);
    return f;
}
