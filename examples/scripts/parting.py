"""Find the iteration in which a rank parts from the others, and the line at which it does.

    python parting.py LOCATION EXPRESSION mpirun -n 8 ./program arguments...

The job runs twice: from hit to hit of LOCATION until the value of EXPRESSION differs across ranks,
then to the hit before, and step by step from there, into functions of the program. The exit status
is 1 if ranks part, 3 after an error.
"""

import sys

import pgdb

TIMEOUT_S = 600.0
SKIP_MPI = "skip -rfunction ^P?MPI_"
"""Command for MPI libraries with debug information: each rank goes its own way in them."""


def main() -> int:
    if len(sys.argv) < 5:
        print(__doc__, file=sys.stderr)
        return 2
    location, expression, *job = sys.argv[1:]
    try:
        # The program's output is discarded.
        with pgdb.launch(job, on_output=lambda stream, data: None) as session:
            found = session.until_differ(expression, at=location, timeout_s=TIMEOUT_S)
        if found.check is None:
            return error(f"no value of {expression} was compared: {location}: {found.end}")
        if found.end == "failed":
            failed = [f"[{each.ranks}] {each.value}" for each in found.check.failing]
            return error("; ".join(failed) or f"the ranks do not run on behind hit {found.hit}")
        if not found.differs:
            print(f"{expression} is the same at {found.hit} hits of {location} ({found.end})")
            return 0 if found.end in ("complete", "ended") else 3
        print(f"hit {found.hit} of {location}: most ranks have {found.check.common}")
        for each in found.check.failing:
            print(f"  [{each.ranks}] {each.value}")
        if found.hit < 2:
            return 1  # there is no hit from which the ranks could step
        with pgdb.launch(job, on_output=lambda stream, data: None) as session:
            before = found.hit - 1
            again = session.until_differ(expression, at=location, limit=before, timeout_s=TIMEOUT_S)
            if again.end != "complete":
                return error(f"the second run is not as the first: hit {again.hit}: {again.end}")
            session.execute(SKIP_MPI).check()
            session.break_at(location).check()
            parted = session.until_diverge(timeout_s=TIMEOUT_S)
            if parted.end == "stopped" and parted.are_together:
                print(f"all ranks take the same way from hit {before} to the next: data differ")
                return 1
            print(f"after hit {before}: {parted.steps} steps, then {parted.end}")
            print(f"  from {parted.start.text}")
            for way in parted.ways:
                print(f"  [{way.ranks}] {way.text}")
    except pgdb.PgdbError as failure:
        return error(str(failure))
    return 1


def error(text: str) -> int:
    print(f"parting.py: {text}", file=sys.stderr)
    return 3


if __name__ == "__main__":
    sys.exit(main())
