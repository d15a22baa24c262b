/* subcommand.c: what the subcommands that run parc share; see subcommand.h. */
#include "driver/subcommands/subcommand.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "base/file.h"

Subcommand subcommand_new(void)
{
    Subcommand s = {.arena = arena_new()};
    s.diag = diag_new(s.arena, COLOR_AUTO);
    return s;
}

int subcommand_end(Subcommand *s)
{
    diag_flush(s->diag, stderr);
    arena_free(s->arena);
    return s->status;
}

void subcommand_fail(Subcommand *s, int status, const char *fmt, ...)
{
    if (s->status)
        return;
    va_list ap;
    va_start(ap, fmt);
    diag_error(s->diag, (Loc){0}, "%s", arena_vprintf(s->arena, fmt, ap));
    va_end(ap);
    s->status = status;
}

void subcommand_help(Subcommand *s, const char *help)
{
    s->status = fputs(help, stdout) < 0 || fflush(stdout) != 0;
}

int subcommand_run(Subcommand *s, const char *const *argument)
{
    Arena *a = s->arena;
    char self[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    self[n > 0 ? n : 0] = 0;
    VEC(const char *) argv = {0};
    vec_push(a, &argv, (const char *)self);
    for (int i = 0; argument[i]; i++)
        vec_push(a, &argv, argument[i]);
    vec_push(a, &argv, (const char *)NULL);
    char *errors = "";
    int status = process_run(a, argv.at, NULL, &errors);
    if (status != 0)
        fputs(errors, stderr);
    return status < 0 ? 1 : status;
}
