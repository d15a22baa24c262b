/* run/loss_scale.c: adapts the scale of the loss.
 *
 * Small gradients underflow in 16 bits. The loss is therefore multiplied by a
 * scale, and the step divides the gradients by it in f32. If a gradient
 * overflows, the norm is not finite: the step changes no parameter, and the
 * scale is halved. After 2000 steps without an overflow it is doubled, as in
 * torch.cuda.amp.GradScaler.
 */
#include <float.h>
#include <math.h>

#include "launch/world.h"
#include "rt.h"
#include "run/nonfinite.h"

enum { GROWTH_INTERVAL = 2000, PATIENCE = 64 };

void rt_scale_start(ParcRt *rt)
{
    rt->scale = (RtScale){.scale = rt->model->loss_scale};
}

bool rt_scale_step(ParcRt *rt, int64_t step, double norm)
{
    RtScale *s = &rt->scale;
    if (isfinite(norm)) {
        s->bad = 0;
        if (++s->good == GROWTH_INTERVAL) {
            s->good = 0;
            s->scale = s->scale * 2 < FLT_MAX ? s->scale * 2 : s->scale;
        }
        return true;
    }
    s->good = 0;
    s->scale /= 2;
    if (++s->bad == PATIENCE)
        rt_fail(rt,
                "step %lld: the gradients of %d steps in a row were not "
                "finite, down to a loss scale of %g; try a lower learning rate "
                "or precision=bf16",
                (long long)step, PATIENCE, s->scale * 2);
    return false;
}
