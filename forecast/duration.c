/* duration.c: the time of a statement on an idle machine; see duration.h. */
#include "ir/analysis/attention.h"
#include "forecast/duration.h"

#include <math.h>
#include <string.h>

#include "codegen/attention_call.h"
#include "codegen/cuda/cuda_kernel.h"
#include "forecast/rates.h"
#include "ir/analysis/copy_engine.h"
#include "runtime/cuda/core/rt_collective_blocks.h"
#include "runtime/cuda/core/rt_experts_plan.h"

const char *const work_class_name[WORK_CLASSES] = {
    "matmul", "attention", "kernel", "lookup", "copy", "collective", "transfer", "send"};

static double memory_rate(const Machine *m)
{
    return machine_value(m, hbm_rate) * machine_value(m, hbm_streaming);
}

/* ---- matmuls ------------------------------------------------------------- */

/* Parts of k, whose sums a second kernel adds. */
static const int split_of_k[] = {1, 2, 4, 8};

static double tiles_seconds(const Machine *m, const MachineTile *t, double batch,
                            double rows, double columns, double k, int parts,
                            double peak, double sms)
{
    double tiles = batch * ceil(rows / (double)t->m) * ceil(columns / (double)t->n);
    double waves = ceil(tiles * parts / sms);
    double rate = peak * machine_value(m, matmul_sustained) * t->rate.value /
                  machine_value(m, device_sms);
    double flops = 2 * (double)t->m * (double)t->n * k / parts;
    double seconds = waves * (flops / rate + machine_value(m, matmul_wave));
    if (parts > 1) /* f32 sums are written and read */
        seconds += 8 * batch * rows * columns * parts / memory_rate(m);
    return seconds;
}

double matmul_seconds(const Machine *m, int64_t batch, int64_t rows, int64_t columns,
                      int64_t k, int operand_bytes, int result_bytes, double sms)
{
    double b = (double)batch, r = (double)rows, c = (double)columns, d = (double)k;
    double bytes = b * ((r * d + d * c) * operand_bytes + r * c * result_bytes);
    double peak = operand_bytes == 2 ? machine_value(m, peak_bf16)
                                     : machine_value(m, peak_f32);
    double least = INFINITY;
    for (int i = 0; i < m->tile.n; i++)
        for (size_t s = 0; s < sizeof split_of_k / sizeof *split_of_k; s++) {
            double t = tiles_seconds(m, &m->tile.at[i], b, r, c, d, split_of_k[s], peak,
                                     sms);
            least = t < least ? t : least;
        }
    double moved = bytes / memory_rate(m);
    return machine_value(m, matmul_start) + (moved > least ? moved : least);
}

double grouped_seconds(const Machine *m, const ParcGrouped *s, int64_t bytes, double sms)
{
    bool gradient = s->computes == PARC_GROUPED_WEIGHT, half = s->type != PARC_F32;
    double tile = rt_grouped_rows(s), experts = (double)(s->x * s->experts);
    double mean = (double)s->used / (double)s->experts;
    double rows = gradient ? (double)s->f : mean;
    int64_t columns = s->computes == PARC_GROUPED_Y ? s->f : s->d;
    double k = gradient                        ? (double)s->groups * mean
               : s->computes == PARC_GROUPED_Y ? (double)s->d
                                               : (double)s->f;
    double across = ceil((double)columns / GROUPED_COLUMNS);
    double tiles = experts * across *
                   (gradient ? ceil(rows / tile) : (double)s->groups * (rows / tile + 0.5));
    double peak = half ? machine_value(m, peak_bf16) * machine_value(m, matmul_mma)
                       : machine_value(m, peak_f32);
    double rate = peak * machine_value(m, matmul_sustained) / machine_value(m, device_sms);
    double flops = 2 * tile * GROUPED_COLUMNS * k;
    double seconds = ceil(tiles / sms) * (flops / rate + machine_value(m, matmul_wave));
    return machine_value(m, matmul_start) + fmax((double)bytes / memory_rate(m), seconds);
}

static double matmul_work_seconds(const Program *p, const Machine *m, const Statement *s,
                                  double sms, double *spread)
{
    double rate = product_rate(m, dtype_size(s->type[0]) > 2, s->batch, s->m, s->n, s->k,
                               spread);
    if (rate > 0)
        return s->flops / rate;
    if (op_is_grouped_matmul(s->op->kind) && !machine_is_cpu(m)) {
        *spread = machine_spread(m, matmul_mma);
        ParcGrouped call = grouped_call(p, s->op);
        return grouped_seconds(m, &call, s->bytes, sms);
    }
    *spread = machine_spread(m, matmul_sustained);
    return (double)s->calls * matmul_seconds(m, s->batch, s->m, s->n, s->k,
                                             (int)dtype_size(s->type[0]),
                                             (int)dtype_size(s->type[2]), sms);
}

