/* why: healthy */
#include <mpi.h>
int main(int argc, char **argv)
{
    int me, v = 0, f; MPI_Request q;
    MPI_Init(&argc, &argv); MPI_Comm_rank(MPI_COMM_WORLD, &me);
    for (int i = 0;; i++) {
        if ((i + me) % 2) MPI_Send(&v, 1, MPI_INT, me ^ 1, 3, MPI_COMM_WORLD);
        else { MPI_Irecv(&v, 1, MPI_INT, me ^ 1, 3, MPI_COMM_WORLD, &q); for (f = 0; !f;) MPI_Test(&q, &f, MPI_STATUS_IGNORE); }
    }
}
