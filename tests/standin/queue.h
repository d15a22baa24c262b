/* queue.h: queues the work of a device and decides the order in which it runs.
 *
 * Work on streams is a graph: each piece follows the previous one on its stream
 * and the events that the stream waits for. A GPU may use any order that the
 * graph allows. STANDIN_ORDER selects one:
 *   early   as soon as it can run
 *   late    when the host waits for it, and then only what that needs: the
 *           stream's own work first, as far as it can run
 *   ahead   like late, but other streams' work that it needs runs first
 *   NUMBER  some of it at some calls, in a random order with that seed
 * A program that lacks an event computes other results in one of the orders. If
 * several pieces can run in the order `early`, streams with a higher priority
 * run first. Work that waits for other processes is tried repeatedly and does
 * not block the queue. As on a GPU, the queue also makes progress by itself
 * when the host makes no calls for a while.
 *
 * Functions return the driver's codes. The caller must hold the lock.
 */
#ifndef STANDIN_QUEUE_H
#define STANDIN_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#include "cuda/api/api.h"

/* Codes of the driver that the runtime does not define. */
enum {
    SC_INVALID_VALUE = 1, SC_NOT_INITIALIZED = 3, SC_INVALID_DEVICE = 101,
    SC_INVALID_IMAGE = 200, SC_INVALID_CONTEXT = 201, SC_INVALID_HANDLE = 400,
    SC_ILLEGAL_ADDRESS = 700, SC_LAUNCH_FAILED = 719,
    SC_CAPTURE_UNSUPPORTED = 900, SC_CAPTURE_INVALIDATED = 901,
    SC_CAPTURE_MERGE = 902, SC_CAPTURE_UNMATCHED = 903,
    SC_CAPTURE_UNJOINED = 904, SC_CAPTURE_ISOLATION = 905,
    SC_CAPTURED_EVENT = 907,
};

void queue_lock(void);
void queue_unlock(void);

/* A piece of work. Each run (each launch of a graph) gets its own copy of
 * `state`. */
enum WorkStatus { WORK_DONE, WORK_NOT_YET, WORK_FAILED };
enum { WORK_STATE = 640 };
typedef struct Work {
    const char *name;
    enum WorkStatus (*run)(void *state);
    /* NULL, or called when the work is queued to run, but not when captured. */
    void (*queued)(void *state);
    _Alignas(16) unsigned char state[WORK_STATE];
} Work;

CuResult queue_add(CuStream s, const Work *w);

/* Lower numbers run first, as with the driver. */
CuResult queue_stream_new(CuStream *s, int priority);
CuResult queue_stream_free(CuStream s);
/* Success, RT_CU_NOT_READY, or the error of the stream's work. */
CuResult queue_stream_query(CuStream s);
bool queue_is_capturing(CuStream s);
/* The number of the stream's capture, from 1 on; 0: none. */
uint64_t queue_capture_number(CuStream s);
/* Makes the capture of the stream fail when it ends, or its graph when it is
 * instantiated. */
typedef enum Spoiled { SPOILED_NOT, SPOILED_CAPTURE, SPOILED_GRAPH } Spoiled;
void queue_spoil(CuStream s, Spoiled how);
/* Whether some capture forbids calls that are not part of it. */
bool queue_is_restricted(void);

CuResult queue_event_new(CuEvent *e, bool timed);
CuResult queue_event_free(CuEvent e);
CuResult queue_event_query(CuEvent e);
CuResult queue_record(CuEvent e, CuStream s);
CuResult queue_wait(CuStream s, CuEvent e);
CuResult queue_elapsed(float *milliseconds, CuEvent from, CuEvent to);

CuResult queue_capture(CuStream s, CuCaptureMode mode);
CuResult queue_capture_end(CuStream s, CuGraph *g);
/* `own`: each node keeps the priority of its stream; else all have that of the
 * launching stream. Stricter than the driver: it is an error if that loses a
 * priority. */
CuResult queue_instantiate(CuGraphExec *x, CuGraph g, bool own);
CuResult queue_launch(CuGraphExec x, CuStream s);
CuResult queue_exec_free(CuGraphExec x);
CuResult queue_graph_free(CuGraph g);

/* A permanent error; every later call returns it. */
CuResult queue_error(void);
void queue_fail(CuResult error);

#endif
