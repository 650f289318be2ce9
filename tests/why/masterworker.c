/* why: unmatched-receive ranks=4 victims=0-3 n=5 */
#include <mpi.h>
#define WORK 1
#define STOP 2
static void master(int np)
{
    double res; MPI_Status st; int next = 0, todo = 40, active = 0;
    for (int w = 1; w < np; w++, active++) { MPI_Send(&next, 1, MPI_INT, w, WORK, MPI_COMM_WORLD); next++; }
    while (active) {
        MPI_Recv(&res, 1, MPI_DOUBLE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &st);
        if (next < todo) { MPI_Send(&next, 1, MPI_INT, st.MPI_SOURCE, WORK, MPI_COMM_WORLD); next++; }
        else active--;
    }
    for (int w = 1; w < np - 1; w++) MPI_Send(&next, 1, MPI_INT, w, STOP, MPI_COMM_WORLD);
}
static void worker(void)
{
    for (;;) {
        int job; MPI_Status st;
        MPI_Recv(&job, 1, MPI_INT, 0, MPI_ANY_TAG, MPI_COMM_WORLD, &st);
        if (st.MPI_TAG == STOP) return;
        double r = job * 0.5;
        MPI_Send(&r, 1, MPI_DOUBLE, 0, job, MPI_COMM_WORLD);
    }
}
int main(int argc, char **argv)
{
    int me, np;
    MPI_Init(&argc, &argv); MPI_Comm_rank(MPI_COMM_WORLD, &me); MPI_Comm_size(MPI_COMM_WORLD, &np);
    if (me) worker(); else master(np);
    MPI_Finalize();
}
