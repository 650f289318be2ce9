"""Normalise the readings of one sensor per rank and print a summary of all of them.

Rank 0 broadcasts the settings.  Each rank reads its sensor, scales the readings to mean 0 and
spread 1 and shares its largest reading with all other ranks; rank 0 prints them.  Needs 2 ranks or
more: mpirun -n 4 python python_mismatch.py
"""

import math

from mpi4py import MPI

STUCK_SENSOR = 1  # this one has delivered the same reading since it was built in


def read_sensor(sensor: int, count: int) -> list[float]:
    """Return ``count`` readings of a sensor."""
    if sensor == STUCK_SENSOR:
        return [20.0] * count
    return [20.0 + math.sin(sensor + i) for i in range(count)]


def normalise(readings: list[float]) -> list[float]:
    """Scale readings to mean 0 and spread 1."""
    mean = math.fsum(readings) / len(readings)
    spread = math.sqrt(math.fsum((value - mean) ** 2 for value in readings) / len(readings))
    return [(value - mean) / spread for value in readings]  # @normalise


def summarise(comm: MPI.Intracomm, readings: list[float]) -> list[float]:
    """Return the largest normalised reading of every rank."""
    try:
        largest = max(normalise(readings))
        return comm.allgather(largest)  # @allgather
    except ZeroDivisionError:
        return []  # @except


def main() -> None:
    """Run the rounds of measuring."""
    comm = MPI.COMM_WORLD
    settings = {"rounds": 5, "count": 16} if comm.rank == 0 else None
    settings = comm.bcast(settings, root=0)  # @bcast

    for number in range(settings["rounds"]):
        readings = read_sensor(comm.rank, settings["count"])
        peaks = summarise(comm, readings)  # @summarise
        if comm.rank == 0:
            print(f"round {number}:", " ".join(f"{peak:.3f}" for peak in peaks), flush=True)
        comm.barrier()  # @barrier


if __name__ == "__main__":
    main()
