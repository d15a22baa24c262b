/* self.c: runs parc itself; see self.h. */
#include "driver/self.h"

#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#include "base/file.h"

int self_run(Arena *a, const char *const *argument)
{
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
