/* report.h: declares what a run reports while it trains: a record per step,
 * which becomes a line of the log file, a progress line and points in
 * TensorBoard's event file. Rank 0 alone reports. */
#ifndef PARC_RT_REPORT_H
#define PARC_RT_REPORT_H

#include "options/options.h"
#include "rt.h"

/* The results of one step. A value that is not known is NAN. */
typedef struct RtRecord {
    int64_t step;             /* from 1 */
    double loss, val_loss;    /* val_loss: NAN without an evaluation after this
                                 step */
    double grad_norm, lr;
    double overflow;          /* rows of experts that had no place in the buffers: the step
                                 was repeated in rounds */
    int64_t dropped;          /* choices that experts with a capacity dropped … */
    int64_t val_dropped;      /* … and those of the evaluation after this step */
    double loss_scale;
    int64_t tokens;           /* since the start of the run */
    double tokens_per_s, step_ms; /* of the training step alone */
    double mfu, hfu;          /* model and hardware flops utilization */
    int64_t host_bytes, peak_bytes; /* of a rank */
} RtRecord;

/* The fields of a record in the order of the log; the last one has no name. */
typedef struct RtField {
    const char *name; /* in the log and in TensorBoard */
    size_t at;        /* offset in RtRecord */
    bool whole;       /* an int64_t; else a double */
    bool optional;    /* absent if the value is NAN or 0; else null if it is not
                         finite */
    bool curve;       /* drawn by TensorBoard */
} RtField;
extern const RtField rt_fields[];
double rt_field_value(const RtField *f, const RtRecord *r);

/* The log file (jsonl.c). */
typedef struct RtLog {
    int file; /* -1: none */
    const char *path;
} RtLog;

/* The progress on standard error. */
enum { RT_MOST_LOSSES = 50 };
typedef struct RtProgress {
    bool terminal;
    int64_t first, steps;    /* the run's steps are first+1 … steps */
    double begin, last_line; /* seconds */
    double first_loss;
    double losses[RT_MOST_LOSSES]; /* of the latest steps, step s at index
                                      s % RT_MOST_LOSSES */
    double seconds;          /* sum of the training steps */
    int64_t tokens;          /* of these steps */
    const char *noun;        /* "tokens" */
} RtProgress;

/* TensorBoard's event file (tensorboard.c). */
typedef struct RtEvents {
    int file; /* -1: none */
    char *path;
} RtEvents;

typedef struct RtReport {
    RtLog log;
    RtProgress progress;
    RtEvents events;
    int64_t repeated;      /* steps that overflowed */
    int64_t dropped;       /* choices of all steps */
    int64_t done, tokens;  /* steps before the first one, and their tokens */
    int64_t tokens_a_step;
    const char *noun;      /* of what `tokens` counts: "tokens", or "samples" if
                              the model has no sequences */
    double peak_flops;
    double step_begin; /* the time until the record is the step's: evaluation
                          and checkpoints between steps do not count */
} RtReport;

/* Opens the files that the options request; false after a message. `done`,
 * `tokens`: steps and tokens of the run before it was resumed. */
bool rt_report_open(RtReport *r, const RtOptions *o, const ParcModel *model,
                    int64_t done, int64_t tokens);
/* Tokens of the run up to a step. */
int64_t rt_report_tokens(const RtReport *r, int64_t step);
void rt_report_start(RtReport *r, ParcRt *rt, int64_t steps);
/* The step has ended: its record, without val_loss. */
RtRecord rt_report_record(RtReport *r, ParcRt *rt, int64_t step);
void rt_report_step(RtReport *r, ParcRt *rt, const RtRecord *record);
/* Reports a skipped step and the new loss scale. */
void rt_report_skip(const RtReport *r, int64_t step, double from, double to);
/* Says how many choices experts have dropped in n steps or batches, if any. `of`: "step" */
void rt_say_dropped(int64_t dropped, int64_t n, const char *of);
/* Prints the summary and closes the files. `done`: the last completed step. */
void rt_report_end(RtReport *r, ParcRt *rt, int64_t done);

/* ---- parts ---- */

/* Opens and locks the file, and removes its lines from step done+1 on; false
 * after a message. */
bool rt_log_open(RtLog *l, const char *path, int64_t done);
void rt_log_write(RtLog *l, ParcRt *rt, const RtRecord *r);
void rt_log_close(RtLog *l, ParcRt *rt);

/* Creates the directory if it does not exist, and a file in it; false after a
 * message. */
bool rt_events_open(RtEvents *e, const char *directory);
/* TensorBoard discards points of earlier files from step done+1 on. */
void rt_events_start(RtEvents *e, ParcRt *rt, int64_t done);
void rt_events_write(RtEvents *e, ParcRt *rt, const RtRecord *r);
void rt_events_close(RtEvents *e, ParcRt *rt);

#endif
