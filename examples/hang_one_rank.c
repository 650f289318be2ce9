/*
 * hang_one_rank: let heat spread around a ring of blocks, one block per rank.
 *
 * In every step each rank passes its temperature to its right neighbour, takes the one of its left
 * neighbour and mixes the two.  Every fifth step each rank hands its temperature to the log.
 * Rank 0 prints the end temperature, the mean of the start temperatures.  Needs 2 ranks or more.
 */
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>

enum { STEPS = 100000, LOG_EVERY = 5 };

static const double LIMIT = 80.0; /* degrees above which a block only raises the alarm */

static volatile int log_busy; /* 1 from begin_log() to end_log() */
static int alarms;

static void begin_log(void)
{
    while (log_busy)
        usleep(10000); /* @sleep */
    log_busy = 1;
}

static void end_log(void)
{
    log_busy = 0;
}

static void log_temperature(FILE *out, int step, double temperature)
{
    begin_log(); /* @log */
    if (temperature > LIMIT) {
        alarms++;
        return; /* @alarm */
    }
    fprintf(out, "%d %.3f\n", step, temperature);
    end_log();
}

static double exchange(int rank, int size, double temperature)
{
    int left = (rank + size - 1) % size;
    int right = (rank + 1) % size;
    double from_left = 0.0;

    MPI_Sendrecv(&temperature, 1, MPI_DOUBLE, right, 0, /* @exchange */
                 &from_left, 1, MPI_DOUBLE, left, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return from_left;
}

int main(int argc, char **argv)
{
    int rank, size;

    MPI_Init(&argc, &argv); /* @main */
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);

    FILE *out = fopen("/dev/null", "w");
    double temperature = rank == 1 ? 95.0 : 20.0; /* the heater stands in block 1 */

    for (int step = 0; step < STEPS; step++) {
        if (step % LOG_EVERY == 0)
            log_temperature(out, step, temperature);
        double from_left = exchange(rank, size, temperature); /* @step */
        temperature = 0.5 * (temperature + from_left);
    }

    if (rank == 0)
        printf("end temperature %.3f\n", temperature);
    fclose(out);
    MPI_Finalize();
    return 0;
}
