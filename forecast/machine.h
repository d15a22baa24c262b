/* machine.h: a machine as parc forecasts the time of a step on it: rates, and
 * parameters of the durations of each class of statements.
 *
 *   "hbm": {"rate": {"value": 3.35e12, "from": "H100 datasheet", "spread": 0.01,
 *                    "date": "2023-03"}, …}
 *
 * A machine is a file machines/NAME.json, which parc contains, or a file of the
 * user's. Every constant has a value, its source, a spread and a date; a constant
 * without a source is an error. All are in seconds, bytes and flops.
 */
#ifndef PARC_FORECAST_MACHINE_H
#define PARC_FORECAST_MACHINE_H

#include "base/arena.h"
#include "ir/type.h"

#include <stdint.h>
#include <string.h>

/* A constant of a machine file. */
typedef struct Constant {
    double value;
    double spread;    /* the part of it by which it may be wrong */
    const char *from; /* its source; NULL: the file does not have the constant */
    const char *date; /* of the source or the measurement: "2026-11" */
} Constant;

typedef enum MachineConstant {
#define MACHINE_CONSTANT(object, name, targets, unit, meaning) \
    MACHINE_##object##_##name,
#include "forecast/machine.def"
#undef MACHINE_CONSTANT
    MACHINE_CONSTANTS
} MachineConstant;

/* The rate of matmuls with tiles of m x n elements, relative to the largest tile. */
typedef struct MachineTile {
    int64_t m, n;
    Constant rate;
} MachineTile;

/* Attention with heads of this size: per_tile * tiles of queries + flops / rate. */
typedef struct MachineAttention {
    int64_t head;
    int64_t keys;        /* of a sequence; 0: any number */
    const char *type;    /* of its operands: "f32"; NULL: 16 bits */
    const char *dropout; /* "yes"; NULL: none */
    const char *pass;    /* "forward", "backward" */
    Constant rate, per_tile;
} MachineAttention;

/* A collective in a group of `ranks` ranks on each of `nodes` nodes: start + fill *
 * sqrt(bytes) + bytes / rate, for the bytes of the full tensors on one rank. */
typedef struct MachineCollective {
    const char *kind; /* "all_gather", … */
    int64_t nodes, ranks;
    Constant start, fill, rate, blocks; /* blocks: multiprocessors that it holds */
} MachineCollective;

/* The rate of products of `batch` matrices of m x k and k x n elements on a CPU rank. */
typedef struct MachineProduct {
    const char *type; /* of the operands: "f32", or another one of 16 bits */
    int64_t batch, m, n, k;
    Constant rate;
} MachineProduct;

/* The rate of kernels of a form ("streaming", "row", "column") on a CPU rank, if they
 * read and write `bytes`. */
typedef struct MachineKernel {
    const char *form;
    int64_t bytes;
    Constant rate;
} MachineKernel;

typedef struct Machine {
    const char *name, *description;
    const char *target; /* "cuda", "cpu" */
    Constant constant[MACHINE_CONSTANTS];
    Link link[2]; /* inside a node, between nodes */
    VEC(MachineTile) tile;
    VEC(MachineAttention) attention;
    VEC(MachineCollective) collective;
    VEC(MachineProduct) product;
    VEC(MachineKernel) kernel;
} Machine;

/* The value of a constant, and its spread: machine_value(m, hbm_rate). */
#define machine_value(m, name) ((m)->constant[MACHINE_##name].value)
#define machine_spread(m, name) ((m)->constant[MACHINE_##name].spread)

/* Whether it is a machine for CPU ranks. */
static inline bool machine_is_cpu(const Machine *m)
{
    return strcmp(m->target, "cpu") == 0;
}

/* The ranks of a node: those of the mesh, if it is divided into nodes. */
static inline int64_t machine_node(const Machine *m, const Mesh *mesh)
{
    return mesh->node ? mesh->node : (int64_t)machine_value(m, node_ranks);
}

/* Reads the machine that parc contains under this name, or else the file. NULL and
 * *error: it cannot be read, or lacks a constant ("h100.json:12: …"). */
const Machine *machine_load(Arena *a, const char *name, const char **error);

/* Calls `visit` for each constant of the machine, also those of its lists: "hbm.rate", or
 * "tile 128 x 256: rate". */
typedef void ConstantVisit(void *context, const char *name, const char *unit,
                           const char *meaning, const Constant *c);
void machine_each_constant(const Machine *m, Arena *a, ConstantVisit *visit, void *context);

/* "a100-sxm-80, h100-sxm": the machines that parc contains. */
const char *machine_names(Arena *a);

#endif
