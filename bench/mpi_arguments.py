"""Score of the arguments of MPI calls in random programs: exact, missing and wrong fields.

``python -m bench.mpi_arguments [MPI …]`` writes programs whose arguments are random expressions
(``tests/support/call_programs.py``), builds them in several ways with each MPI that is there, and
stops rank 1 in each call. ``--calls N`` is the number of calls of each program, ``--seed N`` the
first seed, ``--show`` prints the functions whose arguments are missing or wrong.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from bench.mpi_calls import MPIS
from tests.support.call_programs import built
from tests.support.call_stops import stops
from tests.support.call_truth import Score, Truth, compare
from tests.support.programs import Mpi, find_mpi

BUILDS = {
    "-O0": "-O0 -g",
    "-O2": "-O2 -g",
    "-O3": "-O3 -g -march=native -fno-plt",
    "-Os": "-Os -g -fcf-protection -fomit-frame-pointer",
    "stripped": "-O2 -s -flto",
}


def main() -> None:
    """Print one line for each MPI and build."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("mpis", nargs="*", default=MPIS)
    parser.add_argument("--calls", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--builds", default="-O0,-O2")
    parser.add_argument("--languages", default="c,cpp")
    parser.add_argument("--show", action="store_true")
    parser.add_argument("--keep", type=Path)
    chosen = parser.parse_args()
    print(f"{'MPI':14} {'build':9} {'':8} exact missing wrong  sources")
    for name in chosen.mpis:
        try:
            mpi = find_mpi(name)
        except pytest.skip.Exception as why:
            print(f"{name:14} {why}")
            continue
        for build in chosen.builds.split(",") if chosen.builds else BUILDS:
            for language in chosen.languages.split(","):
                with tempfile.TemporaryDirectory() as directory:
                    look_at(mpi, build, language, chosen, chosen.keep or Path(directory))


def look_at(
    mpi: Mpi, build: str, language: str, chosen: argparse.Namespace, directory: Path
) -> None:
    """Print the score of one program."""
    random, flags = Random(chosen.seed), BUILDS[build].split()
    try:
        program, truth = built(mpi, language, flags, random, chosen.calls, directory)
    except pytest.skip.Exception as why:
        print(f"{mpi.name:14} {build:9} {language:8} {why}")
        return
    total, sources, functions = Score(wrong=[]), Counter[str](), Counter[str]()
    for number, status in stops(mpi, program, chosen.calls):
        one = score_of(status, truth[number])
        total.exact += one.exact
        total.missing += one.missing
        total.wrong += one.wrong
        if status.call is not None:
            sources.update(each.source for each in status.call.sources)
        if one.missing or one.wrong:
            functions[truth[number].function] += one.missing
            if chosen.show:
                print(
                    f"  call_{number}: missing {one.missing}, {one.wrong}; {truth[number].fields}"
                )
                print(f"    {status.call}"[:600])
    shown = ", ".join(f"{source} {count}" for source, count in sources.most_common())
    numbers = f"{total.exact:5} {total.missing:7} {len(total.wrong):5}"
    print(f"{mpi.name:14} {build:9} {language:8} {numbers}  {shown}", flush=True)
    print("    missing in", dict(functions.most_common()))
    for each in total.wrong:
        print(f"    {each}")


def score_of(status: object, truth: Truth) -> Score:
    """Compare a status with the truth."""
    score = Score(wrong=[])
    call = getattr(status, "call", None)
    if call is None:
        score.missing += len(truth.fields)
    else:
        compare(call, truth, score)
    return score


if __name__ == "__main__":
    main()
