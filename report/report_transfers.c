/* report_transfers.c: prints the plan's section on host memory: the copies
 * between host memory and the device.
 *
 *   From and to host memory (copies per step x bytes per copy, …)
 *    forward
 *     ft0   to device    32 x 4.00 MiB    layers.*.wq.weight.bf16
 */
#include "report/report.h"

void report_transfers(Out *o, const Program *p)
{
    int n;
    const TransferInfo *x = transfers_of(p, &n);
    if (!n)
        return;
    out_line(o, "");
    out_line(o, "From and to host memory (copies per step x bytes per copy, on each "
             "rank)  (%s)",
             diag_where(p->diag, p->arena, p->plan.offload_loc));
    for (int i = 0; i < n; i++) {
        if (!i || x[i].op->phase != x[i - 1].op->phase)
            out_line(o, " %s", phase_name(x[i].op->phase));
        out_line(o, "  %-5s %-10s %4lld x %-11s %s", x[i].label,
                 x[i].to_host ? "to host" : "to device",
                 (long long)x[i].count, bytes_text(p->arena, x[i].bytes),
                 x[i].param->name);
    }
}
