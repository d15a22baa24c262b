/* rt_cuda_progress.c: records which collective each stream of the device
 * executes.
 *
 * A graph runs without the host, so the device itself reports its progress:
 * before and after each collective the stream writes a word of pinned memory.
 * Collective i of a stream in a step has begun if the word is 2 i + 1, and has
 * ended if it is 2 i + 2; 0 means that none has begun. All ranks of a pipeline's
 * stage, and without a pipeline all ranks, enqueue the same collectives in the
 * same order, so one rank's table explains the words of the others. A side program's collectives continue the numbers of the
 * programs that were enqueued before it.
 *
 * The word is written by a memset node. (cuStreamWriteValue32 is cheaper, but
 * drivers of CUDA 12 refuse it if the kernel module was loaded without stream
 * memory operations.) No document says that memset nodes can write pinned
 * memory, so init tries one (rt_nccl.c). If that fails, the memset writes
 * device memory and a copy brings the word to the host. A word costs about a
 * microsecond before a collective. The word after a collective is written after
 * the event that other streams wait for. It is omitted if the stream's next
 * collective follows without a wait, because the begin of that one implies it.
 */
#include <stdlib.h>

#include "common/message.h"
#include "cuda/core/rt_nccl.h"
#include "rt.h"

/* Words are in separate cache lines. */
enum { WORD_STRIDE = 16, WORDS = PARC_STREAMS * WORD_STRIDE };

void rt_cuda_progress_open(ParcRt *rt, bool relayed)
{
    CudaProgress *p = &rt->device->comms->progress;
    void *words = NULL;
    CU(rt, cuMemHostAlloc(&words, WORDS * sizeof *p->word,
                          RT_CU_HOST_PORTABLE));
    p->word = words;
    for (int i = 0; i < WORDS; i++)
        atomic_init(&p->word[i], 0);
    if (relayed)
        CU(rt, cuMemAlloc(&p->relay, WORDS * sizeof *p->word));
}

void rt_cuda_progress_close(ParcRt *rt)
{
    CudaProgress *p = &rt->device->comms->progress;
    for (int i = 0; i < PARC_STREAMS; i++)
        free(p->position[i]);
    if (p->word)
        CU(rt, cuMemFreeHost((void *)p->word));
    if (p->relay)
        CU(rt, cuMemFree(p->relay));
}

/* Sets n words from `first` on, on a stream. */
static void set_words(ParcRt *rt, int stream, int first, int n, uint32_t value)
{
    const CudaProgress *p = &rt->device->comms->progress;
    CuStream queue = rt->device->stream[stream];
    void *word = (void *)&p->word[first];
    size_t size = sizeof *p->word;
    CuAddress at = p->relay ? p->relay + (size_t)first * size
                            : rt_cuda_address(word);
    CU(rt, cuMemsetD32Async(at, value, (size_t)n, queue));
    if (p->relay)
        CU(rt, cuMemcpyDtoHAsync(word, at, (size_t)n * size, queue));
}

static void write_progress(ParcRt *rt, int stream, uint32_t word)
{
    set_words(rt, stream, stream * WORD_STRIDE, 1, word);
}

void rt_cuda_progress_step(ParcRt *rt, CudaProgram program)
{
    CudaComms *c = rt->device->comms;
    if (!c)
        return;
    CudaProgress *p = &c->progress;
    set_words(rt, PARC_COMPUTE, 0, WORDS, 0);
    for (int i = 0; i < PARC_STREAMS; i++) {
        if (p->placed[program] < rt->rounds)
            p->first[program][i] = p->known[i];
        p->n[i] = p->first[program][i];
        p->owed[i] = false;
    }
    p->placed[program] = rt->rounds > p->placed[program] ? rt->rounds : p->placed[program];
}

/* Appends an entry for the stream's next collective. */
static CudaPosition *next_position(CudaProgress *p, int stream)
{
    uint32_t i = p->n[stream]++;
    p->position[stream] = rt_grow(p->position[stream], i, &p->capacity[stream],
                                  sizeof *p->position[stream]);
    if (p->known[stream] <= i)
        p->known[stream] = i + 1;
    return &p->position[stream][i];
}

void rt_cuda_progress_begin(ParcRt *rt, int stream, int id)
{
    const RtDevice *d = rt->device;
    CudaProgress *p = &d->comms->progress;
    *next_position(p, stream) =
        (CudaPosition){.id = id, .work = d->work, .iteration = d->iteration};
    p->owed[stream] = false;
    write_progress(rt, stream, 2 * p->n[stream] - 1);
}

void rt_cuda_progress_peer(ParcRt *rt, int stream, int rank)
{
    CudaProgress *p = &rt->device->comms->progress;
    p->position[stream][p->n[stream] - 1].peer = rank + 1;
}

void rt_cuda_progress_settle(ParcRt *rt, int stream)
{
    const CudaComms *c = rt->device->comms;
    if (c && c->progress.owed[stream]) {
        rt->device->comms->progress.owed[stream] = false;
        write_progress(rt, stream, 2 * c->progress.n[stream]);
    }
}

/* On the compute stream kernels follow, which write no word; so the end is
 * written immediately. */
void rt_cuda_progress_end(ParcRt *rt, int stream)
{
    rt->device->comms->progress.owed[stream] = true;
    if (stream == PARC_COMPUTE || rt->device->mode.sync)
        rt_cuda_progress_settle(rt, stream);
}

const CudaPosition *rt_cuda_progress_position(const ParcRt *rt, int stream,
                                              uint32_t word)
{
    const CudaProgress *p = &rt->device->comms->progress;
    uint32_t i = (word - 1) / 2;
    return word > 0 && i < p->known[stream] ? &p->position[stream][i] : NULL;
}

/* Stores the current or latest collective of any stream. */
static void note_collective(RtStatus *status, const CudaPosition *position,
                            bool in)
{
    if (position) {
        atomic_store(&status->collective, position->id);
        atomic_store(&status->state, in ? RT_MOVING : RT_COMPUTING);
        if (position->peer)
            atomic_store(&status->peer, in ? position->peer : 0);
    }
}

void rt_cuda_progress_publish(ParcRt *rt)
{
    const CudaComms *c = rt->device->comms;
    RtStatus *status = &rt->world->status[rt->rank];
    for (int i = 0; c && i < PARC_STREAMS; i++) {
        uint32_t word = atomic_load(&c->progress.word[i * WORD_STRIDE]);
        if (word != atomic_load(&status->begun[i])) {
            atomic_store(&status->begun[i], word);
            note_collective(status, rt_cuda_progress_position(rt, i, word),
                            word % 2 == 1);
        }
    }
}

void rt_cuda_progress_forget(ParcRt *rt)
{
    RtStatus *status = &rt->world->status[rt->rank];
    for (int i = 0; i < PARC_STREAMS; i++)
        atomic_store(&status->begun[i], 0);
    atomic_store(&status->state, RT_COMPUTING);
    atomic_store(&status->peer, 0);
}
