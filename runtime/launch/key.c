/* key.c: computes the key of a job and the authentication codes of the
 * handshake (launch/handshake.h).
 *
 * The key is a hash of the job's identity, as the launcher sets it in the
 * environment, and of the token, from PARC_TOKEN or the file that
 * PARC_TOKEN_FILE names. Without a token anyone who knows the job's identity
 * can compute the key: it only prevents accidents, and rank 0 then does not
 * end the run because of a client's message.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "common/message.h"
#include "launch/handshake.h"
#include "launch/job.h"
#include "rt.h"

enum { LEAST_TOKEN = 16, MOST_TOKEN = 4096 };

const char rt_handshake_magic[RT_MAGIC] = "parcrank";

/* Variables that identify a job; they are equal in all of its processes. */
static const char *const job_variable[] = {
    "PARC_MASTER",    "TORCHELASTIC_RUN_ID", "MASTER_PORT",
    "PMIX_NAMESPACE", "SLURM_JOB_ID",        "SLURM_STEP_ID"};
enum { VARIABLES = sizeof job_variable / sizeof *job_variable };

static const char *variable_value(const char *name)
{
    const char *value = rt_variable(name);
    return value ? value : "";
}

/* The file's text; false after a message. */
static bool read_file(const char *path, char token[MOST_TOKEN + 2])
{
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t n = file < 0 ? -1 : read(file, token, MOST_TOKEN + 1);
    if (n < 0)
        rt_error("cannot read '%s', which PARC_TOKEN_FILE names: %s", path,
                 strerror(errno));
    if (file >= 0)
        close(file);
    token[n < 0 ? 0 : n] = 0;
    token[strcspn(token, "\r\n")] = 0;
    return n >= 0;
}

static bool read_token(char token[MOST_TOKEN + 2])
{
    const char *text = variable_value("PARC_TOKEN");
    const char *path = variable_value("PARC_TOKEN_FILE");
    if (*text && *path)
        return rt_error("PARC_TOKEN and PARC_TOKEN_FILE are both set in the "
                        "environment: set one of them");
    snprintf(token, MOST_TOKEN + 2, "%s", text);
    if (*path && !read_file(path, token))
        return false;
    size_t n = strlen(token);
    if ((!*text && !*path) || (n >= LEAST_TOKEN && n <= MOST_TOKEN))
        return true;
    return rt_error(
        "the token in %s has %s%zu characters; it takes %d to %d, for example "
        "the output of 'openssl rand -hex 16'",
        *path ? "the file that PARC_TOKEN_FILE names" : "PARC_TOKEN",
        n > MOST_TOKEN ? "more than " : "",
        n > MOST_TOKEN ? (size_t)MOST_TOKEN : n, LEAST_TOKEN, MOST_TOKEN);
}

bool rt_key(RtLaunch *l)
{
    char token[MOST_TOKEN + 2];
    RtBytes text[VARIABLES + 1];
    if (!read_token(token))
        return false;
    for (int i = 0; i < VARIABLES; i++) {
        const char *value = variable_value(job_variable[i]);
        text[i] = (RtBytes){value, strlen(value) + 1};
    }
    text[VARIABLES] = (RtBytes){"job", 3}; /* no token is that short */
    rt_hash_of(text, VARIABLES + 1, l->key);
    memcpy(&l->job, l->key, sizeof l->job);
    text[VARIABLES] = (RtBytes){token, strlen(token)};
    rt_hash_of(text, VARIABLES + 1, l->key);
    l->secret = token[0] != 0;
    return true;
}

void rt_nonce(unsigned char nonce[RT_NONCE])
{
    size_t have = 0;
    while (have < RT_NONCE) {
        ssize_t n = getrandom(nonce + have, RT_NONCE - have, 0);
        if (n > 0)
            have += (size_t)n;
        else if (errno != EINTR)
            abort(); /* available since Linux 3.17 */
    }
}

/* The texts begin with "rank" or "root": a code of one end is never valid as a
 * code of the other. */
void rt_hello_code(const RtLaunch *l, const RtChallenge *c, const RtHello *h,
                   unsigned char code[RT_DIGEST])
{
    const RtBytes text[] = {
        {"rank", 4}, {c->nonce, RT_NONCE}, {h, offsetof(RtHello, code)}};
    rt_hmac((RtBytes){l->key, sizeof l->key}, text, 3, code);
}

void rt_reply_code(const RtLaunch *l, const RtChallenge *c, const RtHello *h,
                   uint32_t answer, unsigned char code[RT_DIGEST])
{
    const RtBytes text[] = {{"root", 4},
                            {c->nonce, RT_NONCE},
                            {h->nonce, RT_NONCE},
                            {&answer, sizeof answer}};
    rt_hmac((RtBytes){l->key, sizeof l->key}, text, 4, code);
}
