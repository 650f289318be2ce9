"""The score of mixed stacks: the order of C and Python frames at random stops, by interpreter.

    python bench/python_stacks.py [--stops N] [--json] [--beside] PYTHON…

A program that calls Python from C and C from Python all the time is stopped at random moments. A
stack is *exact* if PGDB knows the place of each frame and that place is right, *unknown* if PGDB
says so, *wrong* if PGDB shows an order that cannot be. The check knows the program: the C library's
sort stands between its caller and its callback, and nowhere else.

With --beside, the time from the attach to the merged tree of four ranks is shown, and its ratio to
four ``py-spy dump`` one after the other, in place of the score.

PYTHON is the path of an interpreter, or a command such as ``chroot FOLDER python3.14``.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from interpreters import interpreter_line

from pgdb import aio
from pgdb.backend.python import reader
from pgdb.records import Frame, Stack, Threads

PROGRAM = Path(__file__).resolve().parent / "programs" / "python_busy.py"
CALLER, CALLBACK = "by_c_sort", "compare"
LONGEST_RUN_S = 0.02
RANKS = 4


def is_c_sort(frame: Frame) -> bool:
    """Return whether a frame is of the C library's sort."""
    return not frame.language and ("qsort" in frame.function or "msort" in frame.function)


def short(frame: Frame) -> str:
    """Return the name of a function without those of its classes."""
    return frame.function.rpartition(".")[2]


def judge(stack: Stack) -> str:
    """Return ``exact``, ``unknown``, or the reason why the order is wrong."""
    frames = stack.frames
    if stack.note or any(each.language == "unknown" for each in frames):
        return "unknown"
    python = [at for at, each in enumerate(frames) if each.language == "python"]
    if not python:
        return "unknown"
    for inner, outer in itertools.pairwise(python):
        between = [each for each in frames[inner + 1 : outer] if is_c_sort(each)]
        is_wanted = short(frames[outer]) == CALLER and short(frames[inner]) == CALLBACK
        if bool(between) != is_wanted:
            names = f"{frames[inner].function} and {frames[outer].function}"
            return f"{'a' if between else 'no'} C sort between {names}"
    innermost = frames[python[0]]
    if any(map(is_c_sort, frames[: python[0]])) and short(innermost) != CALLER:
        return f"a C sort inside {innermost.function}"
    outermost = short(frames[python[-1]])
    if outermost not in ("<module>", "_bootstrap"):
        return f"the outermost Python frame is {outermost}"
    return "exact"


async def beside(python: str) -> tuple[float, float]:
    """Return the times of PGDB and of py-spy for the stacks of four ranks, in seconds."""
    line = interpreter_line(python, PROGRAM)
    processes = [subprocess.Popen(line, stdout=subprocess.PIPE) for _ in range(RANKS)]
    try:
        for each in processes:
            assert each.stdout is not None
            each.stdout.readline()
        pids = [str(each.pid) for each in processes]
        begun_s = time.monotonic()
        session = await aio.attach("", pids=pids)
        await session.ranks("all").tree()
        ours_s = time.monotonic() - begun_s
        await session.close()
        begun_s = time.monotonic()
        for pid in pids:
            words = [reader.program(), "dump", "--pid", pid]
            subprocess.run(words, stdout=subprocess.DEVNULL, check=True)
        return ours_s, time.monotonic() - begun_s
    finally:
        for each in processes:
            each.kill()
            each.communicate()


async def score(python: str, stops: int) -> Counter[str]:
    """Return how many stacks of *stops* stops are exact, unknown and wrong, with reasons."""
    found: Counter[str] = Counter()
    process = subprocess.Popen(interpreter_line(python, PROGRAM), stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        process.stdout.readline()
        session = await aio.attach("", pids=[str(process.pid)])
        try:
            view = session.ranks("all")
            for _ in range(stops):
                answer = await view.backtrace(threads=True)
                for each in answer.classes:
                    record = each.filled
                    if not isinstance(record, Threads):
                        found[f"no stacks: {record}"] += 1
                        continue
                    for thread in record.stacks:
                        verdict = judge(thread.stack)
                        found[verdict] += thread.count
                await view.continue_(wait=False)
                # The rank is to be stopped at a random moment: the length is the experiment.
                await asyncio.sleep(random.uniform(0, LONGEST_RUN_S))
                await view.interrupt()
        finally:
            await session.close()
    finally:
        process.kill()
        process.communicate()
    return found


def main() -> int:
    """Print a line for each interpreter; return 1 if an order was wrong."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--stops", type=int, default=40)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--beside", action="store_true")
    parser.add_argument("python", nargs="+")
    given = parser.parse_args()
    is_right = True
    for python in given.python:
        if given.beside:
            ours_s, theirs_s = asyncio.run(beside(python))
            print(f"{python}: {ours_s / theirs_s:.1f} times as long as {RANKS} py-spy dump")
            continue
        found = asyncio.run(score(python, given.stops))
        exact, unknown = found.pop("exact", 0), found.pop("unknown", 0)
        wrong = found.total()
        is_right = is_right and not wrong
        if given.json:
            line = {"python": python, "exact": exact, "unknown": unknown, "wrong": dict(found)}
            print(json.dumps(line), flush=True)
            continue
        total = exact + unknown + wrong
        print(f"{python}: {exact} of {total} exact, {unknown} unknown, {wrong} wrong", flush=True)
        for reason, count in found.most_common(5):
            print(f"    {count} × {reason}")
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main())