/* ---- attention ----------------------------------------------------------- */

int64_t attention_keys(const ParcAttention *a)
{
    int64_t band = a->window * (a->causal ? 1 : 2);
    return a->window > 0 && band < a->t ? band : a->t;
}

/* How far what was measured is from the attention. */
static double attention_distance(const MachineAttention *row, const ParcAttention *a)
{
    enum { OTHER_TYPE = 100, OTHER_DROPOUT = 10 };
    bool type = (a->type == PARC_F32) == (row->type && strcmp(row->type, "f32") == 0);
    bool dropout = (a->drop > 0) == (row->dropout != NULL);
    double keys = row->keys ? fabs(log((double)row->keys / (double)attention_keys(a))) : 0;
    return fabs(log((double)row->head / (double)a->d)) + keys +
           (type ? 0 : OTHER_TYPE) + (dropout ? 0 : OTHER_DROPOUT);
}

/* The row of the machine for heads of this size, or of the nearest; of this type, if the
 * machine has one. */
static const MachineAttention *attention_row(const Machine *m, const ParcAttention *a,
                                             const char *pass)
{
    const MachineAttention *best = NULL;
    double least = INFINITY;
    for (int i = 0; i < m->attention.n; i++) {
        const MachineAttention *row = &m->attention.at[i];
        double far = attention_distance(row, a);
        if (strcmp(row->pass, pass) == 0 && far < least) {
            least = far;
            best = row;
        }
    }
    return best ? best : m->attention.at;
}

enum { QUERY_TILE = 128 };

/* The pairs of queries and keys in tiles that the mask leaves, relative to those that
 * the statement counts. A causal mask leaves n (n + 1) / 2 of n x n tiles, and counts
 * n x n / 2 of them. A window has a tile more on each of its two borders, half used. */
static double pairs_in_tiles(const ParcAttention *a)
{
    double tiles = ceil((double)a->s / QUERY_TILE);
    double keys = (double)a->window * (a->causal ? 1 : 2);
    if (a->window > 0)
        return (keys + QUERY_TILE) / keys;
    return a->causal && a->s == a->t ? (tiles + 1) / tiles : 1;
}

double attention_flops(const Program *p, const Statement *s)
{
    ParcAttention a = attention_call(p, s->op);
    return s->flops * pairs_in_tiles(&a);
}

static double attention_seconds(const Program *p, const Machine *m, const Statement *s,
                                double *spread)
{
    ParcAttention a = attention_call(p, s->op);
    bool backward = attention_is_backward(s->op->kind);
    const MachineAttention *row =
        attention_row(m, &a, backward ? "backward" : "forward");
    double tiles = (double)(a.b * a.kv * a.g) * ceil((double)a.s / QUERY_TILE);
    double rate = row->rate.value;
    *spread = row->rate.spread;
    if (a.type == PARC_F32 && !row->type) /* without tensor cores */
        rate *= machine_value(m, peak_f32) / machine_value(m, peak_bf16);
    return machine_value(m, hbm_start) + tiles * row->per_tile.value +
           attention_flops(p, s) / rate;
}

/* ---- bytes --------------------------------------------------------------- */

KernelForm kernel_form(const Program *p, const Op *fused, bool cpu)
{
    if (!cpu) {
        const CudaPlan *c = cuda_plan(p, fused);
        return c->form == CUDA_TILES || cuda_column_totals(c) > 0 ? FORM_COLUMNS
               : c->form == CUDA_ROWS && c->nphases > 1           ? FORM_ROWS
                                                                  : FORM_STREAMING;
    }
    const Kernel *k = kernel_build(p, fused);
    for (int i = 0; i < k->ntotals; i++)
        if (k->total[i].columns)
            return FORM_COLUMNS;
    return k->nphases > 1 ? FORM_ROWS : FORM_STREAMING;
}

const char *const kernel_form_name[KERNEL_FORMS] = {"streaming", "row", "column"};

