/* settings.h: declares the settings that a run can change without a new
 * program (--set NAME=VALUE). */
#ifndef PARC_RT_SETTINGS_H
#define PARC_RT_SETTINGS_H

#include <stdio.h>

#include "common/json.h"
#include "options/options.h"

/* The settings in effect. */
typedef struct RtSettings {
    double lr, clip; /* clip: the largest gradient norm; unused by a program
                        that does not clip */
    ParcSchedule schedule;
    uint32_t changed; /* by number of the setting: it differs from the program's
                         because of --set, now or before the run was resumed */
} RtSettings;

void rt_settings_init(RtSettings *s, const ParcModel *model);
/* Sets those that another run has changed, as far as the program has them. */
void rt_settings_adopt(RtSettings *s, const RtSettings *from,
                       const ParcModel *model);
/* Applies the texts NAME=VALUE in order, and checks that all changed settings
 * fit together; false after a message. */
bool rt_settings_set(RtSettings *s, const RtTexts *texts,
                     const ParcModel *model);
/* The changed settings: as a JSON object, and as text "lr=0.1 clip=1". */
void rt_settings_print_json(const RtSettings *s, FILE *to);
void rt_settings_print(const RtSettings *s, FILE *to);
/* Reads such an object; errors are those of `j`. Unknown names are skipped. */
void rt_settings_read(RtSettings *s, RtJson *j);

/* Notes that the learning rate jumps after step `done`, because the schedule
 * ends at the last step of the run, which was step `before` and is now `steps`.
 * before 0: not known. `old`: the settings of the run that is resumed. */
void rt_settings_note_steps(const RtSettings *s, const RtSettings *old,
                            int64_t done, int64_t before, int64_t steps);

/* The learning rate of a step (counted from 1) in a run of
 * `steps`. */
double rt_schedule_lr(const RtSettings *of, int64_t step, int64_t steps);

#endif
