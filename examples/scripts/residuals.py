"""Collect values over many hits of a place; print the first at which a rank leaves the others.

    python residuals.py LOCATION EXPRESSION mpirun -n 8 ./program arguments...

The program runs on at each hit. The exit status is 1 if a rank leaves the others, 3 after an error.
With pandas installed, the whole table is written to residuals.csv in the current folder.
"""

import sys

import pgdb

MOST_HITS = 1000
TIMEOUT_S = 600.0
TABLE = "residuals.csv"


def main() -> int:
    if len(sys.argv) < 5:
        print(__doc__, file=sys.stderr)
        return 2
    location, expression, *job = sys.argv[1:]
    try:
        # The program's output is discarded.
        with pgdb.launch(job, on_output=lambda stream, data: None) as session:
            session.trace(location, expression, first=MOST_HITS).check()
            session.continue_(timeout_s=TIMEOUT_S)
            table = session.trace_table(1, begin=0, count=MOST_HITS)
            data = session.trace_data(1)
    except pgdb.PgdbError as error:
        print(f"residuals.py: {error}", file=sys.stderr)
        return 3
    print(f"{table.most} hits on [{table.ranks}]")
    apart = next((row for row in table.rows if len(row.cells[0]) > 1), None)
    if apart is not None:
        for value in apart.cells[0]:
            print(f"hit {apart.number}: {expression} = {value.text} on [{value.ranks}]")
    try:
        frame = data.to_pandas()
    except pgdb.CommandError as error:
        print(error)
    else:
        print(frame[expression].unstack("rank").describe().to_string())
        try:
            frame.to_csv(TABLE)
        except OSError as error:
            print(
                f"residuals.py: the table is not written: {TABLE}: {error.strerror}; start this in "
                "a folder in which you can write",
                file=sys.stderr,
            )
            return 3
    return 0 if apart is None else 1


if __name__ == "__main__":
    sys.exit(main())