/* The part of the memory's bandwidth that a kernel of this form reaches. */
static const Constant *part_of_rate(const Machine *m, KernelForm form)
{
    return &m->constant[form == FORM_COLUMNS ? MACHINE_hbm_column
                        : form == FORM_ROWS  ? MACHINE_hbm_row
                                             : MACHINE_hbm_streaming];
}

double kernel_functions(const Program *p, const Op *fused)
{
    const Kernel *k = kernel_build(p, fused);
    uint32_t columns = k->space.column;
    double n = 0;
    for (int i = 0; i < k->ninstrs; i++) {
        OpKind op = k->instr[i].op;
        bool function = op == OP_exp || op == OP_log || op == OP_tanh || op == OP_sigmoid ||
                        op == OP_erf || op == OP_gelu || op == OP_gelu_grad ||
                        op == OP_sin || op == OP_cos;
        if (k->instr[i].code == KERNEL_OP && function && (k->instr[i].axes & columns))
            n += (double)k->work;
    }
    return n;
}

double kernel_randoms(const Program *p, const Op *fused)
{
    const Kernel *k = kernel_build(p, fused);
    double n = 0;
    for (int i = 0; i < k->ninstrs; i++)
        if (k->instr[i].code == KERNEL_RANDOM)
            n += (double)k->work;
    return n;
}

static double bytes_seconds(const Machine *m, double bytes, double part)
{
    return machine_value(m, hbm_start) + bytes / (machine_value(m, hbm_rate) * part);
}

/* On a CPU: also what it computes. */
static double cpu_kernel_seconds(const Program *p, const Machine *m, const Statement *s,
                                 double *spread)
{
    KernelForm form = kernel_form(p, s->op, true);
    double bytes = (double)s->bytes;
    double rate = kernel_rate(m, kernel_form_name[form], bytes, spread);
    if (rate == 0) {
        rate = machine_value(m, hbm_rate) * part_of_rate(m, form)->value;
        *spread = part_of_rate(m, form)->spread;
    }
    return bytes / rate + kernel_functions(p, s->op) * machine_value(m, hbm_function) +
           kernel_randoms(p, s->op) * machine_value(m, hbm_random);
}

static double kernel_seconds(const Program *p, const Machine *m, const Statement *s,
                             double *bytes, double *spread)
{
    if (machine_is_cpu(m))
        return cpu_kernel_seconds(p, m, s, spread);
    const Constant *part = part_of_rate(m, kernel_form(p, s->op, false));
    CudaCost cost = cuda_cost(cuda_plan(p, s->op));
    *bytes = (double)(cost.read + cost.written);
    *spread = part->spread;
    return (cost.sums ? machine_value(m, hbm_start) : 0) +
           bytes_seconds(m, *bytes, part->value);
}

/* ---- collectives --------------------------------------------------------- */

/* The ranks of a group that are on one node; the last node may have fewer. */
static int64_t ranks_on_node(const Program *p, const Machine *m, uint32_t axes)
{
    int64_t node = machine_node(m, &p->mesh), here = 1;
    for (int a = 0; a < p->mesh.n; a++) {
        if (!(axes >> a & 1))
            continue;
        int64_t inside = node / mesh_stride(&p->mesh, a);
        here *= inside < 1 ? 1 : inside < p->mesh.size[a] ? inside : p->mesh.size[a];
    }
    return here;
}

static const MachineCollective *collective_row(const Machine *m, const char *kind,
                                               int64_t nodes, int64_t ranks)
{
    for (int i = 0; i < m->collective.n; i++) {
        const MachineCollective *c = &m->collective.at[i];
        if (strcmp(c->kind, kind) == 0 && c->nodes == nodes && c->ranks == ranks)
            return c;
    }
    return NULL;
}

/* The rate of a rank's transfers; of CPU ranks, which share memory, that of copies. */
static double link_rate(const Machine *m, bool between)
{
    return machine_is_cpu(m) ? memory_rate(m)
           : between         ? machine_value(m, node_nic)
                             : machine_value(m, node_link);
}

/* A ring through all ranks, `ranks` of them on each of `nodes` nodes: it leaves a
 * node on as many NICs as the group has ranks there. */
static double ring_seconds(const Machine *m, const char *kind, int64_t nodes,
                           int64_t ranks, double bytes)
{
    double all = (double)(nodes * ranks), rounds = strcmp(kind, "all_reduce") == 0 ? 2 : 1;
    double link = link_rate(m, false), nic = link_rate(m, true) * (double)ranks;
    double rate = nodes == 1 || nic > link ? link : nic;
    double between = (double)(nodes - 1), inside = all - 1 - between;
    double start = machine_value(m, node_base) +
                   rounds * (inside * machine_value(m, node_hop) +
                             between * machine_value(m, node_nic_hop));
    return start + rounds * (all - 1) / all * bytes / rate;
}

