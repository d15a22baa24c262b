/* runtime_schedule.c: tests learning rates step by step. */
#include <math.h>

#include "runtime/options/settings.h"
#include "tests/unit/check.h"

#define S(of, warm, last, low)                                        \
    {.kind = PARC_##of, .warmup = warm, .steps = last, .min_lr = low}

static const struct {
    ParcSchedule schedule;
    int64_t run; /* steps of the run */
    int64_t step;
    double lr; /* expected, if the optimizer's is 1 */
} rows[] = {
    {S(CONSTANT, 0, 0, 0), 10, 1, 1},
    {S(CONSTANT, 0, 0, 0), 10, 1000, 1},
    {S(CONSTANT, 4, 0, 0), 10, 1, 0.25},
    {S(CONSTANT, 4, 0, 0), 10, 4, 1},
    {S(CONSTANT, 4, 0, 0), 10, 5, 1},
    /* linear from step 1 to step 11 */
    {S(LINEAR, 0, 11, 0.5), 99, 1, 1},
    {S(LINEAR, 0, 11, 0.5), 99, 2, 0.95},
    {S(LINEAR, 0, 11, 0.5), 99, 11, 0.5},
    {S(LINEAR, 0, 11, 0.5), 99, 12, 0.5},
    {S(LINEAR, 1, 11, 0.5), 99, 2, 0.95},
    {S(LINEAR, 5, 15, 0), 99, 2, 0.4},
    {S(LINEAR, 5, 15, 0), 99, 5, 1},
    {S(LINEAR, 5, 15, 0), 99, 10, 0.5},
    /* half a cosine from step 10 to step 16 */
    {S(COSINE, 10, 16, 0.2), 99, 9, 0.9},
    {S(COSINE, 10, 16, 0.2), 99, 10, 1},
    {S(COSINE, 10, 16, 0.2), 99, 12, 0.8}, /* cos 60 degrees */
    {S(COSINE, 10, 16, 0.2), 99, 13, 0.6},
    {S(COSINE, 10, 16, 0.2), 99, 14, 0.4},
    {S(COSINE, 10, 16, 0.2), 99, 16, 0.2},
    {S(COSINE, 10, 16, 0.2), 99, 98, 0.2},
    /* the length of the run as the schedule's; too few steps */
    {S(COSINE, 0, 0, 0), 9, 5, 0.5},
    {S(COSINE, 0, 0, 0), 9, 9, 0},
    {S(COSINE, 0, 0, 0), 1, 1, 1},
    {S(LINEAR, 8, 0, 0), 4, 4, 0.5},
};
enum { ROWS = sizeof rows / sizeof *rows };

/* The rate of wsd, from its formula: warm-up, stable phase, decay. */
static double wsd(ParcScheduleKind shape, int64_t t, int64_t warmup, int64_t decay,
                  int64_t n, double low)
{
    double x = (double)(t - (n - decay)) / (double)decay;
    double left = shape == PARC_SQRT     ? 1 - pow(x, 0.5)
                  : shape == PARC_COSINE ? pow(cos(acos(-1) * x / 2), 2)
                                         : 1 - x;
    return t < warmup      ? (double)t / (double)warmup
           : t <= n - decay ? 1
           : t >= n         ? low
                            : low * (1 - left) + left;
}

static void check_wsd(Check *c)
{
    static const ParcScheduleKind shape[] = {PARC_LINEAR, PARC_SQRT, PARC_COSINE};
    static const struct {
        int64_t warmup, decay, steps, run, as; /* `as`: the decay in effect */
    } row[] = {{10, 30, 100, 50, 30}, {0, 0, 0, 61, 7},  {5, 0, 40, 40, 4},
               {20, 80, 100, 9, 80},  {5, 50, 0, 20, 15}, {1, 20, 20, 9, 19},
               {0, 50, 20, 9, 19}};
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        for (int k = 0; k < 3; k++) {
            RtSettings s = {.lr = 1,
                            .schedule = {.kind = shape[k],
                                         .warmup = row[i].warmup,
                                         .steps = row[i].steps,
                                         .min_lr = 0.125,
                                         .stable = true,
                                         .decay = row[i].decay}};
            int64_t n = row[i].steps ? row[i].steps : row[i].run;
            for (int64_t t = 1; t <= n + 3; t++)
                CHECK(c, fabs(rt_schedule_lr(&s, t, row[i].run) -
                              wsd(shape[k], t, row[i].warmup, row[i].as, n,
                                  0.125)) <= 1e-14);
        }
}

static void check_pieces(Check *c)
{
    const int64_t after[] = {6, 7, 20};
    const double rate[] = {0.5, 3, 0.25};
    RtSettings s = {.lr = 2,
                    .schedule = {.kind = PARC_PIECEWISE, .warmup = 4,
                                 .npieces = 3, .after = after, .rate = rate}};
    for (int64_t t = 1; t < 40; t++) {
        double want = t < 4     ? 0.5 * (double)t
                      : t <= 6  ? 2
                      : t == 7  ? 0.5
                      : t <= 20 ? 3
                                : 0.25;
        CHECK(c, fabs(rt_schedule_lr(&s, t, 10) - want) <= 1e-15);
    }
}

int main(void)
{
    Check c = {0};
    for (int i = 0; i < ROWS; i++) {
        RtSettings s = {.lr = 1, .schedule = rows[i].schedule};
        double lr = rt_schedule_lr(&s, rows[i].step, rows[i].run);
        if (fabs(lr - rows[i].lr) > 1e-15)
            printf("row %d: %.17g, should be %.17g\n", i, lr, rows[i].lr);
        CHECK(&c, fabs(lr - rows[i].lr) <= 1e-15);
    }
    check_wsd(&c);
    check_pieces(&c);
    return check_end(&c);
}
