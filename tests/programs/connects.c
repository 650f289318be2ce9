/* Two jobs of 2 ranks each: `connects accept FILE` writes the name of its port there, `connects connect
 * FILE` connects to it. Each rank prints a line when it begins to wait; all wait. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    char port[MPI_MAX_PORT_NAME] = "", part[4096];
    volatile int go_on = 1;
    int rank, accepts;
    MPI_Comm others;
    FILE *file;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    accepts = strcmp(argv[1], "accept") == 0;
    if (accepts && rank == 0) {
        MPI_Open_port(MPI_INFO_NULL, port);
        snprintf(part, sizeof part, "%s.part", argv[2]);
        file = fopen(part, "w");
        fputs(port, file);
        fclose(file);
        rename(part, argv[2]);
    } else if (rank == 0) {
        while ((file = fopen(argv[2], "r")) == NULL)
            usleep(1000);
        if (fgets(port, sizeof port, file) == NULL)
            return 1;
        fclose(file);
    }
    if (accepts)
        MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &others);
    else
        MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &others); /* @connect */
    printf("%d waits\n", rank);
    fflush(stdout);
    while (go_on) /* @wait */
        usleep(1000); /* @waiting */
    return 0;
}
