/* launcher.c: finds the rank of this process and the address of rank 0 in
 * the environment that a launcher sets.
 *
 * A table lists the variables of each launcher. Incomplete or invalid
 * variables, or a number of processes that differs from the mesh's ranks, end
 * the program with a message. Rank 0's address is PARC_MASTER (host:port), or
 * MASTER_ADDR and MASTER_PORT, or this node if the launcher states that all
 * ranks run here, or the first node of a Slurm step. In the last two cases the
 * port is a hash of the job's name, so two jobs on one node rarely use the
 * same port.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/message.h"
#include "launch/job.h"
#include "launch/world.h"
#include "rt.h"

enum { FIRST_PORT = 20000, PORTS = 10000 };

typedef struct Launcher {
    const char *name, *rank, *size, *local[2];
    const char *needs; /* must be set if the launcher has started this
                          process */
    bool one_forks;    /* a job of one process is the shell of an allocation:
                          fork the ranks */
    const char *start; /* how to start %d processes, for messages */
} Launcher;

static const Launcher launchers[] = {
    {"torchrun", "RANK", "WORLD_SIZE", {"LOCAL_RANK", NULL}, NULL, false,
     "torchrun --no-python --nproc-per-node %d, or fewer on several nodes"},
    {"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
     {"OMPI_COMM_WORLD_LOCAL_RANK", NULL}, NULL, false, "mpirun -n %d"},
    {"mpirun", "PMI_RANK", "PMI_SIZE", {"MPI_LOCALRANKID", "SLURM_LOCALID"},
     NULL, false, "mpirun -n %d"},
    {"srun", "SLURM_PROCID", "SLURM_NTASKS", {"SLURM_LOCALID", NULL},
     "SLURM_STEP_ID", true, "srun --ntasks %d"},
};

/* ---- address of rank 0 --------------------------------------------------- */

static bool take_host(RtLaunch *l, const char *text, size_t n)
{
    if (n == 0 || n >= sizeof l->host)
        return false;
    memcpy(l->host, text, n);
    l->host[n] = 0;
    return true;
}

/* "host:port", "[::1]:port" */
static bool take_master(RtLaunch *l, const char *text)
{
    const char *colon = strrchr(text, ':');
    char *end = NULL;
    long port = colon ? strtol(colon + 1, &end, 10) : 0;
    size_t n = colon ? (size_t)(colon - text) : 0;
    bool bracket = n > 2 && text[0] == '[' && text[n - 1] == ']';
    if (!colon || end == colon + 1 || *end || port < 1 || port > 65535 ||
        !take_host(l, text + bracket, bracket ? n - 2 : n))
        return rt_error("PARC_MASTER is '%s'; it takes HOST:PORT, where rank 0 "
                        "listens", text);
    l->port = (int)port;
    return true;
}

/* The first node of a list: node003 of "node[003-010,12],other". */
static bool take_first_node(RtLaunch *l, const char *list)
{
    size_t n = 0;
    while (*list && *list != ',' && n + 1 < sizeof l->host) {
        if (*list != '[') {
            l->host[n++] = *list++;
            continue;
        }
        list++;
        while (*list >= '0' && *list <= '9' && n + 1 < sizeof l->host)
            l->host[n++] = *list++;
        list += strcspn(list, "]");
        list += *list == ']';
    }
    l->host[n] = 0;
    return n > 0;
}

/* The number of the job's ranks on this node; 1 if the launcher does not set
 * it. */
static int read_local_size(const RtLaunch *l)
{
    static const char *const local_size[] = {
        "LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS",
        "SLURM_STEP_TASKS_PER_NODE"};
    const char *nodes = rt_variable("SLURM_STEP_NUM_NODES");
    for (size_t i = 0; i < sizeof local_size / sizeof *local_size; i++) {
        const char *text = rt_variable(local_size[i]);
        long n = text ? strtol(text, NULL, 10) : 0;
        if (n >= 1 && n <= l->size)
            return (int)n;
    }
    return nodes && strcmp(nodes, "1") == 0 && strcmp(l->by, "srun") == 0
               ? l->size
               : 1;
}

/* torchrun may run its own store at MASTER_PORT; parc then uses the next
 * port. */
static bool take_address(RtLaunch *l, const char *host)
{
    const char *taken = rt_variable("TORCHELASTIC_USE_AGENT_STORE");
    if (!rt_variable_number("MASTER_PORT", 1, 65534, &l->port))
        return false;
    l->port += taken && strcmp(taken, "True") == 0;
    if (!take_host(l, host, strlen(host)))
        return rt_error("MASTER_ADDR is too long for the name of a host; set "
                        "PARC_MASTER=host:port");
    return true;
}

