/* options/schedule.c: computes the learning rate of each step.
 *
 * Steps count from 1. w is the number of warm-up steps and n the schedule's
 * last step:
 *
 *   step t <= w          lr t / w
 *   constant, or t = 1   lr
 *   t >= n               min_lr
 *   else                 x = (t - f) / (n - f), f = max(w, 1):
 *     linear             lr + (min_lr - lr) x
 *     cosine             min_lr + (lr - min_lr) (1 + cos(pi x)) / 2
 *
 * Step f has the rate lr; step n and all later ones have min_lr. Every rank
 * computes the rate in double and gets the same value.
 */
#include <math.h>

#include "options/settings.h"

double rt_schedule_lr(const RtSettings *settings, int64_t step, int64_t steps)
{
    const double pi = 3.14159265358979323846;
    const ParcSchedule *s = &settings->schedule;
    int64_t n = s->steps > 0 ? s->steps : steps;
    int64_t first = s->warmup > 1 ? s->warmup : 1;
    double lr = settings->lr;
    if (step <= s->warmup)
        return lr * (double)step / (double)s->warmup;
    if (s->kind == PARC_CONSTANT || step <= first)
        return lr;
    if (step >= n)
        return s->min_lr;
    double x = (double)(step - first) / (double)(n - first);
    double share = s->kind == PARC_LINEAR ? 1 - x : (1 + cos(pi * x)) / 2;
    return s->min_lr + (lr - s->min_lr) * share;
}
