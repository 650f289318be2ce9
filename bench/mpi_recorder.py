"""The cost of the recorder of MPI calls, as ratios of times with it to times without it.

``python bench/mpi_recorder.py [ROUNDS]`` runs an 8-byte ping-pong, an 8-byte allreduce, and a round
of Irecv, Isend and Waitall, with two ranks, with and without the recorder in turns. The reference
is the same program without the recorder. Medians of the ratios of neighbours, with the quartiles.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from pgdb.frontend.mpi_recorder.library import build, compiler_of

SOURCE = """
#include <mpi.h>
#include <stdio.h>
enum { N = 30000, BEST_OF = 5 };
static double x = 1, y;
static int other;
static void pingpong(int rank)
{
    for (int i = 0; i < N; i++)
        for (int part = 0; part < 2; part++)
            if (part == rank)
                MPI_Send(&x, 1, MPI_DOUBLE, other, 0, MPI_COMM_WORLD);
            else
                MPI_Recv(&y, 1, MPI_DOUBLE, other, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}
static void allreduce(int rank)
{
    (void)rank;
    for (int i = 0; i < N; i++)
        MPI_Allreduce(&x, &y, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}
static void waitall(int rank)
{
    MPI_Request requests[2];
    (void)rank;
    for (int i = 0; i < N; i++) {
        MPI_Irecv(&y, 1, MPI_DOUBLE, other, 0, MPI_COMM_WORLD, &requests[0]);
        MPI_Isend(&x, 1, MPI_DOUBLE, other, 0, MPI_COMM_WORLD, &requests[1]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    }
}
static double best(void (*work)(int), int rank)
{
    double least = 1e9;
    for (int k = 0; k < BEST_OF; k++) {
        MPI_Barrier(MPI_COMM_WORLD);
        double begin = MPI_Wtime();
        work(rank);
        double taken = MPI_Wtime() - begin;
        least = taken < least ? taken : least;
    }
    return least;
}
int main(int argc, char **argv)
{
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    other = 1 - rank;
    double times[] = {best(pingpong, rank), best(allreduce, rank), best(waitall, rank)};
    if (rank == 0)
        printf("%.9g %.9g %.9g\\n", times[0], times[1], times[2]);
    MPI_Finalize();
    return 0;
}
"""
NAMES = ("ping-pong, 8 bytes", "allreduce, 8 bytes", "Irecv, Isend, Waitall")


def times(program: Path, library: str) -> list[float]:
    """Return the seconds of each loop, with a library before all others unless it is empty."""
    words = ["env", f"LD_PRELOAD={library}"] if library else []
    line = ["mpirun", "-n", "2", *words, str(program)]
    return [float(each) for each in subprocess.check_output(line, text=True).split()]


def main(arguments: list[str]) -> None:
    """Measure in turns, and print a row for each loop."""
    rounds = int(arguments[0]) if arguments else 15
    launcher = shutil.which("mpirun") or "mpirun"
    compiler = compiler_of(launcher)
    library = str(asyncio.run(build(compiler)))
    with tempfile.TemporaryDirectory() as folder:
        source, program = Path(folder, "loops.c"), Path(folder, "loops")
        source.write_text(SOURCE)
        subprocess.run([compiler, "-O2", source, "-o", program], check=True)
        ratios: list[list[float]] = [[] for _ in NAMES]
        for _ in range(rounds):
            without, recorded = times(program, ""), times(program, library)
            for at, (a, b) in enumerate(zip(without, recorded, strict=True)):
                ratios[at].append(b / a)
    sys.stdout.write(f"{compiler}, {rounds} pairs, load {os.getloadavg()[0]:.1f}\n")
    for name, found in zip(NAMES, ratios, strict=True):
        low, middle, high = statistics.quantiles(found, n=4)
        sys.stdout.write(f"{name:24} {middle:6.3f}   ({low:.3f} to {high:.3f})\n")


if __name__ == "__main__":
    main(sys.argv[1:])
