/* engine.c: runs a launch: blocks one after another, a block's threads as
 * fibers.
 *
 * A fiber that has finished a thread starts the block's next thread, so a
 * kernel without barriers is a loop of plain calls on one stack. A thread that
 * waits keeps its fiber, and the next thread gets another one. A queue has the
 * threads that may continue. If it is empty and all threads have begun, the
 * block has ended or hangs.
 */
#include "engine.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fiber.h"
#include "parc_device_host.h"
#include "state.h"

enum {
    STACK = 64 << 10, GUARD = 4096,
    MAX_SHARED = 227 << 10,
    MAX_SITES = 4096,
    MAX_ERRORS = 4, /* after which a launch is abandoned */
    WARPS = STANDIN_MAX_THREADS / 32,
};

typedef struct Fiber Fiber;
struct Fiber {
    Context context;
    Fiber *next;
    int thread;
    const char *waits; /* for messages */
    const void *site;
};

typedef struct Queue {
    Fiber *first, **end;
} Queue;

typedef struct Warp {
    int arrived, slot;
    enum ExchangeKind kind;
    uint32_t tick; /* at which the last warp barrier opened */
    Queue waiting;
} Warp;

static struct Engine {
    Context main;
    Fiber fiber[STANDIN_MAX_THREADS];
    int nfibers;
    char *stacks;
    Fiber *free;
    Fiber *running;
    Queue ready, barrier;
    Warp warp[WARPS];
    int threads, begun, ended, arrived;
    bool abandoned;
    char *shared;
    StandinSite site[MAX_SITES];
    const void *site_pc[MAX_SITES];
    int nsites;
    const void *skip;
    void (*hear)(void *, const char *);
    void *hear_ctx;
} e;

Now standin_now;

/* ---- messages ---- */

void standin_hear(void (*hear)(void *ctx, const char *text), void *ctx)
{
    e.hear = hear;
    e.hear_ctx = ctx;
}

void standin_error(const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (e.hear)
        e.hear(e.hear_ctx, text);
    else
        fprintf(stderr, "standin: %s\n", text);
}

const char *engine_where(char *to, int bytes)
{
    snprintf(to, (size_t)bytes, "kernel %s, block %lld, thread %d",
             standin_now.call->kernel->name,
             (long long)standin_now.block_index, standin_now.thread);
    return to;
}

/* Starts addr2line on an address of a file; its output, or NULL. */
static FILE *start_addr2line(const char *file, unsigned long long address,
                             pid_t *child)
{
    int end[2];
    char at[32];
    snprintf(at, sizeof at, "0x%llx", address);
    if (pipe(end) != 0)
        return NULL;
    *child = fork();
    if (*child == 0) {
        int nowhere = open("/dev/null", O_WRONLY);
        dup2(end[1], STDOUT_FILENO);
        dup2(nowhere, STDERR_FILENO);
        close(end[0]);
        execlp("addr2line", "addr2line", "-s", "-i", "-e", file, at,
               (char *)NULL);
        _exit(127);
    }
    close(end[1]);
    if (*child < 0) {
        close(end[0]);
        return NULL;
    }
    return fdopen(end[0], "r");
}

/* The source line of an instruction, from the debugging information: among the
 * functions that it was inlined from, the innermost one outside the device
 * language. */
static bool source_line(char *to, int bytes, const Dl_info *in, const void *pc)
{
    static const char language[] = "parc_device";
    bool found = false;
    pid_t child;
    unsigned long long address =
        (unsigned long long)((const char *)pc - (const char *)in->dli_fbase -
                             1);
    FILE *f = start_addr2line(in->dli_fname, address, &child);
    if (!f)
        return false;
    while (!found && fgets(to, bytes, f))
        found = *to != '?' && strncmp(to, language, strlen(language)) != 0;
    fclose(f);
    waitpid(child, NULL, 0);
    to[strcspn(to, "\n")] = 0;
    return found;
}

