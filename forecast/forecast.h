/* forecast.h: how long a step takes on a machine, and why.
 *
 * The time of a step is that of the compute stream: it runs statements, or waits for
 * those of other streams, where a collective counts with the time for which it is waited
 * for. The times of classes or of phases, `waits` and `bubble` sum to that of the step.
 */
#ifndef PARC_FORECAST_FORECAST_H
#define PARC_FORECAST_FORECAST_H

#include "forecast/pipelined.h"

typedef enum ForecastPhase {
    FORECAST_FORWARD,
    FORECAST_BACKWARD,
    FORECAST_OPTIMIZER,
    FORECAST_PHASES
} ForecastPhase;
/* "forward", "backward", "optimizer" */
extern const char *const forecast_phase_name[FORECAST_PHASES];

typedef struct Forecast {
    const Machine *machine;
    int n;
    const Statement *statement;
    const Work *work;
    const StatementTime *time; /* by statement: per step */
    double seconds;            /* of a step */
    double spread;             /* the part of it by which it may be wrong */
    double mfu;                /* model flops of a rank relative to the peak */
    double exposed;            /* seconds for which collectives are waited for */
    double waits;              /* seconds between statements */
    double bubble;             /* seconds for which a rank waits for other stages */
    const PipelineTime *pipeline; /* the times are those of the slowest coordinate; NULL:
                                   * those of all stages one after another */
    const TimelineLog *log; /* without a pipeline whose stages overlap */
    double by_class[WORK_CLASSES], by_phase[FORECAST_PHASES];
} Forecast;

/* p: a program after the last pass. `whole`: without leaving out periods of loops. */
Forecast forecast_of(const Program *p, const Machine *m, bool whole);

ForecastPhase forecast_phase(const Statement *s);

#endif
