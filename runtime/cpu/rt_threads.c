/* rt_threads.c: places threads on CPUs and sets how they wait.
 *
 * Ranks share evenly the CPUs that the process may use (taskset, cgroups).
 * CPUs are assigned in the order of packages; a core's second hardware thread
 * is used after every core has one thread. Threads are pinned if the run uses
 * most of the machine. If it uses at most half of the cores, the system places
 * the threads, because two small runs would otherwise pin the same cores. With
 * more threads than CPUs the system places them too. OpenMP variables that the
 * user has set take precedence.
 */
#include <omp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/files.h"
#include "common/message.h"
#include "device.h"
#include "launch/world.h"
#include "rt.h"

/* ---- wait policy --------------------------------------------------------- */

/* How long GNU's OpenMP polls before it sleeps, in rounds of about 20 ns. Most
 * pauses between parallel loops are shorter. */
#define SPIN_COUNT "20000"

static bool user_sets_waiting(void)
{
    return getenv("OMP_WAIT_POLICY") || getenv("GOMP_SPINCOUNT") ||
           getenv("KMP_BLOCKTIME");
}

/* Sets the wait policy. GNU's OpenMP lets idle threads poll for milliseconds.
 * On a machine with other work, each parallel loop then waits for a thread
 * that has lost its core, and a step takes ten times as long. With a core for
 * every thread the threads poll for a short time, otherwise they sleep
 * immediately. The library reads the policy from the environment when it is
 * loaded, before main, so the program executes itself a second time. A policy
 * that the user has set takes precedence. */
void rt_device_begin(char **argv, const ParcModel *model, int64_t wanted)
{
    bool fewer = wanted > 0 && wanted < model->threads;
    int threads = fewer ? (int)wanted : model->threads;
    bool crowded = rt_nranks(model) * threads > rt_cores();
    if (threads < 2 || user_sets_waiting())
        return;
    if (setenv("OMP_WAIT_POLICY", "passive", 1) == 0 &&
        (crowded || setenv("GOMP_SPINCOUNT", SPIN_COUNT, 1) == 0)) {
        fflush(NULL);
        execv("/proc/self/exe", argv); /* if it fails, the run continues with
                                          the default */
    }
}

/* ---- placement ----------------------------------------------------------- */

typedef struct Cpu {
    int number, package, core;
    int sibling; /* number of earlier CPUs of the same core */
} Cpu;

/* A number from the CPU's topology; -1 if it is not known. */
static int topology(int cpu, const char *what)
{
    char path[96];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/%s",
             cpu, what);
    return (int)rt_read_number(path, -1);
}

static int by_place(const void *x, const void *y)
{
    const Cpu *a = x, *b = y;
    if (a->sibling != b->sibling)
        return a->sibling - b->sibling;
    return a->package != b->package ? a->package - b->package
                                    : a->number - b->number;
}

/* Lists the CPUs of the set in the order in which threads use them. */
static int places(const cpu_set_t *set, Cpu *cpu)
{
    int n = 0;
    for (int c = 0; c < CPU_SETSIZE; c++) {
        if (!CPU_ISSET(c, set))
            continue;
        cpu[n] = (Cpu){c, topology(c, "physical_package_id"),
                       topology(c, "core_id"), 0};
        for (int i = 0; i < n; i++)
            cpu[n].sibling += cpu[n].core >= 0 && cpu[i].core == cpu[n].core &&
                              cpu[i].package == cpu[n].package;
        n++;
    }
    qsort(cpu, (size_t)n, sizeof *cpu, by_place);
    return n;
}

static bool user_sets_places(void)
{
    return getenv("OMP_PLACES") || getenv("OMP_PROC_BIND") ||
           getenv("GOMP_CPU_AFFINITY") || getenv("KMP_AFFINITY");
}

/* Starts the rank's threads and pins each to its CPU. */
void rt_device_place(const RtWorld *w, int rank)
{
    cpu_set_t have;
    int all = w->nranks * w->threads;
    omp_set_dynamic(0);
    omp_set_num_threads(w->threads);
    bool small = 2 * all <= rt_cores();
    if (w->crowded || small || user_sets_places() ||
        sched_getaffinity(0, sizeof have, &have) != 0)
        return;
    Cpu *cpu = rt_allocate(CPU_SETSIZE * sizeof *cpu);
    int n = places(&have, cpu);
#pragma omp parallel num_threads(w->threads)
    {
        int place = rank * w->threads + omp_get_thread_num();
        cpu_set_t own;
        CPU_ZERO(&own);
        if (place < n) {
            CPU_SET(cpu[place].number, &own);
            sched_setaffinity(0, sizeof own, &own);
        }
    }
    free(cpu);
}