double send_seconds(const Machine *m, int64_t bytes, bool between)
{
    double hop = between ? machine_value(m, node_nic_hop) : machine_value(m, node_hop);
    return machine_value(m, node_base) + hop + (double)bytes / link_rate(m, between);
}

/* An all-to-all of `all` ranks: a rank sends an equal part of its bytes to each. Those for
 * other nodes leave on its own NIC, beside those of its node. NCCL begins with the ranks of
 * one node after another. */
static double exchange_seconds(const Machine *m, int64_t nodes, double inside, double between)
{
    double hops = nodes > 1 ? (double)(nodes - 1) * machine_value(m, node_nic_hop)
                            : machine_value(m, node_hop);
    return machine_value(m, node_base) + hops +
           fmax(inside / link_rate(m, false), between / link_rate(m, true));
}

static void collective_work(const Program *p, const Machine *m, const CollectiveInfo *c,
                            Work *w)
{
    int64_t ranks = ranks_on_node(p, m, c->axes);
    int64_t nodes = (c->group_size + ranks - 1) / ranks;
    double bytes = (double)c->bytes;
    bool shift = c->op->kind == OP_shift; /* each rank sends to one */
    bool exchange = c->op->kind == OP_all_to_all;
    double each = bytes / (double)c->group_size;
    double received = shift ? bytes : bytes - each;
    /* A ring leaves the node on the NICs of all its ranks. */
    double inside = exchange ? each * (double)(ranks - 1) : received;
    double between = exchange ? each * (double)(c->group_size - ranks)
                              : received / (double)ranks;
    const MachineCollective *row = collective_row(m, c->kind, nodes, ranks);
    if (row) {
        w->seconds = row->start.value + row->fill.value * sqrt(bytes) +
                     bytes / row->rate.value;
        w->blocks = row->blocks.value;
        w->spread = row->rate.spread;
    } else {
        w->seconds = shift      ? send_seconds(m, c->bytes, nodes > 1)
                     : exchange ? exchange_seconds(m, nodes, inside, between)
                                : ring_seconds(m, c->kind, nodes, ranks, bytes);
        w->blocks = machine_value(m, node_blocks);
        w->spread = nodes > 1 ? machine_spread(m, node_nic) : machine_spread(m, node_link);
    }
    if (nodes == 1 && op_uses_copy_engines(p, c->op))
        w->blocks = 0;
    bool gathers = shift || strcmp(c->kind, "all_gather") == 0; /* copies, sums nothing */
    double moved = received * (gathers ? machine_value(m, contention_gather)
                                       : machine_value(m, contention_reduce));
    if (machine_is_cpu(m))
        return; /* a rank does one thing at a time */
    w->use[RESOURCE_MEMORY] = moved / w->seconds / memory_rate(m);
    w->use[RESOURCE_LINK] = ranks > 1 ? inside / w->seconds / link_rate(m, false) : 0;
    w->use[RESOURCE_NIC] = nodes > 1 ? between / w->seconds / link_rate(m, true) : 0;
}

/* ---- statements ---------------------------------------------------------- */

WorkClass work_class(OpKind op)
{
    if (op == OP_send || op == OP_receive || op == OP_move)
        return WORK_SEND;
    if (op_is_collective(op))
        return WORK_COLLECTIVE;
    if (op_is_attention(op))
        return WORK_ATTENTION;
    /* A convolution has the products of its groups, a grouped product those of its experts. */
    if (op_is_einsum(op) || op_is_conv(op) || op_is_grouped_matmul(op))
        return WORK_MATMUL;
    if (op == OP_fused)
        return WORK_KERNEL;
    if (op == OP_fetch || op == OP_store)
        return WORK_TRANSFER;
    bool lookup = op == OP_embedding || op == OP_embedding_grad || op == OP_embedding_add ||
                  op == OP_topk || op == OP_topk_grad || op == OP_limit_choices ||
                  op == OP_group_rows || op == OP_gather_rows ||
                  op == OP_combine_rows || op == OP_gather_pairs || op == OP_scatter_pairs;
    return lookup ? WORK_LOOKUP : WORK_COPY;
}