const char *engine_place(char *to, int bytes, const void *pc)
{
    Dl_info in;
    char line[200];
    if (!dladdr(pc, &in) || !in.dli_sname) {
        snprintf(to, (size_t)bytes, "%p", pc);
        return to;
    }
    bool known = !e.hear && source_line(line, sizeof line, &in, pc);
    snprintf(to, (size_t)bytes, "%s+0x%llx%s%s%s", in.dli_sname,
             (unsigned long long)((const char *)pc -
                                  (const char *)in.dli_saddr),
             known ? " (" : "", known ? line : "", known ? ")" : "");
    return to;
}

void engine_count_error(void)
{
    if (++standin_now.errors >= MAX_ERRORS || e.skip)
        engine_abandon();
}

/* ---- fibers ---- */

static void queue_clear(Queue *q)
{
    q->first = NULL;
    q->end = &q->first;
}

static void queue_add(Queue *q, Fiber *f)
{
    f->next = NULL;
    *q->end = f;
    q->end = &f->next;
}

static void queue_move(Queue *to, Queue *from)
{
    if (!from->first)
        return;
    *to->end = from->first;
    to->end = from->end;
    queue_clear(from);
}

/* The fiber's thread becomes the running thread. */
static void enter(Fiber *f)
{
    Now *n = &standin_now;
    uint32_t tick = e.warp[f->thread / 32].tick;
    e.running = f;
    n->thread = f->thread;
    n->warp_barrier = tick > n->barrier ? tick : n->barrier;
}

static void call_kernel(const StandinLaunch *l)
{
    typedef int64_t I;
    typedef void Few(I, I, I, I, I, I);
    typedef void Some(I, I, I, I, I, I, I, I, I, I, I, I);
    typedef void Many(I, I, I, I, I, I, I, I, I, I, I, I, I, I, I, I, I, I, I,
                      I, I, I, I, I);
#define FOUR(i) a[i], a[i + 1], a[i + 2], a[i + 3]
#define SIXTEEN(i) FOUR(i), FOUR(i + 4), FOUR(i + 8), FOUR(i + 12)
    typedef void Most(I, I, I, I, I, I, I, I, I, I, I, I, I, I, I, I, I, I, I,
                      I, I, I, I, I, I, I, I, I, I, I, I, I, I, I, I, I, I, I,
                      I, I, I, I, I, I, I, I, I, I, I, I, I, I, I, I, I, I, I,
                      I, I, I, I, I, I, I);
    const I *a = l->arg;
    if (l->kernel->nargs <= 6)
        ((Few *)l->kernel->run)(a[0], a[1], a[2], a[3], a[4], a[5]);
    else if (l->kernel->nargs <= 12)
        ((Some *)l->kernel->run)(a[0], a[1], a[2], a[3], a[4], a[5], a[6],
                                 a[7], a[8], a[9], a[10], a[11]);
    else if (l->kernel->nargs > 24)
        ((Most *)l->kernel->run)(SIXTEEN(0), SIXTEEN(16), SIXTEEN(32),
                                 SIXTEEN(48));
    else
        ((Many *)l->kernel->run)(a[0], a[1], a[2], a[3], a[4], a[5], a[6],
                                 a[7], a[8], a[9], a[10], a[11], a[12], a[13],
                                 a[14], a[15], a[16], a[17], a[18], a[19],
                                 a[20], a[21], a[22], a[23]);
}

static Fiber *fresh_fiber(void);

/* Switches to another thread that may continue. */
static void run_next(Fiber *self)
{
    Context *to = &e.main;
    Fiber *f = e.ready.first;
    if (f) {
        e.ready.first = f->next;
        if (!f->next)
            e.ready.end = &e.ready.first;
        to = &f->context;
    } else if (e.begun < e.threads) {
        to = &fresh_fiber()->context;
    }
    fiber_switch(&self->context, to);
}

static void fiber_main(void)
{
    for (;;) {
        Fiber *self = e.running;
        while (e.begun < e.threads && !e.ready.first) {
            self->thread = e.begun++;
            enter(self);
            call_kernel(standin_now.call);
            e.ended++;
        }
        self->next = e.free;
        e.free = self;
        run_next(self);
    }
}

