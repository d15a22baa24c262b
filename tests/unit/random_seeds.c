/* random_seeds.c: runs one test on many seeds, each in a separate process, so a
 * crash counts as a failure.
 */
#include "tests/unit/random_seeds.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_RUNNING = 64 };

typedef struct Child {
    pid_t pid; /* 0: none */
    int64_t seed;
} Child;

typedef struct Tally {
    int64_t next, passed, failed, refused;
    long running;
    Child child[MAX_RUNNING];
} Tally;

static bool start_seed(const SeedRuns *r, Tally *t)
{
    int64_t seed = r->seed + t->next;
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        int result = (int)r->run(r->context, (uint64_t)seed);
        fflush(NULL);
        _exit(result);
    }
    if (pid < 0) {
        perror("fork");
        return false;
    }
    Child *c = t->child;
    while (c->pid)
        c++;
    *c = (Child){pid, seed};
    t->next++;
    t->running++;
    return true;
}

static int result_of(const Child *c, int status)
{
    if (WIFEXITED(status))
        return WEXITSTATUS(status);
    printf("seed %lld was killed: %s\n", (long long)c->seed,
           strsignal(WTERMSIG(status)));
    return SEED_FAILED;
}

static bool end_seed(Tally *t)
{
    int status;
    pid_t pid = wait(&status);
    if (pid < 0)
        return false;
    Child *c = t->child;
    while (c->pid != pid)
        c++;
    int result = result_of(c, status);
    c->pid = 0;
    t->running--;
    t->passed += result == SEED_PASSED;
    t->refused += result == SEED_REFUSED;
    t->failed += result != SEED_PASSED && result != SEED_REFUSED;
    return true;
}

/* The number of seeds that may be refused: two standard deviations above the percentage,
 * which is a probability, because a few seeds are a small sample. */
static int64_t most_refused(const SeedRuns *r)
{
    double p = r->refused_percent / 100.0, n = (double)r->count;
    return (int64_t)(n * p + 2 * sqrt(n * p * (1 - p)));
}

int run_seeds(const SeedRuns *r)
{
    Tally t = {.passed = r->passed, .failed = r->failed};
    if (r->count == 1) {
        SeedResult result = r->run(r->context, (uint64_t)r->seed);
        if (result == SEED_REFUSED)
            printf("the seed was refused\n");
        printf("%d passed, %d failed\n", result == SEED_PASSED,
               result == SEED_FAILED);
        return result == SEED_FAILED;
    }
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    long at_once = cores < 1 ? 1 : cores > MAX_RUNNING ? MAX_RUNNING : cores;
    int64_t limit = most_refused(r);
    for (;;) {
        bool more = t.next < r->count + t.refused && t.refused <= limit;
        if (!more && t.running == 0)
            break;
        if (more && t.running < at_once) {
            if (!start_seed(r, &t))
                return 1;
        } else if (!end_seed(&t)) {
            return 1;
        }
    }
    if (t.refused > limit)
        t.failed++;
    if (t.refused > 0)
        printf("%lld more were refused\n", (long long)t.refused);
    printf("%lld passed, %lld failed\n", (long long)t.passed,
           (long long)t.failed);
    return t.failed > 0;
}
