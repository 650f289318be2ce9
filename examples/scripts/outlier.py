"""Run a program to a breakpoint and print the ranks on which a value differs from most others.

    python outlier.py LOCATION EXPRESSION mpirun -n 4 ./program arguments...

The exit status is 1 if there are such ranks, so that a CI job fails. For wrong_value.f90:

    python outlier.py wrong_value.f90:58 partial mpirun -n 4 build/wrong_value
"""

import sys

import pgdb

TIMEOUT_S = 60.0


def main() -> int:
    if len(sys.argv) < 5:
        print(__doc__, file=sys.stderr)
        return 2
    location, expression, *job = sys.argv[1:]
    try:
        # The program's output is discarded.
        with pgdb.launch(job, on_output=lambda stream, data: None) as session:
            session.break_at(location, temporary=True).check()
            session.continue_(timeout_s=TIMEOUT_S).check()
            answer = session.evaluate(expression).check()
    except pgdb.CommandError as error:
        print(f"outlier.py: {error}", file=sys.stderr)
        return 1
    except pgdb.PgdbError as error:
        print(f"outlier.py: {error}", file=sys.stderr)
        return 3
    by_value: dict[int | float | str, list[int]] = {}
    for rank, value in answer.values.items():
        by_value.setdefault(value, []).append(rank)
    usual, *others = sorted(by_value, key=lambda value: len(by_value[value]), reverse=True)
    print(f"usual:    {expression} = {usual} on [{pgdb.RankSet(by_value[usual])}]")
    for value in others:
        print(f"differs:  {expression} = {value} on [{pgdb.RankSet(by_value[value])}]")
    return 1 if others else 0


if __name__ == "__main__":
    sys.exit(main())
