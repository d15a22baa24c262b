/* crash.c: tests which files and messages an internal error in a pass makes.
 *
 * A child process compiles a small model for a target whose `workspace`
 * reports an internal error. It must end by SIGABRT, replace a link at
 * parc-crash.ir by the last valid program, which is that of a run that stops
 * there, and print the command that repeats the error.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/bug.h"
#include "base/file.h"
#include "base/out.h"
#include "base/text.h"
#include "codegen/target/target.h"
#include "driver/passes/pipeline.h"
#include "tests/unit/check.h"
#include "tests/unit/pdl_program.h"

static const char model[] =
    "model M(dim=8) {\n"
    "    w: Linear(dim, dim)\n"
    "    forward(x: [batch, dim]) { return mean(square(w(x))) }\n"
    "}\n"
    "plan p(dp) { fully_shard dp { w } }\n"
    "train { batch = 4 }\n";

static int64_t broken_workspace(const Program *p, const Op *op,
                                const TargetInfo *t)
{
    (void)p;
    (void)op;
    (void)t;
    bug("injected");
}

static Program *program(Arena *a)
{
    static const char *const none[] = {NULL};
    return pdl_program(a, diag_new(a, COLOR_NEVER), model, "2", NULL, none);
}

static void compile(Arena *a)
{
    TargetInfo t = target_info(TARGET_CPU, 1);
    t.workspace = broken_workspace;
    PipelineOptions o = {.reproduce = "--target cpu"};
    pipeline_run(program(a), &t, &o, NULL, 0);
}

/* The IR after the pass that `command` names in --start-after=PASS. */
static const char *ir_after(Arena *a, const char *command)
{
    static const char option[] = "--start-after=";
    const char *name = strstr(command, option) + strlen(option);
    PipelineOptions o = {.stops = true};
    TargetInfo t = target_info(TARGET_CPU, 1);
    while (o.stop_after < pass_count &&
           !starts_with(name, arena_printf(a, "%s ", pass_name(o.stop_after))))
        o.stop_after++;
    Program *p = program(a);
    Out out;
    out_init(&out, a);
    if (o.stop_after < pass_count && pipeline_run(p, &t, &o, NULL, 0))
        ir_print(&out, p);
    return out.text;
}

/* The status of a child that compiles, with its standard error in `errors`. */
static int crash(Arena *a)
{
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        int fd = open("errors", O_WRONLY | O_CREAT, 0600);
        if (fd >= 0 && dup2(fd, STDERR_FILENO) >= 0)
            compile(a);
        _exit(1);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    return status;
}

static const char *text_of(Arena *a, const char *path)
{
    size_t size;
    const char *text = file_read(a, path, &size);
    return text ? text : "";
}

int main(void)
{
    Check counts = {0}, *c = &counts;
    char dir[] = "/tmp/parc-crash.XXXXXX";
    if (!mkdtemp(dir) || chdir(dir) != 0) {
        perror(dir);
        return 1;
    }
    Arena *a = arena_new();
    FILE *f = fopen("precious", "w");
    CHECK(c, f && fputs("precious", f) >= 0 && fclose(f) == 0);
    CHECK(c, symlink("precious", "parc-crash.ir") == 0);
    int status = crash(a);
    CHECK(c, WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    struct stat st;
    CHECK(c, lstat("parc-crash.ir", &st) == 0 && S_ISREG(st.st_mode));
    CHECK_TEXT(c, text_of(a, "precious"), "precious");

    const char *errors = text_of(a, "errors");
    CHECK(c, strstr(errors, "parc: internal error: injected\n"));
    const char *command =
        strstr(errors, "    parc --target cpu --start-after=");
    CHECK(c, command && strstr(command, " parc-crash.ir\n"));

    const char *ir = text_of(a, "parc-crash.ir");
    Diag *d = diag_new(a, COLOR_NEVER);
    Program *p =
        ir_parse(a, d, diag_source(d, "parc-crash.ir", ir, strlen(ir)));
    CHECK(c, p && diag_error_count(d) == 0 && !ir_verify(p));
    CHECK_TEXT(c, ir, command ? ir_after(a, command) : "");
    CHECK(c, directory_remove(dir));
    arena_free(a);
    return check_end(c);
}
