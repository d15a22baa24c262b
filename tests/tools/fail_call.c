/* fail_call.c: runs a command in which one system call on a file fails.
 *
 *   fail_call LOG DIR BEGIN RULE COMMAND…
 *
 * Calls whose file is DIR, or in it, are counted from the first one whose path
 * contains BEGIN. LOG gets a line for each:
 *
 *   fsync step-00000003.tmp/rank-00000.safetensors 1
 *
 * the call, the path in DIR (random suffixes of temporary names are removed),
 * and the number of this call on this path. RULE is such a line and an error
 * number: this call is not executed and returns the error. Every other call is
 * executed. An empty RULE makes no call fail.
 *
 * A seccomp filter passes the calls to this process, so calls that libc makes
 * inside fclose or opendir are counted too. The exit status is that of the
 * command.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { POLL_MS = 50, LINES = 4096, LINE = 512 };

/* Where a call has its file: argument `file` is a descriptor (-1: none),
 * argument `path` is a path relative to it (-1: none). */
typedef struct Call {
    const char *name;
    int number, file, path;
} Call;
static const Call calls[] = {
#ifdef SYS_open
    {"open", SYS_open, -1, 0},
    {"mkdir", SYS_mkdir, -1, 0},
    {"rename", SYS_rename, -1, 1},
    {"unlink", SYS_unlink, -1, 0},
    {"rmdir", SYS_rmdir, -1, 0},
    {"access", SYS_access, -1, 0},
#endif
    {"open", SYS_openat, 0, 1},
    {"mkdir", SYS_mkdirat, 0, 1},
    {"rename", SYS_renameat, 2, 3},
    {"rename", SYS_renameat2, 2, 3},
    {"unlink", SYS_unlinkat, 0, 1},
    {"access", SYS_faccessat, 0, 1},
    {"write", SYS_write, 0, -1},
    {"write", SYS_pwrite64, 0, -1},
    {"write", SYS_writev, 0, -1},
    {"fallocate", SYS_fallocate, 0, -1},
    {"ftruncate", SYS_ftruncate, 0, -1},
    {"fsync", SYS_fsync, 0, -1},
    {"fsync", SYS_fdatasync, 0, -1},
    {"sync_file_range", SYS_sync_file_range, 0, -1},
    {"fstat", SYS_fstat, 0, -1},
    {"getdents", SYS_getdents64, 0, -1},
    {"lseek", SYS_lseek, 0, -1},
    {"fcntl", SYS_fcntl, 0, -1},
    {"flock", SYS_flock, 0, -1},
    {"mmap", SYS_mmap, 4, -1},
    {"close", SYS_close, 0, -1},
};
enum { CALLS = sizeof calls / sizeof *calls };

typedef struct State {
    const char *directory, *begin, *rule;
    FILE *log;
    bool counts;
    int n;
    char line[LINES][LINE]; /* "CALL PATH" of the counted calls */
} State;

/* Sends the calls of this process and its children to the listener whose
 * descriptor it returns. */
static int install_filter(void)
{
    struct sock_filter f[CALLS + 3] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))};
    for (int i = 0; i < CALLS; i++)
        f[i + 1] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
                                                (unsigned)calls[i].number,
                                                (unsigned char)(CALLS - i), 0);
    f[CALLS + 1] =
        (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    f[CALLS + 2] =
        (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF);
    struct sock_fprog program = {CALLS + 3, f};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return -1;
    return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
                        SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
}

/* The text at an address of the process, "" if it cannot be read. */
static void read_text(pid_t process, uint64_t address, char text[PATH_MAX])
{
    struct iovec to = {text, PATH_MAX - 1};
    struct iovec from = {(void *)(uintptr_t)address, PATH_MAX - 1};
    uint64_t page = 4096, rest = page - address % page;
    ssize_t n = process_vm_readv(process, &to, 1, &from, 1, 0);
    if (n <= 0) { /* the text ends before an unmapped page */
        from.iov_len = (size_t)rest;
        n = process_vm_readv(process, &to, 1, &from, 1, 0);
    }
    text[n > 0 ? n : 0] = 0;
}