static Fiber *fresh_fiber(void)
{
    Fiber *f = e.free;
    if (f) {
        e.free = f->next;
    } else {
        /* Staggers the stacks, so that the fibers' hot words are in different
         * sets of the cache. */
        f = &e.fiber[e.nfibers];
        char *stack = e.stacks + (size_t)e.nfibers * STACK;
        mprotect(stack, GUARD, PROT_NONE);
        fiber_make(&f->context, stack + GUARD, STACK - GUARD,
                   (size_t)(e.nfibers % 61) * 192 & ~(size_t)63, fiber_main);
        e.nfibers++;
    }
    e.running = f;
    return f;
}

static void wait_in(Queue *q, const char *waits, const void *site)
{
    Fiber *self = e.running;
    self->waits = waits;
    self->site = site;
    queue_add(q, self);
    run_next(self);
    self->waits = NULL;
    enter(self);
}

_Noreturn void engine_abandon(void)
{
    Context nobody;
    e.abandoned = true;
    fiber_switch(&nobody, &e.main);
    abort();
}

/* ---- barriers and exchanges ---- */

/* Records the barrier's site; false: this barrier is to be skipped. */
static bool note_site(const void *pc, bool warp)
{
    if (pc == e.skip)
        return false;
    for (int i = 0; i < e.nsites; i++)
        if (e.site_pc[i] == pc)
            return true;
    if (e.nsites < MAX_SITES) {
        const StandinKernel *k = standin_now.call->kernel;
        e.site[e.nsites] = (StandinSite){
            k, (const char *)pc - (const char *)(uintptr_t)k->run, warp};
        e.site_pc[e.nsites++] = pc;
    }
    return true;
}

int standin_sites(const StandinSite **site)
{
    *site = e.site;
    return e.nsites;
}

void standin_skip_site(int site)
{
    e.skip = site < 0 ? NULL : e.site_pc[site];
}

void standin_block_barrier(void)
{
    const void *site = __builtin_return_address(0);
    Now *n = &standin_now;
    if (!note_site(site, false))
        return;
    if (++e.arrived < e.threads) {
        wait_in(&e.barrier, "the block's barrier", site);
        return;
    }
    e.arrived = 0;
    n->barrier = n->warp_barrier = ++n->tick;
    n->epoch++;
    queue_move(&e.ready, &e.barrier);
}

static const char *const exchange_name[] = {
    [EXCHANGE_SHUFFLE] = "a shuffle",
    [EXCHANGE_MMA] = "a product of tiles",
    [EXCHANGE_ROWS] = "a load of matrices",
    [EXCHANGE_BARRIER] = "the warp's barrier",
};

int engine_slot(void)
{
    return e.warp[standin_now.thread / 32].slot;
}

bool engine_exchange(enum ExchangeKind kind, const void *site)
{
    Warp *w = &e.warp[standin_now.thread / 32];
    char where[200], place[300];
    if (w->arrived && w->kind != kind) {
        standin_error("%s is at %s, other lanes of its warp at %s; %s",
                      engine_where(where, sizeof where), exchange_name[kind],
                      exchange_name[w->kind],
                      engine_place(place, sizeof place, site));
        standin_now.errors++;
        engine_abandon();
    }
    w->kind = kind;
    if (++w->arrived < 32) {
        wait_in(&w->waiting, exchange_name[kind], site);
        return false;
    }
    w->arrived = 0;
    w->slot ^= 1;
    return true;
}

/* The last lane calls this, so that the others may continue. */
void engine_release(void)
{
    queue_move(&e.ready, &e.warp[standin_now.thread / 32].waiting);
}

void standin_warp_barrier(void)
{
    const void *site = __builtin_return_address(0);
    if (!note_site(site, true))
        return;
    if (engine_exchange(EXCHANGE_BARRIER, site)) {
        e.warp[standin_now.thread / 32].tick = ++standin_now.tick;
        standin_now.warp_barrier = standin_now.tick;
        engine_release();
    }
}

