/* settings.c: changes settings of a run without a new program.
 *
 *   --set optimizer.lr=1e-4 --set schedule.warmup=100 --set clip=0.5
 *
 * The names are those of the `train` block. A setting belongs here if the
 * program reads its value from memory in each step: the runtime computes the
 * learning rate, and `clip` is a scalar of the step. All other settings shape
 * the program, and parc -D sets them. A checkpoint stores the changed settings,
 * and a resumed run continues with them.
 */
#include "common/json.h"
#include "common/message.h"
#include "options/options.h"
#include "options/settings.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

typedef struct Setting {
    const char *name;
    size_t at;  /* in RtSettings */
    bool whole; /* an int64_t from 0; else a double */
    bool zero;  /* 0 is a value */
} Setting;

#define AT(field) offsetof(RtSettings, field)
static const Setting settings[] = {
    {"optimizer.lr", AT(lr), false, true},
    {"clip", AT(clip), false, false},
    {"schedule.warmup", AT(schedule.warmup), true, true},
    {"schedule.steps", AT(schedule.steps), true, true},
    {"schedule.decay", AT(schedule.decay), true, true},
    {"schedule.min_lr", AT(schedule.min_lr), false, true},
};
enum { SETTINGS = sizeof settings / sizeof settings[0], NAME = 64 };

void rt_settings_init(RtSettings *s, const ParcModel *model)
{
    *s = (RtSettings){.lr = model->lr, .clip = model->clip,
                      .schedule = model->schedule};
}

static int setting_index(const char *name, size_t n)
{
    for (int i = 0; i < SETTINGS; i++)
        if (strlen(settings[i].name) == n &&
            strncmp(settings[i].name, name, n) == 0)
            return i;
    return -1;
}

static double setting_value(const RtSettings *s, int i)
{
    const char *at = (const char *)s + settings[i].at;
    return settings[i].whole ? (double)*(const int64_t *)(const void *)at
                             : *(const double *)(const void *)at;
}

/* Whether the value is one that the setting can have. */
static bool store_setting(RtSettings *s, int i, double value)
{
    char *at = (char *)s + settings[i].at;
    const double most = 0x1p53; /* whole numbers are exact up to here */
    float stored = (float)value; /* the program computes with f32 */
    if (!isfinite(stored) || value < 0 || (value > 0 && stored <= 0) ||
        (value == 0 && !settings[i].zero) ||
        (settings[i].whole && (value != floor(value) || value > most)))
        return false;
    if (settings[i].whole)
        *(int64_t *)(void *)at = (int64_t)value;
    else
        *(double *)(void *)at = value;
    s->changed |= 1u << i;
    return true;
}

/* Whether the schedule reaches min_lr at its last step. */
static bool decays(const ParcSchedule *s)
{
    return s->kind != PARC_CONSTANT && s->kind != PARC_PIECEWISE;
}

/* Whether the program reads the setting. */
static bool is_read(int i, const ParcModel *model)
{
    const size_t at = settings[i].at;
    if (at == AT(clip))
        return model->at.clip >= 0;
    if (at == AT(schedule.decay))
        return model->schedule.stable;
    return decays(&model->schedule) ||
           (at != AT(schedule.steps) && at != AT(schedule.min_lr));
}

void rt_settings_adopt(RtSettings *s, const RtSettings *from,
                       const ParcModel *model)
{
    for (int i = 0; i < SETTINGS; i++)
        if (from->changed >> i & 1 && is_read(i, model))
            store_setting(s, i, setting_value(from, i));
}

/* Whether a list with spaces has the word of n characters. */
static bool has_word(const char *list, const char *word, size_t n)
{
    for (const char *w = list; w && *w; w += *w == ' ') {
        size_t size = strcspn(w, " ");
        if (size == n && strncmp(w, word, n) == 0)
            return true;
        w += size;
    }
    return false;
}

/* The setting that ends with a name, such as "optimizer.lr" for "lr"; or NULL. */
static const char *setting_that_ends(const char *name)
{
    for (int i = 0; i < SETTINGS; i++) {
        const char *dot = strchr(settings[i].name, '.');
        if (dot && strcmp(dot + 1, name) == 0)
            return settings[i].name;
    }
    return NULL;
}

