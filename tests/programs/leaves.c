/* Ranks that end by themselves, one before the other if need be: none waits for another in MPI. */
#include <mpi.h>

int table[3] = {2, 3, 5};
int total = 0;

static void work(int i)
{
    total += table[i]; /* @work */
}

int main(int argc, char **argv)
{
    int i;

    if (argc > 9) /* never: MPI_Finalize would wait for all ranks */
        MPI_Init(&argc, &argv);
    for (i = 0; i < 3; i++)
        work(i);
    return 0;
}
