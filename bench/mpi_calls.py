"""Score of the arguments of MPI calls: exact, missing and wrong fields, by MPI and by source.

``python -m bench.mpi_calls [MPI …]`` builds ``tests/programs/mpi_calls.c`` at -O0 and -O2 with each
MPI that is there, and stops rank 1 in each of its calls, somewhere inside the MPI library. The
comment beside a call is its truth. ``--rounds N`` repeats all that with other places to stop.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter
from pathlib import Path

import pytest

import pgdb
from pgdb.mpi_calls import MpiCall, MpiCallStatus
from tests.support.call_truth import Score, compare, truths
from tests.support.programs import Builder, Program, find_mpi

MPIS = ("openmpi", "openmpi5", "mpich-system", "mpich", "intel")
LEVELS = ("-O0", "-O2")
RANKS = 4
CALLS = 26


def main() -> None:
    """Print one line for each MPI and level."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("mpis", nargs="*", default=MPIS)
    parser.add_argument("--rounds", type=int, default=1)
    chosen = parser.parse_args()
    print(f"{'MPI':14} {'level':5} exact missing wrong  sources")
    for name in chosen.mpis:
        try:
            mpi = find_mpi(name)
        except pytest.skip.Exception as why:
            print(f"{name:14} {why}")
            continue
        with tempfile.TemporaryDirectory() as directory:
            builder = Builder(Path(directory))
            for level in LEVELS:
                program = builder.build(mpi, "mpi_calls.c", level)
                score, sources = Score(), Counter[str]()
                for _ in range(chosen.rounds):
                    look_at_all(mpi.line(RANKS, program), program, score, sources)
                shown = ", ".join(f"{source} {count}" for source, count in sources.most_common())
                numbers = f"{score.exact:5} {score.missing:7} {len(score.wrong):5}"
                print(f"{name:14} {level:5} {numbers}  {shown}")
                for each in score.wrong:
                    print(f"    {each}")


def look_at_all(line: list[str], program: Program, score: Score, sources: Counter[str]) -> None:
    """Stop rank 1 of a job in each call, and add the results."""
    truth = truths(program.source)
    with pgdb.launch(line) as session:
        victim = session.ranks("1")
        session.continue_(wait=False)
        for number in range(1, CALLS + 1):
            call = None
            while call is None:
                session.interrupt()
                session.wait()
                if victim.evaluate("current").values == {1: number}:
                    call = active_call(victim.mpi_calls().for_rank(1))
                if call is None:
                    session.continue_(wait=False)
            function, at = call
            compare(function, truth[at], score)
            sources.update(each.source for each in function.sources)
            session.evaluate(f"released = {number}").check()
            session.continue_(wait=False)
        session.wait()


def active_call(status: object) -> tuple[MpiCall, int] | None:
    """Return the call of a status and its line, None for a rank outside MPI."""
    if not isinstance(status, MpiCallStatus) or status.call is None or status.where is None:
        return None
    return status.call, status.where.line


if __name__ == "__main__":
    main()