static const char *near_setting(const char *name)
{
    const char *names[SETTINGS];
    for (int i = 0; i < SETTINGS; i++)
        names[i] = settings[i].name;
    return rt_near_miss(name, names, SETTINGS);
}

static bool refuse_name(const char *name, size_t n, const ParcModel *model)
{
    char word[NAME], all[SETTINGS * NAME] = "";
    snprintf(word, sizeof word, "%.*s", n < NAME ? (int)n : NAME - 1, name);
    for (int i = 0; i < SETTINGS; i++)
        snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s",
                 i == 0 ? "" : i < SETTINGS - 1 ? ", " : " and ",
                 settings[i].name);
    const char *near = setting_that_ends(word);
    if (!near && has_word(model->options, name, n))
        return rt_error("--set: '%s' is a part of the program: compile again "
                        "with -D %s=VALUE. A run can set %s", word, word, all);
    near = near ? near : near_setting(word);
    if (near)
        return rt_error("--set: unknown setting '%s'; did you mean '%s'?", word,
                        near);
    return rt_error("--set: unknown setting '%s'. A run can set %s", word, all);
}

static bool apply_setting(RtSettings *s, const char *text,
                          const ParcModel *model)
{
    const char *equals = strchr(text, '=');
    if (!equals || !equals[1])
        return rt_error("--set takes NAME=VALUE, not '%s'", text);
    size_t n = (size_t)(equals - text);
    int i = setting_index(text, n);
    if (i < 0)
        return refuse_name(text, n, model);
    if (!is_read(i, model) && settings[i].at == AT(clip))
        return rt_error("--set %s: the program does not clip gradients: "
                        "compile again with -D %s", text, text);
    if (!is_read(i, model))
        return rt_error("--set %s: the program's schedule has no such setting: "
                        "compile again with another schedule", text);
    char *end;
    double value = strtod(equals + 1, &end);
    if (*end || !store_setting(s, i, value))
        return rt_error("--set %s takes a %s number%s, not '%s'",
                        settings[i].name,
                        settings[i].whole ? "whole" : "finite",
                        settings[i].zero ? " from 0" : " above 0", equals + 1);
    return true;
}

/* The changed settings fit together: the same conditions as in the compiler
 * (check_schedule in frontend/train/lower_train.c). */
static bool check_schedule(const RtSettings *s)
{
    const ParcSchedule *of = &s->schedule;
    if (s->changed && of->kind == PARC_PIECEWISE && of->warmup > of->after[0])
        return rt_error("--set: the learning rate changes after step %lld, during "
                        "the warm-up of schedule.warmup=%lld steps",
                        (long long)of->after[0], (long long)of->warmup);
    if (!s->changed || !decays(of))
        return true;
    if (of->stable && of->decay > 0 && of->steps > 0 &&
        of->warmup + of->decay > of->steps)
        return rt_error("--set: too few steps: schedule.warmup=%lld, "
                        "schedule.decay=%lld, schedule.steps=%lld; "
                        "schedule.steps includes the others",
                        (long long)of->warmup, (long long)of->decay,
                        (long long)of->steps);
    if (of->steps > 0 && of->warmup >= of->steps)
        return rt_error("--set: no steps remain for the decay: "
                        "schedule.warmup=%lld, schedule.steps=%lld; "
                        "schedule.steps includes the warm-up",
                        (long long)of->warmup, (long long)of->steps);
    if (of->min_lr > s->lr)
        return rt_error("--set: the schedule ends at schedule.min_lr=%.9g, "
                        "above optimizer.lr=%.9g; set schedule.min_lr as well",
                        of->min_lr, s->lr);
    return true;
}

bool rt_settings_set(RtSettings *s, const RtTexts *texts,
                     const ParcModel *model)
{
    for (int i = 0; i < texts->n; i++)
        if (!apply_setting(s, texts->at[i], model))
            return false;
    return check_schedule(s);
}

void rt_settings_print_json(const RtSettings *s, FILE *to)
{
    const char *comma = "";
    fprintf(to, "{");
    for (int i = 0; i < SETTINGS; i++)
        if (s->changed >> i & 1) {
            fprintf(to, "%s\"%s\": %.17g", comma, settings[i].name,
                    setting_value(s, i));
            comma = ", ";
        }
    fprintf(to, "}");
}

