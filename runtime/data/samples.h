/* samples.h: declares the files that inputs are read from, the sources that
 * consist of them, and the choice among sources: files.c, megatron.c, npy.c,
 * mixture.c.
 *
 * A sample is what one element of the batch takes from a source: a run of
 * elements of one file. For tokens it is a sequence. */
#ifndef PARC_RT_SAMPLES_H
#define PARC_RT_SAMPLES_H

#include "data/data.h"

/* How a file stores an element. `width` 0: not known. */
typedef struct RtElement {
    int width; /* bytes: 1, 2, 4 or 8 */
    bool is_signed, is_float;
} RtElement;

/* What an input takes from a file. */
typedef struct RtRow {
    const ParcInput *input;
    int64_t n;    /* elements of a sample */
    bool shifted; /* labels are read one element later: a file of tokens has
                     one more than its samples */
} RtRow;

typedef struct RtDataFile {
    char *path; /* allocated */
    const unsigned char *map;
    int64_t size;
    int64_t first; /* offset in bytes of the first element */
    RtElement type;
    bool is_array; /* of NumPy, not a file of tokens */
    int64_t elements, samples;
    int64_t before; /* samples of the source's files before this one */
} RtDataFile;

/* Samples of one or several files, in the order of the files. */
typedef struct RtSource {
    char *text; /* its part of the SPEC, without weight; allocated */
    RtDataFile *file;
    int nfiles;
    int64_t capacity, bytes, elements, samples;
    double weight;
} RtSource;

/* What feeds an input: a source, or the sources of a mixture. */
struct RtFeed {
    RtRow row;
    char *spec; /* the text of its sources; allocated */
    RtSource *source;
    int nsources; /* 0: synthetic */
    int64_t capacity;
};

/* A sample: its file, and the index in it of its first element. */
typedef struct RtSample {
    const RtDataFile *file;
    int64_t first;
} RtSample;

/* If `path` names a Megatron data set, sets *bin and *index (allocated) to the
 * paths of its two files; otherwise leaves them NULL. */
void rt_megatron_find(const char *path, char **bin, char **index);
/* Reads the index of `f`, sets type and elements. False after a message. */
bool rt_megatron_read(RtDataFile *f, const char *index);

/* Whether the mapped file begins with the magic number of NumPy's format. */
bool rt_npy_is(const RtDataFile *f);
/* Reads the header of NumPy's format: sets first, type, elements and samples.
 * False, after a message, if the array does not fit the row. */
bool rt_npy_read(RtDataFile *f, const RtRow *row);

/* Opens the source that `spec` describes: [PREFIX:]FILE[;FILE…]. False after a
 * message; rt_files_close also then. */
bool rt_files_open(RtSource *s, const char *spec, const RtRow *row);
void rt_files_close(RtSource *s);
/* Sample `at` of the source: 0 … samples-1. */
RtSample rt_files_sample(const RtSource *s, int64_t at, const RtRow *row);

/* Whether a source can feed the input: its elements are of a type that becomes
 * the input's. */
bool rt_can_convert(const ParcInput *in, RtElement type);
/* Writes `n` elements that begin with number `first` of the file to `to`, in
 * the input's type. False, with the error in `why`, if one is not valid. */
bool rt_convert(const ParcInput *in, const RtDataFile *f, int64_t first,
                int64_t n, void *to, char why[RT_WHY]);

/* Splits "0.7*A+0.3*B" at the plus signs that a number and '*' follow. Sets
 * *weight, ends the text of the first source with a 0, and returns the text
 * of the next one (NULL: it was the last). */
char *rt_mixture_split(char *text, double *weight, char **source);
/* Whether the spec has at least two weights. */
bool rt_is_mixture(const char *spec);
/* Sets the shares of the sources of feed `f`. False after a message. */
bool rt_mixture_set(RtData *d, const RtFeed *f);
/* The source of sample `number` of the run; sets *at to how many samples
 * before it that source has provided. */
int rt_mixture_choose(const RtData *d, int64_t number, int64_t *at);
/* How many samples the mixture provides until a source is used up. */
int64_t rt_mixture_samples(const RtData *d);

#endif
