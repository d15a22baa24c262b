/* runtime_tools.h: runs a few ranks within a test.
 *
 * Ranks are processes, so their counters are in shared memory.
 */
#ifndef PARC_TESTS_UNIT_RUNTIME_TOOLS_H
#define PARC_TESTS_UNIT_RUNTIME_TOOLS_H

#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "runtime/common/message.h"
#include "runtime/launch/world.h"
#include "runtime/rt.h"
#include "tests/unit/check.h"
#include "tests/unit/value_of.h"

typedef struct SharedCheck {
    _Atomic int passed, failed;
} SharedCheck;

static inline SharedCheck *shared_check_new(void)
{
    void *p = mmap(NULL, sizeof(SharedCheck), PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) {
        perror("mmap");
        exit(1);
    }
    return p;
}

static inline void shared_check_add(SharedCheck *to, const Check *c)
{
    atomic_fetch_add(&to->passed, c->passed);
    atomic_fetch_add(&to->failed, c->failed);
}

/* A model that has only a mesh and an arena. */
static inline ParcModel bare_model(int naxes, const int64_t *size,
                                   int64_t arena_bytes)
{
    static const char *const axis[] = {"a", "b", "c", "d"};
    static const char *const collective[] = {"test 0", "test 1"};
    ParcModel m = {.rt_version = PARC_RT_VERSION,
                   .name = "Test",
                   .parc_version = "0",
                   .source = "test.pdl",
                   .info = "",
                   .naxes = naxes,
                   .arena_bytes = arena_bytes,
                   .threads = 1,
                   .batch = 1,
                   .seq = 1,
                   .at = {.loss = -1, .grad_norm = -1, .overflow = -1, .dropped = -1,
           .dropped_256 = -1, .lr = -1, .bias1 = -1, .bias2 = -1,
                          .clip = -1},
                   .collective = collective,
                   .ncollectives = 2};
    for (int i = 0; i < naxes; i++) {
        m.axis[i] = (ParcAxis){axis[i], size[i]};
    }
    return m;
}

static inline int run_ranks(const ParcModel *m, int threads, RtBody *body,
                            void *context)
{
    RtWorld w;
    rt_message_program("test");
    if (!rt_world_open(&w, m, threads, NULL, true, 0))
        return 1;
    int status = rt_ranks_run(&w, body, context);
    rt_world_close(&w);
    return status;
}

#endif
