"""The cost of the recorder of MPI calls: ratios of times with it to times without it, and ns.

``python bench/mpi_recorder.py [--mpirun PROGRAM] [--rounds N]`` runs an 8-byte ping-pong, an 8-byte
allreduce, and a round of Irecv, Isend and Waitall, with two ranks, with and without the recorder in
turns. The reference is the same program without the recorder. The columns are the median of the
ratios of neighbours with the quartiles, the ratio of the least times, and the least time without.

``--fake`` runs the same loops against an MPI whose functions return at once, with the header of
MPICH (``--mpirun`` names its launcher). The difference is the time of the recorder itself, which
other load on the machine hardly changes.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from pgdb.frontend.mpi_recorder.library import FLAGS, build, compiler_of
from pgdb.frontend.mpi_recorder.source import generate, prototypes

HERE = Path(__file__).parent
LOOPS = HERE / "mpi_recorder_loops.c"
FAKE = HERE / "mpi_recorder_fake.c"
NAMES = ("ping-pong, 8 bytes", "allreduce, 8 bytes", "Irecv, Isend, Waitall")
CALLS = (2, 1, 3)
"""Calls of one iteration; a rank without another one has one of the two of a ping-pong twice."""
FUNCTIONS = "Init Send Recv Isend Irecv Waitall Allreduce".split()


def times(line: list[str], library: str) -> list[float]:
    """Return the ns of one iteration of each loop, with a library before all others unless it is
    empty."""
    *launcher, program = line
    words = ["env", f"LD_PRELOAD={library}"] if library else []
    return [
        float(each)
        for each in subprocess.check_output([*launcher, *words, program], text=True).split()
    ]


def build_fake(compiler: str, folder: Path) -> tuple[Path, Path]:
    """Return the loops, linked with an MPI that returns at once, and the recorder for it."""
    shown = subprocess.check_output([compiler, "-show"], text=True).split()
    include = [each for each in shown if each.startswith("-I")]
    header = subprocess.check_output(
        [shown[0], "-E", "-P", *include, "-x", "c", "-"], input="#include <mpi.h>\n", text=True
    )
    found = prototypes(header)
    source, recorder = folder / "recorder.c", folder / "recorder.so"
    source.write_text(generate({f"MPI_{name}": found[f"MPI_{name}"] for name in FUNCTIONS}))
    program = folder / "loops"
    gcc = [shown[0], "-O2", "-w", *include]
    links = [f"-L{folder}", "-lfake", f"-Wl,-rpath,{folder}"]
    for line in (
        [*gcc, "-shared", "-fPIC", str(FAKE), "-o", str(folder / "libfake.so")],
        [*gcc, "-DWITHOUT_MPI", str(LOOPS), "-o", str(program), *links],
        [shown[0], *include, *FLAGS, str(source), "-o", str(recorder), "-ldl", "-lpthread", *links],
    ):
        subprocess.run(line, check=True)
    return program, recorder


def main() -> None:
    """Measure in turns, and print a row for each loop."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mpirun", default="mpirun")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--fake", action="store_true", help="against an MPI that returns at once")
    arguments = parser.parse_args()
    compiler = compiler_of(arguments.mpirun)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if arguments.fake:
            program, recorder = build_fake(compiler, folder)
            line, library = [str(program)], str(recorder)
        else:
            library = str(asyncio.run(build(compiler)))
            program = folder / "loops"
            subprocess.run([compiler, "-O2", "-w", LOOPS, "-o", program], check=True)
            line = [arguments.mpirun, "-n", "2", str(program)]
        pairs = [(times(line, ""), times(line, library)) for _ in range(arguments.rounds)]
    load = f"load {os.getloadavg()[0]:.1f}"
    sys.stdout.write(f"{compiler}, {arguments.rounds} pairs, {load}\n")
    for at, (loop, calls) in enumerate(zip(NAMES, CALLS, strict=True)):
        without = [each[0][at] for each in pairs]
        recorded = [each[1][at] for each in pairs]
        if arguments.fake:
            each_ns = (min(recorded) - min(without)) / calls
            sys.stdout.write(f"{loop:24} {each_ns:6.1f} ns for each call\n")
            continue
        ratios = [b / a for a, b in zip(without, recorded, strict=True)]
        low, middle, high = statistics.quantiles(ratios, n=4)
        least = min(recorded) / min(without)
        row = f"{middle:6.3f}   ({low:.3f} to {high:.3f})   {least:6.3f}   {min(without):7.0f} ns"
        sys.stdout.write(f"{loop:24} {row}\n")


if __name__ == "__main__":
    main()
