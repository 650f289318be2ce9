"""Hold all ranks but two, and step these two together through an exchange.

    python two_ranks.py LOCATION ONE OTHER mpirun -n 8 ./program arguments...

All ranks meet at LOCATION first. The two step until one of them waits for a rank that is held, or
until their ways part.
"""

import sys

import pgdb

STEPS = 50
TIMEOUT_S = 60.0
STEP_S = 15.0
"""A step that takes longer waits for a rank that is held."""


def main() -> int:
    if len(sys.argv) < 6:
        print(__doc__, file=sys.stderr)
        return 2
    location, one, other, *job = sys.argv[1:]
    try:
        # The program's output is discarded.
        with pgdb.launch(job, on_output=lambda stream, data: None) as session:
            pair = session.parse_ranks(f"{one},{other}")
            session.barrier(location, times=1)
            session.continue_(timeout_s=TIMEOUT_S).check()
            others = session.set - pair
            session.ranks(others).hold()
            print(f"held: [{others}]")
            for _ in range(STEPS):
                found = session.ranks(pair).lockstep("next", timeout_s=STEP_S)
                for way in found.ways:
                    print(f"[{way.ranks}] {way.text}")
                if found.end != "complete":
                    out = found.answer.missing.running
                    still = f": [{out}] still from {found.start.text}" if out else ""
                    print(f"{found.end}{still}; held: [{others}]")
                    break
            else:
                print(f"{STEPS} steps; held: [{others}]")
            session.ranks(others).release()
    except pgdb.PgdbError as error:
        print(f"two_ranks.py: {error}", file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
