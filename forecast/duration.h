/* duration.h: the time of each statement of a step on an idle machine, and what it uses
 * of the resources that statements share.
 *
 *   matmul       tiles and waves, with the parts of k that fill the device; of a grouped
 *                matmul on GPUs those of parc's kernel
 *   attention    tiles of queries, and the rate of its products
 *   kernel       bytes, by the kernel's form: elementwise, by row, by column
 *   collective   start + fill * sqrt(bytes) + bytes / rate of the kind and group
 *   transfer     bytes over the link to the host
 *
 * The constants are those of the machine file (machine.h). The tile model follows
 * nothing but the shapes: it takes the fastest of the machine's tiles.
 */
#ifndef PARC_FORECAST_DURATION_H
#define PARC_FORECAST_DURATION_H

#include "codegen/attention_call.h"
#include "codegen/experts_call.h"
#include "codegen/statements/statements.h"
#include "codegen/target/target.h"
#include "forecast/machine.h"

typedef enum WorkClass {
    WORK_MATMUL, /* convolutions too */
    WORK_ATTENTION,
    WORK_KERNEL,
    WORK_LOOKUP, /* embedding, topk and their gradients; rows of experts */
    WORK_COPY,
    WORK_COLLECTIVE,
    WORK_TRANSFER, /* from and to host memory */
    WORK_SEND,     /* to another stage */
    WORK_CLASSES
} WorkClass;
/* "matmul", "attention", … */
extern const char *const work_class_name[WORK_CLASSES];

WorkClass work_class(OpKind op);

/* The flops that attention computes in whole tiles. */
double attention_flops(const Program *p, const Statement *s);
/* The keys that a query sees at most: those of its window, or all. */
int64_t attention_keys(const ParcAttention *a);

/* How a kernel goes over its elements. */
typedef enum KernelForm {
    FORM_STREAMING, /* elementwise */
    FORM_ROWS,    /* with reductions of rows */
    FORM_COLUMNS, /* with sums over rows */
    KERNEL_FORMS
} KernelForm;
extern const char *const kernel_form_name[KERNEL_FORMS]; /* of hbm in machine.def */
KernelForm kernel_form(const Program *p, const Op *fused, bool cpu);
/* The exponentials, logarithms and the like that a call computes. */
double kernel_functions(const Program *p, const Op *fused);
/* The random numbers that it draws. */
double kernel_randoms(const Program *p, const Op *fused);

/* What statements that run at one time share. */
typedef enum Resource {
    RESOURCE_MEMORY,    /* bandwidth of the device's memory */
    RESOURCE_LINK,      /* to the devices of the node */
    RESOURCE_NIC,       /* to other nodes */
    RESOURCE_TO_DEVICE, /* copies from the host */
    RESOURCE_TO_HOST,
    RESOURCES
} Resource;

/* One execution of a statement on one rank. */
typedef struct Work {
    const Statement *statement;
    WorkClass class;
    double seconds;         /* on an idle device */
    double spread;          /* the part of them by which they may be wrong */
    double use[RESOURCES];  /* the part of a resource that it takes meanwhile */
    double blocks;          /* multiprocessors that it keeps from others */
    bool fills;             /* a matmul or attention: it needs all multiprocessors … */
    bool persistent;        /* … and keeps them to its end */
} Work;

/* The time of a statement in a step, in seconds. */
typedef struct StatementTime {
    double run;      /* its stream runs it */
    double exposed;  /* the compute stream waits for it meanwhile; of a statement that
                      * computes: all its time */
    double slowed;   /* what others take of `run` */
} StatementTime;

/* The work of n statements, in their order. */
Work *works_of(const Program *p, const Machine *m, const Statement *statement, int n);

/* By what factor the work takes longer if others hold `blocks` multiprocessors. */
double work_slowdown(const Program *p, const Machine *m, const Work *w, double blocks);

/* Whether groups over the axes have ranks on several nodes. */
bool spans_nodes(const Program *p, const Machine *m, uint32_t axes);

/* Seconds of the transfer of bytes to the neighbor on a mesh axis, on another node if
 * `between`. */
double send_seconds(const Machine *m, int64_t bytes, bool between);

/* Seconds of a product of `batch` matrices on `sms` multiprocessors. `bytes`: an
 * element of the operands, and of the result. */
double matmul_seconds(const Machine *m, int64_t batch, int64_t rows, int64_t columns,
                      int64_t k, int operand_bytes, int result_bytes, double sms);

/* Seconds of a grouped matmul, or a gradient of one, on a GPU, if all experts have equally many
 * rows. `bytes`: all that it reads and writes. A tile of each expert's rows in a group is half
 * empty on average. */
double grouped_seconds(const Machine *m, const ParcGrouped *s, int64_t bytes, double sms);

#endif
