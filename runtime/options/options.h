/* options.h: declares the options of a training program. */
#ifndef PARC_RT_OPTIONS_H
#define PARC_RT_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "parc_rt.h"

/* The values of an option that may be given several times, in order. */
typedef struct RtTexts {
    const char *at[16];
    int n;
} RtTexts;

typedef struct RtOptions {
    const char *program; /* name in messages: the base name of argv[0] */
    int64_t steps, seed, threads; /* threads 0: as planned */
    int64_t epochs;               /* 0: --steps says how long the run is */
    bool steps_given;
    bool shuffle, info, dry_run, help, version, init_partial, export_ema, all;
    bool seed_given, save_async, eval;
    const char *data, *export_to, *log, *trace, *print_shards, *tensorboard;
    const char *save, *resume, *predict;
    RtTexts init, settings, export_only;
    /* Of --export: the number of a word of the option, from 1 on, and bytes;
     * 0: the default. */
    int64_t export_dtype, export_names, export_shard_bytes;
    int64_t save_every, keep; /* 0: only after the last step, or RT_EPOCH; 0:
                                 all */
    const char *val, *sample, *sample_ids;
    int64_t val_every, val_steps; /* 0: only after the last step, or RT_EPOCH;
                                     0: all */
    int64_t trace_steps, tokens, top_k;
    double temperature;
    int64_t max_time; /* seconds; 0: no limit */
} RtOptions;

/* --save-every and --val-every: after each epoch. */
enum { RT_EPOCH = -1 };

/* Returns -1 to continue; else the exit status (a message has been printed). */
int rt_options(RtOptions *o, int argc, char **argv);
void rt_usage(const RtOptions *o, const ParcModel *model);

#endif
