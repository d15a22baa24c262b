/* state.c: writes and reads the state of a run that is not in its tensors.
 *
 *   {"step": 1000, "tokens": 8192000, "updates": 998, "seed": 7,
 *    "steps": 5000, "shuffle": true, "loss_scale": {"scale": 32768, "good": 12,
 * "bad": 0}, "settings": {"optimizer.lr": 0.0001}, "data": {"spec":
 * "tokens.bin", …}}
 *
 * `updates` counts the steps that changed parameters: with a loss scale, some
 * steps are skipped. `steps` is the option of the run that saved; a schedule
 * without steps of its own ends there. Random numbers of a step depend on seed
 * and step only, and the learning rate on the step, so that nothing else
 * decides the next step.
 */
#include "checkpoint/resume.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/save.h"
#include "common/json.h"
#include "options/options.h"
#include "options/settings.h"
#include "rt.h"
#include "run.h"

static void print_state(const ParcRt *rt, const RtRun *run, int64_t step,
                        FILE *to)
{
    const RtOptions *o = &run->options;
    const RtScale *s = &rt->scale;
    fprintf(to,
            "{\"step\": %lld, \"tokens\": %lld, \"updates\": %lld, "
            "\"seed\": %lld, \"steps\": %lld, \"shuffle\": %s, ",
            (long long)step, (long long)rt_report_tokens(&run->report, step),
            (long long)rt->updates, (long long)o->seed, (long long)o->steps,
            o->shuffle ? "true" : "false");
    if (s->scale > 0)
        fprintf(to, "\"loss_scale\": {\"scale\": %.17g, \"good\": %lld, "
                    "\"bad\": %lld}, ",
                s->scale, (long long)s->good, (long long)s->bad);
    fprintf(to, "\"settings\": ");
    rt_settings_print_json(&run->settings, to);
    fprintf(to, ", \"data\": ");
    rt_data_print(&run->data, run->model, step, to);
    fprintf(to, "}");
}

char *rt_state_text(const ParcRt *rt, const RtRun *run, int64_t step)
{
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);
    if (f) {
        print_state(rt, run, step, f);
        bool failed = ferror(f) != 0;
        if (fclose(f) == 0 && !failed)
            return text;
    }
    free(text);
    return NULL;
}

static void read_scale(RtScale *s, RtJson *j)
{
    char key[RT_JSON_KEY];
    rt_json_object(j);
    while (rt_json_key(j, key, sizeof key))
        if (strcmp(key, "scale") == 0)
            s->scale = rt_json_number(j);
        else if (strcmp(key, "good") == 0)
            s->good = rt_json_integer(j);
        else if (strcmp(key, "bad") == 0)
            s->bad = rt_json_integer(j);
        else
            rt_json_skip(j);
    if (!(s->scale > 0 && s->scale <= 0x1p127))
        rt_json_fail(j, "the loss scale is not a positive number");
}

void rt_state_read(RtRunState *s, RtJson *j)
{
    static const char *const names[] = {"step", "tokens", "updates", "seed"};
    int64_t *const value[] = {&s->step, &s->tokens, &s->updates, &s->seed};
    enum { NUMBERS = 4, ALL = (1 << NUMBERS) - 1 };
    unsigned seen = 0;
    char key[RT_JSON_KEY];
    rt_json_object(j);
    while (rt_json_key(j, key, sizeof key)) {
        int i = 0;
        while (i < NUMBERS && strcmp(key, names[i]) != 0)
            i++;
        seen |= i < NUMBERS ? 1u << i : 0;
        if (i < NUMBERS)
            *value[i] = rt_json_signed(j);
        else if (strcmp(key, "steps") == 0)
            s->steps = rt_json_integer(j);
        else if (strcmp(key, "shuffle") == 0)
            s->shuffle = rt_json_boolean(j);
        else if (strcmp(key, "loss_scale") == 0)
            read_scale(&s->scale, j);
        else if (strcmp(key, "settings") == 0)
            rt_settings_read(&s->settings, j);
        else if (strcmp(key, "data") == 0)
            rt_data_read(&s->data, j);
        else
            rt_json_skip(j);
    }
    if (seen != ALL || s->step < 0 || s->tokens < 0 || s->updates < 0 ||
        s->updates > s->step)
        rt_json_fail(j, "the state needs step, tokens, updates and seed");
}

void rt_state_free(RtRunState *s)
{
    rt_data_state_free(&s->data);
}