/* Whether the machine's library has a kernel that keeps its multiprocessors to its end. */
static bool is_persistent(const Machine *m, const Statement *s)
{
    return machine_value(m, matmul_persistent) > 0 && !op_is_grouped_matmul(s->op->kind);
}

/* The multiprocessors for which the matmul's kernel is chosen. */
static double matmul_sms(const Machine *m, const Statement *s)
{
    double sms = machine_value(m, device_sms);
    bool leaves = s->op->concurrent && is_persistent(m, s);
    return leaves ? sms - rt_collective_blocks((int)sms) : sms;
}

static void compute_work(const Program *p, const Machine *m, Work *w)
{
    const Statement *s = w->statement;
    double bytes = (double)s->bytes;
    switch (w->class) {
    case WORK_MATMUL:
        w->seconds = matmul_work_seconds(p, m, s, matmul_sms(m, s), &w->spread);
        w->persistent = is_persistent(m, s) && !s->op->concurrent;
        break;
    case WORK_ATTENTION: w->seconds = attention_seconds(p, m, s, &w->spread); break;
    case WORK_KERNEL:
        w->seconds = kernel_seconds(p, m, s, &bytes, &w->spread);
        break;
    case WORK_LOOKUP:
        w->seconds = bytes_seconds(m, bytes, machine_value(m, hbm_gather));
        w->spread = machine_spread(m, hbm_gather);
        break;
    case WORK_COPY:
    case WORK_COLLECTIVE:
    case WORK_TRANSFER:
    case WORK_SEND:
    case WORK_CLASSES:
        w->seconds = bytes_seconds(m, bytes, machine_value(m, hbm_streaming));
        w->spread = machine_spread(m, hbm_streaming);
        break;
    }
    if (mesh_ranks(&p->mesh) > 1) /* the others wait for the slowest rank */
        w->seconds *= 1 + machine_value(m, device_straggler);
    w->fills = w->class == WORK_MATMUL || w->class == WORK_ATTENTION;
    if (!machine_is_cpu(m)) /* whose ranks do one thing at a time */
        w->use[RESOURCE_MEMORY] = fmin(bytes / w->seconds / memory_rate(m), 1);
}

static void transfer_work(const Machine *m, Work *w)
{
    bool to_host = w->statement->op->kind == OP_store;
    double rate = to_host ? machine_value(m, copy_to_host)
                          : machine_value(m, copy_to_device);
    w->seconds = machine_value(m, hbm_start) + (double)w->statement->bytes / rate;
    w->spread = to_host ? machine_spread(m, copy_to_host) : machine_spread(m, copy_to_device);
    w->use[to_host ? RESOURCE_TO_HOST : RESOURCE_TO_DEVICE] = 1;
}

bool spans_nodes(const Program *p, const Machine *m, uint32_t axes)
{
    bool spans = false;
    for (int a = 0; a < p->mesh.n; a++)
        spans |= (axes >> a & 1) &&
                 mesh_stride(&p->mesh, a) * p->mesh.size[a] > machine_node(m, &p->mesh);
    return spans;
}

Work *works_of(const Program *p, const Machine *m, const Statement *statement, int n)
{
    int ncollectives, next = 0;
    const CollectiveInfo *c = collectives_of(p, &ncollectives);
    Work *work = NEW_ARRAY(p->arena, Work, n + 1);
    for (int i = 0; i < n; i++) {
        Work *w = &work[i];
        *w = (Work){.statement = &statement[i], .class = work_class(statement[i].op->kind)};
        if (w->class == WORK_TRANSFER) {
            transfer_work(m, w);
        } else if (w->class == WORK_SEND) {
            w->seconds = send_seconds(m, statement[i].bytes / 2,
                                      spans_nodes(p, m, attr_axes(statement[i].op)));
        } else if (w->class == WORK_COLLECTIVE) {
            while (c[next].op != statement[i].op)
                next++;
            if (!c[next].in_place)
                collective_work(p, m, &c[next], w);
        } else {
            compute_work(p, m, w);
        }
    }
    return work;
}

double work_slowdown(const Program *p, const Machine *m, const Work *w, double blocks)
{
    double sms = machine_value(m, device_sms);
    if (!w->fills || blocks <= 0)
        return 1;
    double left = fmax(sms - blocks, 1);
    if (w->class != WORK_MATMUL)
        return sms / left;
    double spread, own = matmul_sms(m, w->statement);
    return matmul_work_seconds(p, m, w->statement, fmin(left, own), &spread) /
           matmul_work_seconds(p, m, w->statement, own, &spread);
}
