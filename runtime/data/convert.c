/* convert.c: converts elements of a file to the type of an input, and refuses
 * those that the input cannot hold.
 *
 *   int(512)   u1, u2, u4, i1, i2, i4, i8 whose values are 0 … 511
 *   float      f4, finite also in the input's type (f16: below 65520); u1
 *              (pixels) as they are, 0 … 255
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/files.h"
#include "common/message.h"
#include "common/type.h"
#include "data/samples.h"

bool rt_can_convert(const ParcInput *in, RtElement type)
{
    return in->type == PARC_I32 ? !type.is_float
                                : type.is_float || (type.width == 1 &&
                                                    !type.is_signed);
}

static int64_t integer(const unsigned char *p, RtElement type)
{
    uint64_t value = rt_little(p, type.width);
    int unused = 64 - 8 * type.width;
    return type.is_signed ? (int64_t)(value << unused) >> unused
                          : (int64_t)value;
}

static int64_t bound(const ParcInput *in)
{
    return in->below > 0 ? in->below : (int64_t)INT32_MAX + 1;
}

static bool is_valid(const ParcInput *in, int64_t value)
{
    return (value >= 0 && value < bound(in)) ||
           (in->has_ignored && value == in->ignored);
}

/* Converts n integers; whether all are valid. The loops have no branch, so that
 * the compiler vectorizes those of short elements. */
static bool integers(const ParcInput *in, int32_t *to, const unsigned char *p,
                     RtElement type, int64_t n)
{
    int64_t bad = 0;
    uint32_t most = 0;
    if (in->has_ignored) {
        for (int64_t i = 0; i < n; i++) {
            int64_t value = integer(p + i * type.width, type);
            to[i] = (int32_t)value;
            bad |= !is_valid(in, value);
        }
    } else if (type.width == 1 && !type.is_signed) {
        for (int64_t i = 0; i < n; i++) {
            to[i] = p[i];
            most = p[i] > most ? p[i] : most;
        }
    } else if (type.width == 2 && !type.is_signed) {
        for (int64_t i = 0; i < n; i++) {
            uint32_t token = (uint32_t)p[2 * i] | (uint32_t)p[2 * i + 1] << 8;
            to[i] = (int32_t)token;
            most = token > most ? token : most;
        }
    } else {
        for (int64_t i = 0; i < n; i++) {
            int64_t token = integer(p + i * type.width, type);
            to[i] = (int32_t)token;
            bad |= token < 0 || token >= bound(in);
        }
    }
    return !bad && (int64_t)most < bound(in);
}

/* Continues "FILE: byte N: error: token 600 ". */
static void add_value_fault(RtText *t, const ParcInput *in, const RtDataFile *f,
                            int64_t value)
{
    if (value < 0 && in->is_labels && !in->has_ignored)
        rt_add(t,
               "is negative; labels that the loss ignores are declared "
               "'%s: int(%lld, ignore=%lld)'",
               in->name, (long long)bound(in), (long long)value);
    else if (value < 0 && in->has_ignored && in->ignored < 0)
        rt_add(t, "is negative, and is not %lld, which '%s' accepts", (long long)in->ignored,
               in->name);
    else if (value < 0)
        rt_add(t, "is negative");
    else if (f->is_array)
        rt_add(t, "does not fit '%s', which takes integers below %lld",
               in->name, (long long)bound(in));
    else
        rt_add(t, "is beyond the vocabulary of %lld", (long long)bound(in));
}

static bool refuse_integer(const ParcInput *in, const RtDataFile *f,
                           int64_t first, int64_t n, char why[RT_WHY])
{
    for (int64_t i = 0; i < n; i++) {
        int64_t at = f->first + (first + i) * f->type.width;
        int64_t value = integer(f->map + at, f->type);
        if (!is_valid(in, value)) {
            RtText t = {.at = why, .capacity = RT_WHY};
            rt_add(&t, "%s: byte %lld: error: %s %lld ", f->path, (long long)at,
                   f->is_array ? "value" : "token", (long long)value);
            add_value_fault(&t, in, f, value);
            return false;
        }
    }
    return true;
}

enum { PIECE = 1024 };

/* The bits of the least positive f32 that the type rounds to infinity. */
static uint32_t least_infinite(ParcType type)
{
    return type == PARC_F16    ? 0x477FF000 /* 65520 */
           : type == PARC_BF16 ? 0x7F7F8000
                               : 0x7F800000;
}

/* Reads at most PIECE elements as floats; whether all are finite in the input's
 * type. The magnitudes of floats have the order of their bits. */
static bool floats(const ParcInput *in, float *to, const unsigned char *p,
                   RtElement type, int64_t n)
{
    if (!type.is_float) {
        for (int64_t i = 0; i < n; i++)
            to[i] = p[i];
        return true;
    }
    uint32_t limit = least_infinite(in->type), bad = 0;
    memcpy(to, p, (size_t)n * sizeof *to);
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &to[i], sizeof bits);
        bad |= (bits & INT32_MAX) >= limit;
    }
    return !bad;
}

static bool refuse_float(const ParcInput *in, const RtDataFile *f,
                         int64_t first, const float *value, int64_t n,
                         char why[RT_WHY])
{
    int64_t i = 0;
    float rounded = 0;
    for (; i < n; i++) {
        char stored[sizeof rounded];
        rt_narrow(in->type, stored, &value[i], 1);
        rt_widen(&rounded, in->type, stored, 1);
        if (!isfinite(rounded))
            break;
    }
    snprintf(why, RT_WHY,
             "%s: byte %lld: error: element %lld of '%s' is %g, %s",
             f->path, (long long)(f->first + (first + i) * f->type.width),
             (long long)(first + i), in->name, value[i],
             isfinite(value[i]) ? "too large for the 16 bits of this program; "
                                  "scale the data"
                                : "not a finite number");
    return false;
}

bool rt_convert(const ParcInput *in, const RtDataFile *f, int64_t first,
                int64_t n, void *to, char why[RT_WHY])
{
    const unsigned char *p = f->map + f->first + first * f->type.width;
    if (in->type == PARC_I32)
        return integers(in, to, p, f->type, n) ||
               refuse_integer(in, f, first, n, why);
    for (int64_t at = 0; at < n; at += PIECE) {
        float piece[PIECE];
        int64_t count = n - at < PIECE ? n - at : PIECE;
        if (!floats(in, piece, p + at * f->type.width, f->type, count))
            return refuse_float(in, f, first + at, piece, count, why);
        rt_narrow(in->type, rt_element_out(in->type, to, at), piece, count);
    }
    return true;
}
