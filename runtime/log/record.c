/* record.c: lists the fields of the record of a step, in the order of the log.
 */
#include <stddef.h>

#include "log/report.h"

#define AT(name) offsetof(RtRecord, name)
const RtField rt_fields[] = {
    {"step", AT(step), true, false, false},
    {"loss", AT(loss), false, false, true},
    {"val_loss", AT(val_loss), false, true, true},
    {"grad_norm", AT(grad_norm), false, false, true},
    {"lr", AT(lr), false, false, true},
    {"loss_scale", AT(loss_scale), false, true, true},
    {"tokens", AT(tokens), true, false, false},
    {"tokens_per_s", AT(tokens_per_s), false, false, true},
    {"step_ms", AT(step_ms), false, false, true},
    {"mfu", AT(mfu), false, false, true},
    {"hfu", AT(hfu), false, false, true},
    {"host_bytes", AT(host_bytes), true, true, true},
    {"peak_bytes", AT(peak_bytes), true, false, true},
    {NULL, 0, false, false, false},
};

double rt_field_value(const RtField *f, const RtRecord *r)
{
    const char *at = (const char *)r + f->at;
    return f->whole ? (double)*(const int64_t *)(const void *)at
                    : *(const double *)(const void *)at;
}
