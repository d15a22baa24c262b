/* tensorboard.c: writes TensorBoard's event file (--tensorboard DIR).
 *
 * The file is a sequence of records, as TensorFlow's tfrecord format frames
 * them:
 *
 *   8 bytes   length n of the data, little-endian
 *   4 bytes   masked CRC-32C of these 8 bytes
 *   n bytes   an Event in protobuf's encoding
 *   4 bytes   masked CRC-32C of the data
 *
 * with mask(c) = (c rotated right by 15 bits) + 0xA282EAD8. The fields of an
 * Event that are used here (tensorflow/core/util/event.proto):
 *
 *   1 wall_time (double)        3 file_version (string)
 *   2 step (int64)              5 summary: repeated 1 value {1 tag, 2 float}
 *                               7 session_log: {1 status: START = 1}
 *
 * The first event names the version, the second starts a session: TensorBoard
 * then discards the points of earlier files from that step on; a resumed run
 * replaces them. Each step is one event and one write, so a reader never sees
 * a part of a step.
 */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/files.h"
#include "common/message.h"
#include "launch/world.h"
#include "log/report.h"
#include "rt.h"

enum { MOST_DATA = 1024, HOST_NAME = RT_NODE };
enum { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 }; /* wire types */
enum { WALL_TIME = 1, STEP = 2, FILE_VERSION = 3, SUMMARY = 5, SESSION = 7 };
enum { SUMMARY_VALUE = 1, VALUE_TAG = 1, VALUE_SIMPLE = 2 };
enum { SESSION_STATUS = 1, SESSION_START = 1 };

/* A message that is being encoded; its buffer is large enough for every
 * event. */
typedef struct Message {
    size_t n;
    unsigned char data[MOST_DATA];
} Message;

static void put(Message *m, const void *data, size_t n)
{
    memcpy(m->data + m->n, data, n);
    m->n += n;
}

/* The low `n` bytes of a number, little-endian. */
static void put_bytes(Message *m, uint64_t value, size_t n)
{
    for (size_t i = 0; i < n; i++)
        m->data[m->n++] = (unsigned char)(value >> (8 * i));
}

static void put_varint(Message *m, uint64_t value)
{
    while (value >= 0x80) {
        m->data[m->n++] = (unsigned char)(value | 0x80);
        value >>= 7;
    }
    m->data[m->n++] = (unsigned char)value;
}

static void put_key(Message *m, int field, int wire)
{
    put_varint(m, (uint64_t)(field << 3 | wire));
}

static void put_bytes_field(Message *m, int field, const void *data, size_t n)
{
    put_key(m, field, BYTES);
    put_varint(m, n);
    put(m, data, n);
}

static void begin_event(Message *m, int64_t step)
{
    struct timespec now;
    uint64_t bits;
    clock_gettime(CLOCK_REALTIME, &now);
    double seconds = (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
    memcpy(&bits, &seconds, sizeof bits);
    m->n = 0;
    put_key(m, WALL_TIME, FIXED64);
    put_bytes(m, bits, sizeof bits);
    put_key(m, STEP, VARINT);
    put_varint(m, (uint64_t)step);
}

static void put_value(Message *m, const char *tag, double value)
{
    Message v = {0};
    float single = (float)value;
    uint32_t bits;
    memcpy(&bits, &single, sizeof bits);
    put_bytes_field(&v, VALUE_TAG, tag, strlen(tag));
    put_key(&v, VALUE_SIMPLE, FIXED32);
    put_bytes(&v, bits, sizeof bits);
    put_bytes_field(m, SUMMARY_VALUE, v.data, v.n);
}

#define CRC_MASK 0xA282EAD8u

static uint32_t masked(const void *data, size_t n)
{
    uint32_t crc = rt_crc32c(0, data, n);
    return (crc >> 15 | crc << 17) + CRC_MASK;
}

/* Appends a record. Returns 0 or an errno. */
static int append(const RtEvents *e, const Message *event)
{
    Message record = {0};
    put_bytes(&record, event->n, 8);
    put_bytes(&record, masked(record.data, 8), 4);
    put(&record, event->data, event->n);
    put_bytes(&record, masked(event->data, event->n), 4);
    ssize_t did = write(e->file, record.data, record.n);
    return did == (ssize_t)record.n ? 0 : did < 0 ? errno : ENOSPC;
}

static int put_version(const RtEvents *e)
{
    static const char version[] = "brain.Event:2";
    Message event;
    begin_event(&event, 0);
    put_bytes_field(&event, FILE_VERSION, version, sizeof version - 1);
    return append(e, &event);
}

static void fail(ParcRt *rt, const RtEvents *e, int error)
{
    if (error)
        rt_fail_write(rt, e->path, strerror(error));
}

bool rt_events_open(RtEvents *e, const char *directory)
{
    char host[HOST_NAME] = "";
    gethostname(host, sizeof host - 1);
    e->path = rt_format("%s/events.out.tfevents.%010lld.%s.%ld", directory,
                        (long long)time(NULL), host, (long)getpid());
    int error = mkdir(directory, 0777) != 0 && errno != EEXIST ? errno : 0;
    if (error)
        return rt_error("cannot make the directory '%s': %s", directory,
                        strerror(error));
    e->file = open(e->path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    error = e->file < 0 ? errno : put_version(e);
    if (error)
        rt_error("cannot write '%s': %s", e->path, strerror(error));
    return error == 0;
}

void rt_events_start(RtEvents *e, ParcRt *rt, int64_t done)
{
    Message event, session = {0};
    if (e->file < 0)
        return;
    put_key(&session, SESSION_STATUS, VARINT);
    put_varint(&session, SESSION_START);
    begin_event(&event, done + 1);
    put_bytes_field(&event, SESSION, session.data, session.n);
    fail(rt, e, append(e, &event));
}

void rt_events_write(RtEvents *e, ParcRt *rt, const RtRecord *r)
{
    Message event, summary = {0};
    if (e->file < 0)
        return;
    for (const RtField *f = rt_fields; f->name; f++) {
        double value = rt_field_value(f, r);
        if (f->curve && isfinite(value) && !(f->optional && value == 0))
            put_value(&summary, f->name, value);
    }
    begin_event(&event, r->step);
    put_bytes_field(&event, SUMMARY, summary.data, summary.n);
    fail(rt, e, append(e, &event));
}

void rt_events_close(RtEvents *e, ParcRt *rt)
{
    if (e->file >= 0 && close(e->file) != 0)
        fail(rt, e, errno);
    free(e->path);
    e->path = NULL;
    e->file = -1;
}
