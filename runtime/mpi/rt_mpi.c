/* rt_mpi.c: sends messages between the nodes of a CPU program with MPI.
 *
 * Only programs that are planned for several nodes (parc --node-size) contain
 * this file. MPI moves bytes: which rank adds what, and in which order, is
 * decided in cpu/rt_nodes.c, so that sums do not depend on the library. One
 * thread of a rank calls MPI.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#include "parc_rt.h"

static bool open_mpi(int rank, int nranks, char *error, size_t size)
{
    int provided = 0, is = -1, n = 0;
    if (MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided) !=
        MPI_SUCCESS) {
        snprintf(error, size, "MPI_Init_thread fails");
        return false;
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &is);
    MPI_Comm_size(MPI_COMM_WORLD, &n);
    if (is == rank && n == nranks && provided >= MPI_THREAD_FUNNELED)
        return true;
    snprintf(error, size,
             provided < MPI_THREAD_FUNNELED
                 ? "the MPI library lacks MPI_THREAD_FUNNELED"
                 : "the library has rank %d of %d, the launcher rank %d of %d: "
                   "start the program with the mpirun of the library that it "
                   "is linked to",
             is, n, rank, nranks);
    return false;
}

static int start_messages(const ParcMessage *m, int n, bool receive, int tag,
                          MPI_Request *request)
{
    for (int i = 0; i < n; i++) {
        int bytes = (int)m[i].bytes;
        int code = receive ? MPI_Irecv(m[i].data, bytes, MPI_BYTE, m[i].peer,
                                       tag, MPI_COMM_WORLD, &request[i])
                           : MPI_Isend(m[i].data, bytes, MPI_BYTE, m[i].peer,
                                       tag, MPI_COMM_WORLD, &request[i]);
        if (code != MPI_SUCCESS)
            return code;
    }
    return MPI_SUCCESS;
}

static bool exchange_messages(const ParcMessage *send, int nsend,
                              const ParcMessage *receive, int nreceive, int tag,
                              void (*wait)(void *context), void *context)
{
    int done = 0;
    MPI_Request *request =
        malloc((size_t)(nsend + nreceive + 1) * sizeof *request);
    if (!request)
        return false;
    int code = start_messages(receive, nreceive, true, tag, request);
    if (code == MPI_SUCCESS)
        code = start_messages(send, nsend, false, tag, request + nreceive);
    while (code == MPI_SUCCESS && !done) {
        code = MPI_Testall(nsend + nreceive, request, &done,
                           MPI_STATUSES_IGNORE);
        if (code == MPI_SUCCESS && !done)
            wait(context);
    }
    free(request);
    return code == MPI_SUCCESS;
}

static void close_mpi(void)
{
    MPI_Finalize();
}

const ParcTransport parc_mpi = {"MPI", open_mpi, exchange_messages, close_mpi};
