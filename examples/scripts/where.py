"""Print the stacks of a running job, equal stacks once; the job continues.

    python where.py PID [RANKS]

PID is the process id of the job's mpirun, mpiexec or srun, RANKS for example 0-3,8.
"""

import sys

import pgdb
from pgdb.records import Failure, Frame, Stack


def main() -> int:
    if len(sys.argv) not in (2, 3) or not sys.argv[1].isdigit():
        print(__doc__, file=sys.stderr)
        return 2
    ranks = sys.argv[2] if len(sys.argv) == 3 else None
    try:
        # The job is stopped inside of the `with`, which is therefore kept short.
        with pgdb.attach(int(sys.argv[1]), ranks=ranks) as session:
            answer = session.backtrace()
    except pgdb.PgdbError as error:
        print(f"where.py: {error}", file=sys.stderr)
        return 3
    for each in sorted(answer, key=lambda each: len(each.ranks), reverse=True):
        print(f"[{each.ranks}]  {len(each.ranks)} of {len(answer.ranks)}")
        match each.filled:
            case Stack(frames=frames):
                for frame in frames:
                    print(f"    {text_of(frame)}")
            case Failure(message=message):
                print(f"    {message}")
    if answer.missing:
        print(f"[{answer.missing.ranks}]  no answer")
    return 0 if answer.ok else 1


def text_of(frame: Frame) -> str:
    arguments = ", ".join(f"{each.name}={each.value}" for each in frame.arguments)
    place = f"{frame.file}:{frame.line}" if frame.file else frame.library
    return f"{frame.function} ({arguments})" + (f" at {place}" if place else "")


if __name__ == "__main__":
    sys.exit(main())