int standin_thread_index(void) { return standin_now.thread; }
int64_t standin_block_index(void) { return standin_now.block_index; }
int64_t standin_block_count(void) { return standin_now.call->grid; }
int standin_block_threads(void) { return e.threads; }
void *standin_shared(void) { return standin_now.shared; }

/* ---- launches ---- */

static void engine_open(void)
{
    if (e.stacks)
        return;
    e.stacks = mmap(NULL, (size_t)STACK * STANDIN_MAX_THREADS,
                    PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    e.shared = mmap(NULL, MAX_SHARED, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (e.stacks == MAP_FAILED || e.shared == MAP_FAILED) {
        perror("standin: stacks of threads");
        abort();
    }
    memory_open();
    shadow_open(e.stacks, (int64_t)STACK * STANDIN_MAX_THREADS);
    standin_now.tick = 1;
}

/* Reports a hang: all threads have begun, and none can continue. */
static void report_hang(void)
{
    char place[300];
    Queue *q = &e.barrier;
    for (int i = 0; !q->first && i < e.threads / 32; i++)
        q = &e.warp[i].waiting;
    Fiber *f = q->first;
    standin_error("kernel %s, block %lld hangs: thread %d waits at %s, %s, "
                  "and %d of %d threads have ended",
                  standin_now.call->kernel->name,
                  (long long)standin_now.block_index, f ? f->thread : -1,
                  f ? f->waits : "nothing",
                  f ? engine_place(place, sizeof place, f->site) : "nowhere",
                  e.ended, e.threads);
    standin_now.errors++;
    e.abandoned = true;
}

/* Drops the fibers, whose threads will not continue. */
static void drop_fibers(void)
{
    e.nfibers = 0;
    e.free = NULL;
}

static void run_block(void)
{
    Now *n = &standin_now;
    n->block = n->barrier = ++n->tick;
    n->epoch = 0;
    e.begun = e.ended = e.arrived = 0;
    queue_clear(&e.ready);
    queue_clear(&e.barrier);
    for (int i = 0; i < e.threads / 32; i++) {
        e.warp[i] = (Warp){.tick = n->tick};
        queue_clear(&e.warp[i].waiting);
    }
    warp_begin_block(e.threads);
    fiber_switch(&e.main, &fresh_fiber()->context);
    if (!e.abandoned && e.ended < e.threads)
        report_hang();
}

static bool launch_is_sane(const StandinLaunch *l)
{
    const char *wrong = NULL;
    if (l->block < 32 || l->block % 32 || l->block > STANDIN_MAX_THREADS)
        wrong = "block is no multiple of 32 up to 1024";
    else if (l->block > l->kernel->threads)
        wrong = "block is larger than the kernel's launch bounds";
    else if (l->grid < 1 || l->grid > INT32_MAX)
        wrong = "grid is not within 1 … 2^31 - 1";
    else if (l->shared_bytes < 0 || l->shared_bytes > MAX_SHARED)
        wrong = "shared memory is more than 227 KiB";
    else if (l->kernel->nargs > STANDIN_MAX_ARGS)
        wrong = "more than 64 arguments";
    if (wrong)
        standin_error("kernel %s, grid %lld, block %d, %lld bytes of shared "
                      "memory: %s", l->kernel->name, (long long)l->grid,
                      l->block, (long long)l->shared_bytes, wrong);
    return !wrong;
}

int standin_launch(const StandinLaunch *l)
{
    Now *n = &standin_now;
    engine_open();
    if (!launch_is_sane(l))
        return 1;
    n->call = l;
    n->errors = 0;
    n->launch = ++n->tick;
    e.threads = l->block;
    e.abandoned = false;
    /* Shared memory ends exactly at the requested size. */
    n->shared = e.shared + ((MAX_SHARED - l->shared_bytes) & ~(int64_t)127);
    memset(e.shared, 0xff, MAX_SHARED);
    shadow_bind_shared(l, n->shared);
    for (int64_t b = 0; b < l->grid && !e.abandoned; b++) {
        n->block_index = b;
        run_block();
    }
    if (e.abandoned)
        drop_fibers();
    return n->errors;
}
