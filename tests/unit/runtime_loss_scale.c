/* runtime_loss_scale.c: tests how the loss scale changes. */
#include <float.h>
#include <math.h>

#include "runtime/rt.h"
#include "runtime/run.h"
#include "tests/unit/check.h"

static ParcRt start(ParcModel *m, double scale)
{
    *m = (ParcModel){.loss_scale = scale};
    ParcRt rt = {.model = m};
    rt_scale_start(&rt);
    return rt;
}

/* n steps with this norm; returns how many were not skipped. */
static int steps(ParcRt *rt, int n, double norm)
{
    int good = 0;
    for (int i = 0; i < n; i++)
        good += rt_scale_step(rt, 1, norm);
    return good;
}

static void check_growth(Check *c)
{
    ParcModel m;
    ParcRt rt = start(&m, 8);
    CHECK(c, steps(&rt, 1999, 1.0) == 1999 && rt.scale.scale == 8);
    CHECK(c, steps(&rt, 1, 1.0) == 1 && rt.scale.scale == 16);
    CHECK(c, steps(&rt, 2000, 0.0) == 2000 && rt.scale.scale == 32);
}

static void check_backoff(Check *c)
{
    ParcModel m;
    ParcRt rt = start(&m, 8);
    CHECK(c, steps(&rt, 1, (double)NAN) == 0 && rt.scale.scale == 4);
    CHECK(c, steps(&rt, 1, (double)INFINITY) == 0 && rt.scale.scale == 2);
    /* A skipped step restarts the count. */
    CHECK(c, steps(&rt, 1999, 1.0) == 1999);
    CHECK(c, steps(&rt, 1, (double)NAN) == 0 && rt.scale.scale == 1);
    CHECK(c, steps(&rt, 1999, 1.0) == 1999 && rt.scale.scale == 1);
    CHECK(c, steps(&rt, 1, 1.0) == 1 && rt.scale.scale == 2);
    /* Many skips in a row are accepted after a good step. */
    for (int i = 0; i < 3; i++)
        CHECK(c, steps(&rt, 63, (double)NAN) == 0 && steps(&rt, 1, 1.0) == 1);
}

static void check_limit(Check *c)
{
    ParcModel m;
    ParcRt rt = start(&m, 0x1p127);
    CHECK(c, steps(&rt, 4000, 1.0) == 4000);
    CHECK(c, rt.scale.scale == 0x1p127);
}

int main(void)
{
    Check c = {0};
    check_growth(&c);
    check_backoff(&c);
    check_limit(&c);
    return check_end(&c);
}
