/* queue.h: what a device has been told to do, and in which order it does it.
 *
 * Work on streams is a graph: each piece comes behind the one before it on its
 * stream and behind the events that the stream waits for. A GPU may run it in
 * any order that the graph allows, and STANDIN_ORDER says which one this is:
 *   early   at once, as far as it can run
 *   late    when somebody waits for it, and then only what that needs: first
 *           the stream's own work, as far as that goes
 *   ahead   the same, but first what the stream's work waits for on others
 *   NUMBER  some of it at some calls, in an order drawn from that seed
 * so that a program which lacks an event computes something else in one of
 * them. Of pieces that can run at the same time, those of streams with a higher
 * priority run first where everything runs (early). Work that waits for other processes is tried again and again; nobody
 * holds the queue meanwhile. As a GPU would, the queue gets on by itself, too,
 * when the host does nothing for it for a while.
 *
 * Functions return the driver's codes. All are called with the lock held.
 */
#ifndef STANDIN_QUEUE_H
#define STANDIN_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#include "api.h"

/* Codes of the driver that the runtime has no name for. */
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

/* A piece of work. `run` gets a copy of `state` of its own for each time that
 * it is to run (a graph's every launch). */
enum WorkStatus { WORK_DONE, WORK_NOT_YET, WORK_FAILED };
enum { WORK_STATE = 640 };
typedef struct Work {
    const char *name;
    enum WorkStatus (*run)(void *state);
    /* NULL, or called when the work is queued to run, not when captured. */
    void (*queued)(void *state);
    _Alignas(16) unsigned char state[WORK_STATE];
} Work;

CuResult queue_add(CuStream s, const Work *w);

/* Lower numbers go first, as with the driver. */
CuResult queue_stream_new(CuStream *s, int priority);
CuResult queue_stream_free(CuStream s);
/* Success, RT_CU_NOT_READY, or what failed. */
CuResult queue_stream_query(CuStream s);
bool queue_is_capturing(CuStream s);
/* Of the capture that the stream takes part in, from 1 on; 0: none. */
uint64_t queue_capture_number(CuStream s);
/* Some capture that forbids calls which are not part of it. */
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
 * stream of the launch. Stricter than the driver: an error where that loses a
 * priority. */
CuResult queue_instantiate(CuGraphExec *x, CuGraph g, bool own);
CuResult queue_launch(CuGraphExec x, CuStream s);
CuResult queue_exec_free(CuGraphExec x);
CuResult queue_graph_free(CuGraph g);

/* What failed for good; every call returns it from then on. */
CuResult queue_error(void);
void queue_fail(CuResult error);

#endif