void rt_settings_print(const RtSettings *s, FILE *to)
{
    for (int i = 0; i < SETTINGS; i++)
        if (s->changed >> i & 1)
            fprintf(to, " %s=%.9g", settings[i].name, setting_value(s, i));
}

void rt_settings_read(RtSettings *s, RtJson *j)
{
    char key[NAME];
    rt_json_object(j);
    while (rt_json_key(j, key, sizeof key)) {
        int i = setting_index(key, strlen(key));
        if (i < 0)
            rt_json_skip(j);
        else if (!store_setting(s, i, rt_json_number(j)))
            rt_json_fail(j, "the setting cannot have this value");
    }
}

/* Steps count from 1. w is the number of warm-up steps and n the schedule's
 * last step:
 *
 *   step t <= w          lr t / w
 *   piecewise            rate[i] of the last i with t > after[i]; without one lr
 *   constant, or t <= f  lr
 *   t >= n               min_lr
 *   else                 min_lr + (lr - min_lr) s, x = (t - f) / (n - f):
 *     linear             s = 1 - x
 *     cosine             s = (1 + cos(pi x)) / 2
 *     sqrt               s = 1 - sqrt(x)
 *
 * f is max(w, 1), or with a stable phase the step before the decay, if that is
 * later. Step f has the rate lr; step n and all later ones have min_lr. Every rank
 * computes the rate in double and gets the same value.
 *
 * Reference of 1 - sqrt: Hägele et al., Scaling laws and compute-optimal training
 * beyond fixed training durations, 2024. */
static double remaining(ParcScheduleKind kind, double x)
{
    const double pi = 3.14159265358979323846;
    return kind == PARC_LINEAR   ? 1 - x
           : kind == PARC_COSINE ? (1 + cos(pi * x)) / 2
                                 : 1 - sqrt(x);
}

/* The last step before a decay that ends at step n. */
static int64_t decay_start(const ParcSchedule *s, int64_t n)
{
    const int64_t part = 10;
    int64_t first = s->warmup > 1 ? s->warmup : 1;
    int64_t decay = s->decay > 0 ? s->decay : (n + part - 1) / part;
    return s->stable && n - decay > first ? n - decay : first;
}

static double piece_rate(const ParcSchedule *s, double lr, int64_t step)
{
    for (int i = 0; i < s->npieces && step > s->after[i]; i++)
        lr = s->rate[i];
    return lr;
}

double rt_schedule_lr(const RtSettings *of, int64_t step, int64_t steps)
{
    const ParcSchedule *s = &of->schedule;
    int64_t n = s->steps > 0 ? s->steps : steps, first = decay_start(s, n);
    double lr = of->lr;
    if (step <= s->warmup)
        return lr * (double)step / (double)s->warmup;
    if (!decays(s))
        return piece_rate(s, lr, step);
    if (step <= first)
        return lr;
    if (step >= n)
        return s->min_lr;
    double x = (double)(step - first) / (double)(n - first);
    return s->min_lr + (lr - s->min_lr) * remaining(s->kind, x);
}

void rt_settings_note_steps(const RtSettings *s, const RtSettings *old,
                            int64_t done, int64_t before, int64_t steps)
{
    const double least = 0.01; /* relative change that is worth a note */
    if (!decays(&s->schedule) || s->schedule.steps > 0 ||
        before == 0 || before == steps || done >= steps)
        return;
    double was = rt_schedule_lr(old, done, before);
    double expected = rt_schedule_lr(old, done + 1, before);
    double planned = rt_schedule_lr(s, done + 1, before);
    double next = rt_schedule_lr(s, done + 1, steps);
    if (fabs(next - planned) > least * planned &&
        fabs(next - expected) > least * expected)
        rt_note("the learning rate goes from %.3g in step %lld to %.3g: the "
                "schedule ends at the last step, which --steps moves from %lld "
                "to %lld; --set schedule.steps=%lld keeps the old schedule, "
                "whose rate is %.3g from step %lld on",
                was, (long long)done, next, (long long)before, (long long)steps,
                (long long)before, s->schedule.min_lr, (long long)before);
}
