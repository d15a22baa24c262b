/* auto_workers.c: times candidates in a process for each core; see
 * auto_choice.h.
 *
 * Worker k of n times the candidates k, k + n, … and sends the results in this order, so
 * that the choice does not depend on the order in which workers finish. Workers are
 * processes, because a compilation that fails leaves its passes by longjmp, and because the
 * memory of a process is freed at its end.
 */
#include "driver/auto/auto_choice.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/bug.h"
#include "base/file.h"

enum { MOST_WORKERS = 16 };

typedef struct Worker {
    pid_t pid;
    int from; /* the pipe from the process */
} Worker;

/* What a worker sends of a candidate, before the text of its error. */
typedef struct Answer {
    int64_t peak;
    CandidateTime time;
    size_t error; /* bytes with the terminator; 0: none */
} Answer;

static void send(int to, const void *data, size_t size)
{
    for (const char *from = data; size > 0;) {
        ssize_t n = write(to, from, size);
        if (n < 0 && errno != EINTR)
            _exit(1);
        from += n > 0 ? n : 0;
        size -= n > 0 ? (size_t)n : 0;
    }
}

static _Noreturn void work(const Choice *c, int first, int step, int n, int to,
                           TimeCandidate *time)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* a worker ends with parc */
    for (int i = first; i < n; i += step) {
        Candidate *t = &c->candidate.at[i];
        time(c, t);
        Answer a = {t->peak, t->time, t->error ? strlen(t->error) + 1 : 0};
        send(to, &a, sizeof a);
        send(to, t->error, a.error);
    }
    _exit(0);
}

/* Reads size bytes; false if the process ended early, or a signal asks parc to stop. */
static bool receive(int from, void *data, size_t size)
{
    for (char *to = data; size > 0;) {
        if (wait_readable(from))
            return false;
        ssize_t n = read(from, to, size);
        if (n == 0 || (n < 0 && errno != EINTR))
            return false;
        to += n > 0 ? n : 0;
        size -= n > 0 ? (size_t)n : 0;
    }
    return true;
}

static bool take_answer(const Choice *c, int from, Candidate *t)
{
    Answer a;
    if (!receive(from, &a, sizeof a))
        return false;
    char *error = a.error ? arena_alloc(c->a, a.error) : NULL;
    if (error && !receive(from, error, a.error))
        return false;
    t->peak = a.peak;
    t->time = a.time;
    t->error = error;
    return true;
}

static bool start(const Choice *c, Worker *w, int k, int workers, int n,
                  TimeCandidate *time)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return false;
    w->from = ends[0];
    w->pid = fork();
    if (w->pid == 0) {
        close(ends[0]);
        work(c, k, workers, n, ends[1], time);
    }
    close(ends[1]);
    if (w->pid < 0)
        close(ends[0]);
    return w->pid > 0;
}

void choice_time_all(Choice *c, int first, int n, TimeCandidate *time)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    int workers = cores < 1 ? 1 : cores > MOST_WORKERS ? MOST_WORKERS : (int)cores;
    workers = workers < n - first ? workers : n - first;
    Worker worker[MOST_WORKERS];
    int started = 0;
    while (started < workers && start(c, &worker[started], first + started, workers, n, time))
        started++;
    bool fine = true;
    for (int i = first; i < n; i++) {
        Candidate *t = &c->candidate.at[i];
        int k = (i - first) % workers;
        if (k >= started)
            time(c, t); /* no process could be started for it */
        else
            fine = fine && take_answer(c, worker[k].from, t);
    }
    for (int k = 0; k < started; k++) {
        close(worker[k].from);
        while (waitpid(worker[k].pid, NULL, 0) < 0 && errno == EINTR)
            continue;
    }
    if (!fine)
        bug("a process that compiled a candidate of %s ended early", c->option);
}
