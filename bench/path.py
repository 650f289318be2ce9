"""The files of PGDB that a command passes, from the typed line to the screen.

    python bench/path.py [--command LINE] [--markdown]

The prompt's own code carries out the command on a process under a real aggregator and a real GDB.
Both processes record each visit of one of our files. A first run of the command, which loads
modules and fills caches, is not counted. The command runs three more times, and a file is listed
if each of these runs visits it: a heartbeat that falls into one of them is no part of the command.
Files that hand the command or its answer on, in place of answering a question of another file, are
listed at the end.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import io
import os
import subprocess
import tempfile
import time
from pathlib import Path

from inside.visits import HANDS_ON, Visits

from pgdb import aio
from pgdb.frontend.show.display import TextDisplay
from pgdb.frontend.ui.repl import Repl

INSIDE = Path(__file__).resolve().parent / "inside"

SETTLE_S = 0.5
"""Rest before and after the command, in seconds. Background work of the session goes on by itself
and reports no end; it would count as files of the command's path."""
PROGRAM = ("sleep", "600")
RUNS = 3


async def trace(command: str, folder: Path) -> tuple[str, list[tuple[str, str]]]:
    """Return the output of *command*, and its visits: the process and the file of each."""
    os.environ |= {"PYTHONPATH": str(INSIDE), "PGDB_BENCH_PATH": str(folder)}
    process = subprocess.Popen(PROGRAM)
    try:
        session = await aio.attach("", pids=[str(process.pid)])
        try:
            repl = Repl(session, settle_s=1.0)
            out = io.StringIO()
            repl.dispatcher.display = repl.display = TextDisplay(out)
            for _ in range(2):
                await repl.carry_out(command)
            await asyncio.sleep(SETTLE_S)
            visits: list[tuple[float, str, str]] = []
            watch = Visits(lambda now_s, name: visits.append((now_s, "front end", name)))
            spans: list[tuple[float, float]] = []
            for _ in range(RUNS):
                out.seek(0)
                out.truncate()
                begun_s = time.monotonic()
                watch.start()
                await repl.carry_out(command)
                watch.stop()
                spans.append((begun_s, time.monotonic()))
                await asyncio.sleep(SETTLE_S)
        finally:
            await session.close()
    finally:
        process.kill()
        process.wait()
    for note in folder.iterdir():
        for line in note.read_text("utf-8").splitlines():
            with contextlib.suppress(ValueError):  # the last line may be cut off
                now_s, name = line.split(" ", 1)
                visits.append((float(now_s), "aggregator", name))
    runs = [[each for each in visits if begun <= each[0] <= ended] for begun, ended in spans]
    always = set.intersection(*({each[1:] for each in run} for run in runs))
    return out.getvalue(), [each[1:] for each in sorted(runs[-1]) if each[1:] in always]


def main() -> None:
    """Trace one command and print its files, in the order of the first visit."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--command", default="print 6*7", metavar="LINE")
    parser.add_argument("--markdown", action="store_true", help="print a list for the docs")
    parser.add_argument("--visits", action="store_true", help="print each visit as well")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pgdb-bench-") as folder:
        shown, visits = asyncio.run(trace(given.command, Path(folder)))
    handing = [name.removeprefix(HANDS_ON) for _, name in visits if name.startswith(HANDS_ON)]
    visits = [each for each in visits if not each[1].startswith(HANDS_ON)]
    files = {where: list(dict.fromkeys(n for w, n in visits if w == where)) for where, _ in visits}
    if not given.markdown:
        print(f"{given.command}: {shown.strip()}\n")
    for where, names in files.items():
        counts = {name: sum(each == (where, name) for each in visits) for name in names}
        print(f"{where}: {len(names)} files\n")
        for number, name in enumerate(names, 1):
            print(f"{number}. `{name}`" if given.markdown else f"{counts[name]:4} {name}")
        print()
    everything = dict.fromkeys(name for _, name in visits)
    print(f"{len(everything)} files in all; these hand the command on:\n")
    print("\n".join(sorted(set(handing))))
    if given.visits:
        print("\n".join(f"{where}: {name}" for where, name in visits))


if __name__ == "__main__":
    main()
