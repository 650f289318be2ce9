/* why: cycle ranks=1-3 victims=0,4 n=5 */
#include "why.h"
BODY { int v = rank, g, up = (rank + 1) % size, down = (rank + size - 1) % size; for (int i = 0; i < 4; i++) { if (i == 2 && rank == 2) MPI_Sendrecv(big, 300000, MPI_INT, down, 1, big, 300000, MPI_INT, up, 1, world, IGNORE); else MPI_Sendrecv(big, 300000, MPI_INT, up, 1, big, 300000, MPI_INT, down, 1, world, IGNORE); } MPI_Barrier(world); }
