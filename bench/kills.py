"""Number of ranks that survive SIGKILL of their GDB at a breakpoint that they reach all the time.

    python bench/kills.py [--rounds N] [--seed N] [--pause-ms MS] [--watch]

Processes call a function every 0.3 ms, or every MS milliseconds, with a breakpoint in it whose
condition is never true. They lose their GDBs by SIGKILL at random moments, without and with a guard
(``--guard`` of ``pgdb``). With ``--watch`` a hardware watchpoint takes the place of the breakpoint.
The bytes behind the first one of the breakpoint's instruction are an instruction that no process
survives, so a process that is resumed there counts as lost. A Markdown table is printed.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from pgdb.backend.gdb.debugger import GdbDebugger
from pgdb.backend.zygote.gdb_factory import GdbFactory
from pgdb.backend.zygote.index_cache import IndexCache
from pgdb.overlay.messages import InsertBreakpoint, Resume
from pgdb.records import BreakpointsMade, Event, Gone, Running, Stop

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.measuring import report_autogroup
from tests.support.terminal import foreign_code

PROGRAM = """
#include <time.h>
volatile long count;
__attribute__((noinline)) void hit(void)
{
    /* mov $0x0b0f, %eax; from its second byte on: ud2 */
    __asm__ volatile(".globl place\\nplace: .byte 0xb8, 0x0f, 0x0b, 0, 0" ::: "eax");
    count++;
}
int main(void)
{
    struct timespec nap = {0, PAUSE_NS};
    for (;;) {
        hit();
        nanosleep(&nap, 0);
    }
}
"""
_BREAK, _WATCH = "break *place if count < 0", "watch count if count < 0"
WATCHED_S = 0.5
DEADLINE_S = 60.0


async def kill_one(
    program: Path, gdb_factory: GdbFactory, *, is_guarded: bool, after_s: float, watches: bool
) -> str:
    """Return the fate of one process: ``lives``, or the name of the signal that ended it."""
    process = subprocess.Popen([program], stdin=subprocess.DEVNULL)
    gone = asyncio.Event()

    def report(rank: int, event: Event) -> None:
        del rank
        if isinstance(event, Gone):
            gone.set()

    inferior = GdbDebugger(
        0, gdb_factory=gdb_factory, program="", notify=report, is_guarded=is_guarded
    )
    try:
        async with asyncio.timeout(DEADLINE_S):
            stop = await inferior.attach(process.pid, 1)
            assert isinstance(stop, Stop) and not stop.detail, stop
            made = await inferior.perform(
                InsertBreakpoint(command=_WATCH if watches else _BREAK, first_number=1), 2
            )
            assert isinstance(made, BreakpointsMade), made
            going = await inferior.perform(Resume(command="continue"), 3)
            assert isinstance(going, Running), going
            while not watches and not foreign_code(process.pid):
                await asyncio.sleep(0.01)  # the kernel reports no change of the code
            # GDB is to be killed at a random moment: the length is the experiment.
            await asyncio.sleep(after_s)
            os.kill(inferior.gdb_pid, signal.SIGKILL)
            await gone.wait()
        try:
            await asyncio.to_thread(process.wait, WATCHED_S)
        except subprocess.TimeoutExpired:
            assert foreign_code(process.pid) == []
            return "lives"
        # PGDB as its tracer has waited for one that ended just then.
        return signal.Signals(-process.returncode).name if process.returncode else "a signal"
    finally:
        process.kill()
        process.wait()
        await inferior.detach(DEADLINE_S)


async def measure(rounds: int, seed: int, pause_ms: float, *, watches: bool) -> None:
    """Print the table."""
    gdb = shutil.which("gdb")
    assert gdb is not None, "there is no GDB"
    gdb_factory = GdbFactory(gdb, os.environ, (), IndexCache(os.environ, print))
    with tempfile.TemporaryDirectory(prefix="pgdb-bench-") as folder:
        program = Path(folder) / "program"
        (Path(folder) / "program.c").write_text(PROGRAM)
        subprocess.run(
            [
                *("cc", "-g", "-O1", f"-DPAUSE_NS={round(pause_ms * 1e6)}"),
                *("-o", program, program.with_suffix(".c")),
            ],
            check=True,
            stdin=subprocess.DEVNULL,
        )
        print("| | kills | live | ended by |\n|---|---|---|---|", flush=True)
        for is_guarded in (False, True):
            rng = random.Random(seed)
            found = Counter[str]()
            for _ in range(rounds):
                after_s = rng.uniform(0.02, 0.1)
                fate = await kill_one(
                    program, gdb_factory, is_guarded=is_guarded, after_s=after_s, watches=watches
                )
                found[fate] += 1
            ends = ", ".join(f"{name} {count}" for name, count in found.items() if name != "lives")
            what = "with a guard" if is_guarded else "without"
            print(f"| {what} | {rounds} | {found['lives']} | {ends or '-'} |", flush=True)


def main() -> None:
    """Read the command line and measure."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pause-ms", type=float, default=0.3, metavar="MS")
    parser.add_argument("--watch", action="store_true", help="a watchpoint, not a breakpoint")
    parsed = parser.parse_args()
    report_autogroup()
    logging.disable(logging.WARNING)  # that GDBs die is no news
    asyncio.run(measure(parsed.rounds, parsed.seed, parsed.pause_ms, watches=parsed.watch))


if __name__ == "__main__":
    main()
