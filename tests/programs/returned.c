/* Functions whose results are numbers of 128 bits, different on each rank. */
#include <mpi.h>

typedef __int128 wide_t;
struct of_wide { wide_t part; };
struct of_quad { _Float128 part; };

static wide_t wide(int rank) { return ((wide_t)1 << 70) + rank; }
static wide_t negative(int rank) { return -((wide_t)1 << 70) - rank; }
static unsigned __int128 unsigned_wide(int rank) { return ~(unsigned __int128)rank; }
static _Float128 quad(int rank) { return rank + 0.25; }
static struct of_wide member(int rank) { return (struct of_wide){wide(rank)}; }
static struct of_quad quad_member(int rank) { return (struct of_quad){quad(rank)}; }
static long double extended(int rank) { return rank + 0.5L; }
static long narrow(int rank) { return -rank - 1; }
static double real(int rank) { return rank + 0.125; }

int main(int argc, char **argv)
{
    int rank;
    double sum = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    sum += (double)wide(rank); /* @begin */
    sum += (double)negative(rank);
    sum += (double)unsigned_wide(rank);
    sum += (double)quad(rank);
    sum += (double)member(rank).part;
    sum += (double)quad_member(rank).part;
    sum += (double)extended(rank);
    sum += (double)narrow(rank);
    sum += real(rank);
    MPI_Finalize();
    return sum == 0;
}
