/* arena.h: the arena allocator, one arena per compilation.
 *
 * Everything that parc builds (AST, IR, strings, diagnostics) is allocated here
 * and freed when the compilation ends; no pass frees memory. Running out of
 * memory ends the process with a message: a half-built program is of no use.
 */
#ifndef PARC_BASE_ARENA_H
#define PARC_BASE_ARENA_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct Arena Arena;

Arena *arena_new(void);
void arena_free(Arena *a);
/* Frees all allocations but retains one block: for attempts that are repeated
 * many times. */
void arena_reset(Arena *a);

/* Ends the process with exit status 1 and a message. */
_Noreturn void arena_out_of_memory(void);

/* `size` zeroed bytes, aligned to 16. */
void *arena_alloc(Arena *a, size_t size);

/* A copy of n bytes; of a string; of the first n bytes of a string,
 * terminated. */
void *arena_copy(Arena *a, const void *p, size_t n);
char *arena_strdup(Arena *a, const char *s);
char *arena_strndup(Arena *a, const char *s, size_t n);

/* A formatted string. */
char *arena_printf(Arena *a, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
char *arena_vprintf(Arena *a, const char *fmt, va_list ap);

#define NEW(arena, T) ((T *)arena_alloc((arena), sizeof(T)))
#define NEW_ARRAY(arena, T, n) \
    ((T *)arena_alloc((arena), sizeof(T) * (size_t)(n)))

/* A growable array in an arena: VEC(int) v = {0}; vec_push(arena, &v, 3); v.n
 * elements at v.at. Growing abandons the old block in the arena. */
#define VEC(T)                                                                 \
    struct {                                                                   \
        T *at;                                                                 \
        int n;                                                                 \
        int capacity;                                                          \
    }
#define vec_push(arena, v, x)                                                  \
    ((v)->n == (v)->capacity                                                   \
         ? (void)((v)->at = vec_grow((arena), (v)->at, &(v)->capacity,         \
                                     sizeof *(v)->at))                         \
         : (void)0,                                                            \
     (v)->at[(v)->n++] = (x))
/* Whether a VEC, or n elements, of pointers has x. */
#define vec_has(v, x) list_has((v)->at, (v)->n, (x))
bool list_has(const void *at, int n, const void *x);
void *vec_grow(Arena *a, void *at, int *capacity, size_t element_size);

/* A copy of n elements at `at`, with a capacity of `capacity` elements. */
void *arena_grow(Arena *a, const void *at, size_t n, size_t capacity,
                 size_t size);

#endif
