"""The cost of breakpoints at Python code, by interpreter.

    python bench/python_breakpoints.py [--rounds N] PYTHON…

A rank makes rounds of a loop of small calls, each beside a loop without calls. The CPU time of a
round with a breakpoint is shown as a ratio to that without one: *not hit*, in a function that is
never called; *false*, in the loop, with a condition that is never true; *deleted*, after all
breakpoints are deleted, with PGDB still attached; *detached*, after PGDB has left. The median of
the rounds counts.

PYTHON is the path of an interpreter, or a command such as ``chroot FOLDER python3.14``. Before
Python 3.14 a GDB is needed that can call functions of a program.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import subprocess
import sys
from pathlib import Path

from interpreters import interpreter_line

from pgdb import PgdbError, aio
from pgdb.frontend.analysis.answers import Answer

PROGRAM = Path(__file__).resolve().parent / "programs" / "python_loop.py"
STATES = ("not hit", "false", "deleted", "detached")


class Rank:
    """A process that makes rounds."""

    def __init__(self, line: list[str]) -> None:
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(line, stdin=pipe, stdout=pipe)
        self._read()

    def _read(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().decode().strip()

    def _round(self) -> float:
        assert self.process.stdin is not None
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()
        return float(self._read())

    async def cost(self, rounds: int) -> float:
        """Return the CPU time of a round, in units of the loop without calls."""
        # In the first one the interpreter takes or removes breakpoints.
        found = [await asyncio.to_thread(self._round) for _ in range(rounds + 1)]
        return statistics.median(found[1:])


def line_of(text: str) -> int:
    """Return the number of the line of the program with this text."""
    lines = PROGRAM.read_text(encoding="utf-8").splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.strip() == text)


def must(answer: Answer) -> None:
    """Raise the error of an answer, if there is one."""
    for each in answer.errors:
        raise SystemExit(f"{each.ranks}: {each.filled}")


async def costs(rank: Rank, rounds: int) -> dict[str, float]:
    """Return the ratio of each state."""
    found = {}
    plain = await rank.cost(rounds)
    session = await aio.attach("", pids=[str(rank.process.pid)])
    try:
        view = session.ranks("all")
        for state, place, condition in (
            ("not hit", "return small(-1)", ""),
            ("false", "doubled = value * 2", "value < 0"),
        ):
            at = f"{PROGRAM.name}:{line_of(place)}"
            must(await view.break_at(at, condition=condition))
            await view.continue_(wait=False)
            found[state] = await rank.cost(rounds) / plain
            await view.interrupt()
        await view.delete()
        await view.continue_(wait=False)
        found["deleted"] = await rank.cost(rounds) / plain
        await view.interrupt()
    finally:
        await session.close()
    found["detached"] = await rank.cost(rounds) / plain
    return found


def main() -> int:
    """Print a line for each interpreter."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("python", nargs="+")
    given = parser.parse_args()
    print(f"| interpreter | {' | '.join(STATES)} |\n|---{'|--:' * len(STATES)}|", flush=True)
    for python in given.python:
        rank = Rank(interpreter_line(python, PROGRAM))
        try:
            found = asyncio.run(costs(rank, given.rounds))
        except PgdbError as error:
            print(f"{python}: {error}", file=sys.stderr)
            return 1
        finally:
            rank.process.kill()
            rank.process.communicate()
        cells = " | ".join(f"{found[each]:.2f}" for each in STATES)
        print(f"| {python} | {cells} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
