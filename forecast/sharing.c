/* sharing.c: how fast statements are that run at one time; see sharing.h. */
#include "forecast/sharing.h"

#include <math.h>

/* The multiprocessors that other streams keep. */
static double blocks_of_others(const Clockwork *c, int stream)
{
    double blocks = 0;
    for (int k = 0; k < c->nstreams; k++)
        if (k != stream && c->stream[k].runs >= 0)
            blocks += c->work[c->stream[k].runs].blocks;
    return blocks;
}

/* The part of resource r that streams use, at their speeds if `fixed`. */
static double used(const Clockwork *c, Resource r, const bool *fixed, bool of_fixed)
{
    double sum = 0;
    for (int k = 0; k < c->nstreams; k++)
        if (c->stream[k].runs >= 0 && fixed[k] == of_fixed)
            sum += c->work[c->stream[k].runs].use[r] * c->stream[k].speed;
    return sum;
}

/* The resource that is used up first if the speeds that are not fixed rise together, and
 * at which part of them; -1: none before all are reached. */
static int first_used_up(const Clockwork *c, const bool *fixed, double *part)
{
    int first = -1;
    *part = 1;
    for (int r = 0; r < RESOURCES; r++) {
        double rest = 1 - used(c, r, fixed, true), more = used(c, r, fixed, false);
        double at = more > 0 ? (rest > 0 ? rest / more : 0) : 1;
        if (at < *part) {
            *part = at;
            first = r;
        }
    }
    return first;
}

/* A resource that is used up leaves something, so that every statement ends. */
static const double LEAST_PART = 1e-6;

void share_device(Clockwork *c)
{
    bool fixed[STREAMS] = {0};
    for (int k = 0; k < c->nstreams; k++) {
        Stream *s = &c->stream[k];
        if (s->runs >= 0)
            s->speed = 1 / work_slowdown(c->p, c->machine, &c->work[s->runs],
                                         blocks_of_others(c, k));
    }
    double part;
    for (int r; (r = first_used_up(c, fixed, &part)) >= 0;)
        for (int k = 0; k < c->nstreams; k++)
            if (c->stream[k].runs >= 0 && !fixed[k] &&
                c->work[c->stream[k].runs].use[r] > 0) {
                c->stream[k].speed *= fmax(part, LEAST_PART);
                fixed[k] = true;
            }
}
