/* calibrate.h: makes a machine file of the trace of a run (./train --trace).
 *
 *   q_proj_out   matmul   33554432 flops    595 us     peak.f32: 56.4 Gflop/s, over all
 *   k02_norm     kernel     526336 bytes     38 us     hbm.row: 13.9 GB/s, over all …
 *
 * The trace has the time of every statement, under the id that it has in the plan. Each
 * constant follows from the statements of its class: rates are sums of flops or bytes
 * divided by sums of times, so that large statements count for more. A statement's time is
 * the mean CPU time of its calls; that of a collective the time of the rank that waits
 * least for the others. How long these wait, or any rank for a processor, is the part of
 * the straggler.
 */
#ifndef PARC_FORECAST_CALIBRATE_H
#define PARC_FORECAST_CALIBRATE_H

#include "base/out.h"
#include "forecast/duration.h"

/* Appends a machine file for CPU ranks with the name. `trace`: the text of the trace of a
 * run of p; `source`, `date`: what each constant says of its source. NULL, or what is
 * wrong. */
const char *calibrate(Out *o, const Program *p, const char *name, const char *trace,
                      size_t size, const char *source, const char *date);

#endif
