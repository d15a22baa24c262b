/* base.c: tests near misses, sets of output files and child processes. */
#include <stdio.h>
#include <stdlib.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/diag.h"
#include "base/file.h"
#include "tests/unit/check.h"

static Check counts;

static void expect(bool good, const char *what)
{
    check_that(&counts, good, "base", 0, what);
}

static void near_misses(void)
{
    static const char *const names[] = {"dim", "hidden", "n_layers", "RMSNorm",
                                        "tp"};
    static const struct {
        const char *name, *near;
    } rows[] = {
        {"dimm", "dim"},        {"hiden", "hidden"}, {"n_layer", "n_layers"},
        {"rmsnorm", "RMSNorm"}, {"pt", "tp"},        {"x", NULL},
        {"attention", NULL},    {"", NULL},          {"ihdden", "hidden"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *near = diag_near_miss(rows[i].name, names, 5);
        bool same = near && rows[i].near ? strcmp(near, rows[i].near) == 0
                                         : near == rows[i].near;
        expect(same, rows[i].name);
    }
}

static bool holds(Arena *a, const char *path, const char *text)
{
    size_t size;
    const char *found = file_read(a, path, &size);
    return found && size == strlen(text) && strcmp(found, text) == 0;
}

static bool exists(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0;
}

static void output_sets(Arena *a)
{
    Outputs *o = outputs_new(a);
    expect(!outputs_mkdir(o, "a/b"), "mkdir");
    expect(!outputs_add(o, "a/b/x", "1", 1, false), "add x");
    expect(!outputs_add(o, "y", "2", 1, true), "add y");
    expect(!exists("y") && !exists("a/b/x"), "nothing before the commit");
    expect(!outputs_commit(o), "commit");
    expect(holds(a, "a/b/x", "1") && holds(a, "y", "2"), "both after it");
    expect(access("y", X_OK) == 0 && access("a/b/x", X_OK) != 0, "modes");

    o = outputs_new(a);
    outputs_mkdir(o, "c/d");
    outputs_add(o, "c/d/x", "3", 1, false);
    outputs_add(o, "y", "4", 1, false);
    outputs_abandon(o);
    expect(!exists("c") && holds(a, "y", "2"), "abandoned without a trace");

    /* The second of two files cannot be renamed: the first is restored. */
    o = outputs_new(a);
    outputs_add(o, "y", "5", 1, false);
    outputs_add(o, "z", "6", 1, false);
    mkdir("z", 0777);
    expect(outputs_commit(o) != NULL, "a directory is in the way");
    expect(holds(a, "y", "2"), "what was there before is back");
    rmdir("z");

    o = outputs_new(a);
    expect(outputs_add(o, "none/x", "7", 1, false) != NULL, "no directory");
    expect(!outputs_add(o, "/dev/null", "8", 1, false), "a device");
    expect(!outputs_commit(o), "a device takes it");
    struct stat st;
    expect(stat("/dev/null", &st) == 0 && S_ISCHR(st.st_mode), "and stays");
}

static bool waits(int signal)
{
    sigset_t now;
    sigprocmask(SIG_SETMASK, NULL, &now);
    return sigismember(&now, signal) == 1;
}

/* Signals that end the process are blocked while a set has files that it would
 * have to remove. */
static void signals(Arena *a)
{
    Outputs *o = outputs_new(a);
    expect(waits(SIGPIPE) && !waits(SIGINT) && !waits(SIGTERM), "empty");
    outputs_add(o, "s", "1", 1, false);
    expect(waits(SIGINT) && waits(SIGTERM) && waits(SIGHUP), "with a file");
    outputs_abandon(o);
    expect(!waits(SIGPIPE) && !waits(SIGINT), "abandoned");
    o = outputs_new(a);
    outputs_mkdir(o, "c");
    expect(waits(SIGTERM), "with a directory");
    outputs_abandon(o);
}

static void links(Arena *a)
{
    expect(symlink("y", "link") == 0, "symlink");
    Outputs *o = outputs_new(a);
    outputs_add(o, "link", "9", 1, false);
    expect(!outputs_commit(o), "through a link");
    struct stat st;
    expect(lstat("link", &st) == 0 && S_ISLNK(st.st_mode) && holds(a, "y", "9"),
           "the link stays");
    o = outputs_new(a);
    outputs_replace(o, "link", "10", 2);
    expect(!outputs_commit(o), "in place of a link");
    expect(lstat("link", &st) == 0 && S_ISREG(st.st_mode) &&
               holds(a, "link", "10") && holds(a, "y", "9"),
           "the link is replaced, its target is as before");
    expect(mkdir("to", 0777) == 0 && symlink("to/hop", "far") == 0 &&
               symlink("z", "to/hop") == 0,
           "symlinks to a missing file");
    o = outputs_new(a);
    outputs_add(o, "far", "11", 2, false);
    expect(!outputs_commit(o), "through links to a missing file");
    expect(lstat("far", &st) == 0 && S_ISLNK(st.st_mode) &&
               lstat("to/hop", &st) == 0 && S_ISLNK(st.st_mode) &&
               holds(a, "to/z", "11"),
           "the file is made at the end of the links");
    expect(symlink("loop", "loop") == 0, "a link to itself");
    o = outputs_new(a);
    expect(outputs_add(o, "loop", "12", 2, false) ||
               outputs_commit(o) != NULL,
           "a link to itself is an error");
    outputs_abandon(o);
}

static void processes(Arena *a)
{
    char *errors;
    const char *fine[] = {"true", NULL};
    expect(process_run(a, fine, NULL, &errors) == 0, "true");
    const char *loud[] = {"sh", "-c", "pwd >&2; exit 3", NULL};
    expect(process_run(a, loud, "/", &errors) == 3, "exit status");
    expect(strcmp(errors, "/\n") == 0, "captured, in its directory");
    const char *killed[] = {"sh", "-c", "kill -9 $$", NULL};
    expect(process_run(a, killed, NULL, &errors) == -1 &&
               strstr(errors, "signal 9"),
           "killed");
    const char *missing[] = {"no-such-program", NULL};
    expect(process_run(a, missing, NULL, &errors) == -1 && *errors,
           "no such program");
}

int main(void)
{
    char dir[] = "/tmp/parc-base.XXXXXX";
    if (!mkdtemp(dir) || chdir(dir) != 0) {
        perror(dir);
        return 1;
    }
    Arena *a = arena_new();
    near_misses();
    output_sets(a);
    signals(a);
    links(a);
    processes(a);
    const char *const clean[] = {"rm", "-rf", dir, NULL};
    char *errors;
    process_run(a, clean, "/", &errors);
    arena_free(a);
    return check_end(&counts);
}
