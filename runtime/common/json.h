/* json.h: declares a reader of JSON text: common/json.c. */
#ifndef PARC_RT_JSON_H
#define PARC_RT_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* A buffer for the keys that callers compare. */
enum { RT_JSON_KEY = 16 };

/* A position in text[0 … end). Initialize text, at and end. */
typedef struct RtJson {
    const unsigned char *text;
    int64_t at, end;
    const char *error; /* the first error, at `at`; NULL: none */
    bool first;        /* no element of the current list or object was read */
    int64_t key_at;    /* position of the latest key */
} RtJson;

/* Records an error at the current position, unless there is one. */
void rt_json_fail(RtJson *j, const char *error);
/* The next character after white space; -1 at the end or after an error. */
int rt_json_peek(RtJson *j);
/* Reads the character `c` if it is the next one. */
bool rt_json_take(RtJson *j, int c);
void rt_json_expect(RtJson *j, int c, const char *error);

/* Reads a string, truncated to `capacity` bytes with the final zero. Callers
 * pass a buffer longer than the strings that they compare. */
void rt_json_string(RtJson *j, char *to, size_t capacity);
/* A whole number from 0; an error above INT64_MAX / 16. */
int64_t rt_json_integer(RtJson *j);
/* Any whole number of 64 bits. */
int64_t rt_json_signed(RtJson *j);
/* Reads a list such as [1, 2, 3]; returns its length, an error above
 * `capacity`. */
int rt_json_integers(RtJson *j, int64_t *to, int capacity);
double rt_json_number(RtJson *j);
bool rt_json_boolean(RtJson *j);
/* Reads `word` (true, false, null) if it is next. */
bool rt_json_word(RtJson *j, const char *word);

/* rt_json_object begins an object. rt_json_key reads the next key, until the
 * object ends; the caller then reads the value. Lists are alike. */
void rt_json_object(RtJson *j);
bool rt_json_key(RtJson *j, char *to, size_t capacity);
void rt_json_list(RtJson *j);
bool rt_json_next(RtJson *j);
/* Reads any value. */
void rt_json_skip(RtJson *j);

/* The beginning of an element of an array that was read from an object: its
 * key, allocated, and the key's position. */
typedef struct RtNamed {
    char *name;
    int64_t at;
} RtNamed;
/* Sorts `n` elements of `size` bytes, which begin as an RtNamed does; a second
 * one of the same name is an error. */
void rt_json_sort(RtJson *j, void *array, int64_t n, size_t size);
/* The element of a name in a sorted array; NULL: there is none. */
void *rt_named_find(const void *array, int64_t n, size_t size,
                    const char *name);

/* Prints a text as a JSON string. */
void rt_json_print(FILE *to, const char *text);

#endif