static bool find_master(RtLaunch *l)
{
    const char *own = rt_variable("PARC_MASTER"),
               *host = rt_variable("MASTER_ADDR");
    const char *port = rt_variable("MASTER_PORT");
    const char *nodes = rt_variable("SLURM_STEP_NODELIST");
    nodes = nodes ? nodes : rt_variable("SLURM_JOB_NODELIST");
    if (own)
        return take_master(l, own);
    if (host && port)
        return take_address(l, host);
    if (host || port)
        return rt_error("%s is set in the environment, but %s is not: %s needs "
                        "both, or PARC_MASTER=host:port",
                        host ? "MASTER_ADDR" : "MASTER_PORT",
                        host ? "MASTER_PORT" : "MASTER_ADDR", l->by);
    l->port = (int)(FIRST_PORT + l->job % PORTS);
    if (l->local_size == l->size)
        return take_host(l, "127.0.0.1", 9);
    if (nodes && take_first_node(l, nodes))
        return true;
    return rt_error("%s does not say where rank 0 is: set "
                    "PARC_MASTER=host:port to the node of rank 0 and a free "
                    "port, on all nodes", l->by);
}

/* ---- rank of this process ------------------------------------------------ */

/* 1: this launcher has started the process, 0: it has not, -1: its variables
 * are incomplete (after a message). */
static int started_by(const Launcher *a)
{
    bool rank = rt_variable(a->rank) != NULL,
         size = rt_variable(a->size) != NULL;
    if ((a->needs && !rt_variable(a->needs)) || (!rank && !size))
        return 0;
    if (rank && size)
        return 1;
    rt_error("%s is set in the environment, but %s is not: %s sets both; "
             "PARC_LAUNCHER=none starts all ranks on this machine",
             rank ? a->rank : a->size, rank ? a->size : a->rank, a->name);
    return -1;
}

static bool find_local(RtLaunch *l, const Launcher *a)
{
    const char *name = rt_variable(a->local[0]) ? a->local[0] : a->local[1];
    if (!rt_variable(name))
        return rt_error("%s and %s are set in the environment, but %s is not: "
                        "it numbers the ranks of a machine and chooses their "
                        "devices", a->rank, a->size, a->local[0]);
    return rt_variable_number(name, 0, l->size - 1, &l->local);
}

/* Every process detects a wrong size; only rank 0 prints the message. */
static bool check_size(const RtLaunch *l, const Launcher *a, const ParcModel *m)
{
    int wanted = (int)rt_nranks(m); /* fits: rt_ranks_check */
    char mesh[RT_MESH], start[128];
    if (l->size == wanted)
        return true;
    if (l->rank == 0) {
        snprintf(start, sizeof start, a->start, wanted);
        rt_error("%s has started %d process%s, but the mesh (%s) has %d "
                 "rank%s: start it with %s", l->by, l->size,
                 l->size == 1 ? "" : "es", rt_mesh_text(m, mesh), wanted,
                 wanted == 1 ? "" : "s", start);
    }
    return false;
}

void rt_node_name(char name[RT_NODE])
{
    char host[RT_NODE] = "";
    const char *number = getenv("PARC_NODE");
    gethostname(host, sizeof host - 1);
    snprintf(name, RT_NODE, "%.48s%s%.12s", host, number ? "-" : "",
             number ? number : "");
}

bool rt_launcher(RtLaunch *l, const ParcModel *model)
{
    const char *choice = rt_variable("PARC_LAUNCHER");
    const Launcher *a = NULL;
    memset(l, 0, sizeof *l);
    if (choice && strcmp(choice, "none") == 0)
        return true;
    if (choice)
        return rt_error("PARC_LAUNCHER is '%s'; its only value, 'none', starts "
                        "all ranks on this machine", choice);
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers && !a; i++) {
        int found = started_by(&launchers[i]);
        if (found < 0)
            return false;
        a = found ? &launchers[i] : NULL;
    }
    if (!a)
        return true;
    if (!rt_variable_number(a->size, 1, RT_MOST_RANKS, &l->size) ||
        !rt_variable_number(a->rank, 0, l->size - 1, &l->rank))
        return false;
    if (l->size == 1 && (a->one_forks || rt_nranks(model) == 1))
        return true;
    l->by = a->name;
    l->local_size = read_local_size(l);
    return rt_key(l) && check_size(l, a, model) && find_local(l, a) &&
           find_master(l);
}
