/* why: unmatched-receive ranks=1-2 victims=0,3 or unmatched-receive ranks=1,3 victims=0,2 */
#include "why.h"

/* In step 5, rank 2 sends with tags that are one too high; its neighbours at an end have no
 * neighbour themselves. */
BODY
{
    enum { CELLS = 1000 };
    int periodic = 0, left, right;
    static double cells[CELLS], from_left[CELLS], from_right[CELLS];
    double mine = 0, sum;
    MPI_Comm line;
    MPI_Cart_create(world, 1, &size, &periodic, 1, &line);
    MPI_Cart_shift(line, 0, 1, &left, &right);
    for (int step = 0; step < 10; step++) {
        int shift = step + (step == 5 && left == 1);
        MPI_Request requests[4];
        MPI_Irecv(from_left, CELLS, MPI_DOUBLE, left, 100 + step, line, &requests[0]);
        MPI_Irecv(from_right, CELLS, MPI_DOUBLE, right, 200 + step, line, &requests[1]);
        MPI_Isend(cells, CELLS, MPI_DOUBLE, left, 200 + shift, line, &requests[2]);
        MPI_Isend(cells, CELLS, MPI_DOUBLE, right, 100 + shift, line, &requests[3]);
        MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
        MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, line);
    }
}