/* The path of the call's file. */
static void file_of(const struct seccomp_notif *r, const Call *c,
                    char path[2 * PATH_MAX])
{
    char link[64], directory[PATH_MAX] = "", name[PATH_MAX] = "";
    if (c->path >= 0)
        read_text((pid_t)r->pid, r->data.args[c->path], name);
    if (c->file >= 0 && name[0] != '/') {
        snprintf(link, sizeof link, "/proc/%d/fd/%d", (int)r->pid,
                 (int)r->data.args[c->file]);
        ssize_t n = readlink(link, directory, sizeof directory - 1);
        directory[n > 0 ? n : 0] = 0;
    }
    snprintf(path, 2 * PATH_MAX, "%s%s%s", directory,
             directory[0] && name[0] ? "/" : "", name);
}

/* Removes the random digits of "step-00000003.tmp-5f3a90c2d41b7e68". */
static void remove_random(char *path)
{
    char *p = strstr(path, ".tmp-");
    if (p)
        memmove(p + 4, p + 5 + strspn(p + 5, "0123456789abcdef"),
                strlen(p + 5 + strspn(p + 5, "0123456789abcdef")) + 1);
}

/* Counts a call; the errno with which it fails, 0: it is executed. */
static int count_call(State *s, const struct seccomp_notif *r)
{
    const Call *c = calls;
    char path[2 * PATH_MAX], line[LINE];
    size_t n = strlen(s->directory);
    while (c->number != r->data.nr)
        c++;
    file_of(r, c, path);
    s->counts |= strstr(path, s->begin) != NULL;
    if (!s->counts || strncmp(path, s->directory, n) != 0 || s->n == LINES)
        return 0;
    remove_random(path);
    const char *inside = path[n] == '/' ? path + n + 1 : ".";
    snprintf(line, sizeof line, "%s %.400s", c->name, inside);
    int same = 1;
    for (int i = 0; i < s->n; i++)
        same += strcmp(s->line[i], line) == 0;
    memcpy(s->line[s->n++], line, sizeof line);
    char full[LINE + 32];
    snprintf(full, sizeof full, "%s %d ", line, same);
    fprintf(s->log, "%s\n", full);
    fflush(s->log);
    return strncmp(s->rule, full, strlen(full)) == 0
               ? atoi(s->rule + strlen(full))
               : 0;
}

static void answer(State *s, int listener)
{
    struct seccomp_notif r;
    memset(&r, 0, sizeof r);
    if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &r) != 0)
        return;
    int error = count_call(s, &r);
    struct seccomp_notif_resp a = {
        .id = r.id,
        .error = -error,
        .flags = error ? 0 : SECCOMP_USER_NOTIF_FLAG_CONTINUE};
    ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &a);
}

int main(int argc, char **argv)
{
    static State s;
    int status = 0;
    if (argc < 6)
        return 2;
    s.log = fopen(argv[1], "we");
    s.directory = argv[2];
    s.begin = argv[3];
    s.rule = argv[4];
    volatile int *listener =
        mmap(NULL, sizeof *listener, PROT_READ | PROT_WRITE,
             MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    *listener = -2;
    /* The child shares the descriptors of this process until it calls exec. */
    pid_t child = (pid_t)syscall(SYS_clone, CLONE_FILES | SIGCHLD, 0, 0, 0, 0);
    if (child == 0) {
        *listener = install_filter();
        if (*listener >= 0)
            execvp(argv[5], argv + 5);
        _exit(127);
    }
    while (*listener == -2 && waitpid(child, &status, WNOHANG) == 0)
        usleep(100);
    while (s.log && waitpid(child, &status, WNOHANG) == 0) {
        struct pollfd p = {.fd = *listener, .events = POLLIN};
        if (poll(&p, 1, POLL_MS) > 0 && p.revents & POLLIN)
            answer(&s, *listener);
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
