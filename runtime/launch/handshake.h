/* handshake.h: defines the messages of the handshake between rank 0 and a
 * process that connects to it, the client, and declares the handshake's
 * functions (launch/key.c, launch/store.c, launch/accept_ranks.c).
 *
 *   rank 0  -> Challenge   a nonce
 *   client  -> Hello       its rank and host, its own nonce, and a code
 *                          over both nonces
 *   rank 0  -> Reply       an answer, and a code over it and both nonces
 *
 * A code is an HMAC under the job's key (launch/key.c). It proves that its
 * sender has the key, for this connection only: a recorded code is not valid on
 * another connection, and neither the key nor the token is ever sent.
 */
#ifndef PARC_RT_HANDSHAKE_H
#define PARC_RT_HANDSHAKE_H

#include "launch/job.h"
#include "rt.h"

enum { RT_NONCE = 16, RT_MAGIC = 8 };
enum { RT_HANDSHAKE_VERSION = 2, RT_HANDSHAKE_SECONDS = 10 };

typedef enum RtAnswer {
    RT_JOINED = 1,
    RT_OTHER_JOB,
    RT_OTHER_TOKEN,
    RT_OTHER_SIZE,
    RT_OTHER_PLAN,
    RT_TAKEN,
    RT_NO_RANK,
    RT_SILENT, /* never sent: the client's Hello was not complete */
    RT_ANSWERS,
} RtAnswer;

typedef struct RtChallenge {
    char magic[RT_MAGIC];
    unsigned char nonce[RT_NONCE];
} RtChallenge;

typedef struct RtHello {
    char magic[RT_MAGIC];
    uint32_t version, life; /* life: whether the connection is the lifeline */
    int32_t rank, size;
    uint64_t job, plan;
    char host[RT_NODE];
    unsigned char nonce[RT_NONCE];
    unsigned char code[RT_DIGEST]; /* code over all members before it */
} RtHello;

typedef struct RtReply {
    uint32_t answer, pad;
    unsigned char code[RT_DIGEST];
} RtReply;

extern const char rt_handshake_magic[RT_MAGIC];

/* Fills a nonce with random bytes. */
void rt_nonce(unsigned char nonce[RT_NONCE]);
void rt_hello_code(const RtLaunch *l, const RtChallenge *c, const RtHello *h,
                   unsigned char code[RT_DIGEST]);
void rt_reply_code(const RtLaunch *l, const RtChallenge *c, const RtHello *h,
                   uint32_t answer, unsigned char code[RT_DIGEST]);

/* Rank 0: receives all others (launch/accept_ranks.c); false after a message.
 */
bool rt_accept_ranks(RtStore *s);

#endif
