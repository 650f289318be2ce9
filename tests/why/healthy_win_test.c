/* why: healthy */
#include "why.h"
BODY
{
    MPI_Win win;
    MPI_Group all, others;
    int to = (rank + 1) % size, from = (rank + size - 1) % size;
    MPI_Win_create(big, 1024, sizeof(int), MPI_INFO_NULL, world, &win);
    MPI_Comm_group(world, &all);
    for (;;) {
        int flag = 0;
        MPI_Group_incl(all, 1, &from, &others);
        MPI_Win_post(others, 0, win);
        MPI_Group_free(&others);
        MPI_Group_incl(all, 1, &to, &others);
        MPI_Win_start(others, 0, win);
        MPI_Group_free(&others);
        MPI_Put(&one, 1, MPI_INT, to, 0, 1, MPI_INT, win);
        if (rank == 2)
            usleep(20000);
        MPI_Win_complete(win);
        while (!flag)
            MPI_Win_test(win, &flag);
    }
}
