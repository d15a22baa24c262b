/* runtime_schedule.c: tests learning rates step by step. */
#include <math.h>

#include "runtime/options/settings.h"
#include "tests/unit/check.h"

static const struct {
    ParcSchedule schedule;
    int64_t run; /* steps of the run */
    int64_t step;
    double lr; /* expected, if the optimizer's is 1 */
} rows[] = {
    {{PARC_CONSTANT, 0, 0, 0}, 10, 1, 1},
    {{PARC_CONSTANT, 0, 0, 0}, 10, 1000, 1},
    {{PARC_CONSTANT, 4, 0, 0}, 10, 1, 0.25},
    {{PARC_CONSTANT, 4, 0, 0}, 10, 4, 1},
    {{PARC_CONSTANT, 4, 0, 0}, 10, 5, 1},
    /* linear from step 1 to step 11 */
    {{PARC_LINEAR, 0, 11, 0.5}, 99, 1, 1},
    {{PARC_LINEAR, 0, 11, 0.5}, 99, 2, 0.95},
    {{PARC_LINEAR, 0, 11, 0.5}, 99, 11, 0.5},
    {{PARC_LINEAR, 0, 11, 0.5}, 99, 12, 0.5},
    {{PARC_LINEAR, 1, 11, 0.5}, 99, 2, 0.95},
    {{PARC_LINEAR, 5, 15, 0}, 99, 2, 0.4},
    {{PARC_LINEAR, 5, 15, 0}, 99, 5, 1},
    {{PARC_LINEAR, 5, 15, 0}, 99, 10, 0.5},
    /* half a cosine from step 10 to step 16 */
    {{PARC_COSINE, 10, 16, 0.2}, 99, 9, 0.9},
    {{PARC_COSINE, 10, 16, 0.2}, 99, 10, 1},
    {{PARC_COSINE, 10, 16, 0.2}, 99, 12, 0.8}, /* cos 60 degrees */
    {{PARC_COSINE, 10, 16, 0.2}, 99, 13, 0.6},
    {{PARC_COSINE, 10, 16, 0.2}, 99, 14, 0.4},
    {{PARC_COSINE, 10, 16, 0.2}, 99, 16, 0.2},
    {{PARC_COSINE, 10, 16, 0.2}, 99, 98, 0.2},
    /* the length of the run as the schedule's; too few steps */
    {{PARC_COSINE, 0, 0, 0}, 9, 5, 0.5},
    {{PARC_COSINE, 0, 0, 0}, 9, 9, 0},
    {{PARC_COSINE, 0, 0, 0}, 1, 1, 1},
    {{PARC_LINEAR, 8, 0, 0}, 4, 4, 0.5},
};
enum { ROWS = sizeof rows / sizeof *rows };

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
    return check_end(&c);
}
