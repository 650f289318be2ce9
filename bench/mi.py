"""CPU of the MI reader beside pygdbmi's parser, over the same lines.

    python bench/mi.py [--rounds N]

Prints a Markdown table: for each case the ratio of the reader's CPU time to that of pygdbmi, in
each round. The lines are those of ranks with addresses of their own, read in pieces as from a pipe.
A thread parses the memory answer. For it the table also shows the longest time for which the event
loop stood still, as a share of the allowed time, and the ratio of the reader's CPU time to that of
bytes.fromhex.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence

from pygdbmi import gdbmiparser

from pgdb.backend.gdb import decode, mi, mi_lines

ROUNDS = 3
PIECE_BYTES = 65536
STACKS = 32
STOPS = 10_000
STOPPED_RANKS = 16
MEMORY_BYTES = 8 * 1024 * 1024
TICK_S = 0.001
ALLOWED_S = 0.05
"""Longest time for which an event loop may stand still, in seconds."""


def stacks(rng: random.Random) -> bytes:
    """Return the answers of ranks in one place to -stack-list-frames."""
    return b"".join(_stack(rng.randrange(1 << 28) << 12) for _ in range(STACKS))


def _stack(base: int) -> bytes:
    frames = ",".join(
        f'frame={{level="{level}",addr="{0x7F0000000000 + base + 4711 * level:#018x}",'
        f'func="function_{level}",file="solve.c",fullname="/home/user/solver/solve.c",'
        f'line="{100 + level}",arch="i386:x86-64"}}'
        for level in range(12)
    )
    return f"12^done,stack=[{frames}]\n(gdb) \n".encode()


def stops(rng: random.Random) -> bytes:
    """Return many stops of some ranks at one breakpoint, one after the other."""
    bases = [rng.randrange(1 << 28) << 12 for _ in range(STOPPED_RANKS)]
    return b"".join(
        f'*stopped,reason="breakpoint-hit",disp="keep",bkptno="1",'
        f'frame={{addr="{0x550000000000 + bases[rank] + 0x1139:#018x}",func="hit",'
        f'args=[{{name="i",value="{number}"}}],file="storm.c",'
        f'fullname="/home/user/storm.c",line="18",arch="i386:x86-64"}},thread-id="1",'
        f'stopped-threads="all",core="{rng.randrange(2)}"\n(gdb) \n'.encode()
        for number in range(STOPS // STOPPED_RANKS)
        for rank in range(STOPPED_RANKS)
    )


def memory(rng: random.Random) -> bytes:
    """Return a big answer to -data-read-memory-bytes."""
    contents = rng.randbytes(MEMORY_BYTES).hex()
    return (
        f'7^done,memory=[{{begin="0x7f0000000000",offset="0x0",end="0x7f0000800000",'
        f'contents="{contents}"}}]\n'
    ).encode()


def pieces(data: bytes) -> Iterator[bytes]:
    """Cut *data* into pieces as a pipe would."""
    for at in range(0, len(data), PIECE_BYTES):
        yield data[at : at + PIECE_BYTES]


def read(data: bytes) -> list[object]:
    """Read all lines with our reader, and check the results."""
    lines = mi_lines.Lines()
    found: list[object] = []
    for piece in pieces(data):
        for line in lines.feed(piece):
            part = mi.cut(line) if isinstance(line, bytes) else mi_lines.cut_pieces(line)
            if part.kind:
                found.append(_looked_at(part))
    return found


def _looked_at(part: mi.Line) -> object:
    if "stack" in (part.shape.payload if part.shape is not None else ()):
        return decode.frames_of(part)
    return decode.memory(part.payload) if "memory" in part.payload else part.payload


def read_by_pygdbmi(data: bytes) -> list[object]:
    """Read all lines with pygdbmi's parser."""
    found: list[object] = []
    for line in data.decode().split("\n"):
        if line and not line.startswith("(gdb)"):
            payload = gdbmiparser.parse_response(line)["payload"]
            found.append(decode.memory(payload) if "memory" in payload else payload)
    return found


def cpu_s(work: Callable[[bytes], object], data: bytes) -> float:
    """Return the CPU seconds of *work*, with nothing cached from earlier lines."""
    mi._small_shape.cache_clear()
    mi._large_shape.cache_clear()
    begun = time.process_time()
    work(data)
    return time.process_time() - begun


def longest_stop_s(data: bytes) -> float:
    """Return the longest CPU time for which the loop stood still while *data* was read."""

    async def carry_out() -> float:
        longest = 0.0
        lines = mi_lines.Lines()
        for piece in pieces(data):
            begun = time.thread_time()
            found = lines.feed(piece)
            longest = max(longest, time.thread_time() - begun)
            for line in found:
                assert not isinstance(line, bytes)
                parsing = asyncio.create_task(asyncio.to_thread(mi_lines.cut_pieces, line))
                # The event loop wakes up as often as it can: what exceeds a tick is a delay.
                while not parsing.done():
                    begun = time.perf_counter()
                    await asyncio.sleep(TICK_S)
                    longest = max(longest, time.perf_counter() - begun - TICK_S)
                begun = time.thread_time()
                decode.memory(parsing.result().payload)
                longest = max(longest, time.thread_time() - begun)
        return longest

    return asyncio.run(carry_out())


def row(name: str, values: Sequence[float]) -> str:
    """Return a line of the table."""
    shown = ", ".join(f"{value:.4f}" for value in values)
    return f"| {name} | {shown} | {statistics.median(values):.4f} |\n"


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=ROUNDS, metavar="N")
    rounds = parser.parse_args().rounds
    rng = random.Random(5)
    write = sys.stdout.write
    write("| lines | our CPU / pygdbmi's | median |\n|---|---|---|\n")
    cases = {
        f"stacks of {STACKS} ranks": stacks(rng),
        f"{STOPS} stops of {STOPPED_RANKS} ranks": stops(rng),
        f"{MEMORY_BYTES >> 20} MiB of memory": memory(rng),
    }
    for name, data in cases.items():
        assert len(read(data)) == len(read_by_pygdbmi(data))
        ratios = [cpu_s(read, data) / cpu_s(read_by_pygdbmi, data) for _ in range(rounds)]
        write(row(name, ratios))
    big = cases[f"{MEMORY_BYTES >> 20} MiB of memory"]
    digits = big.decode().split('contents="')[1].split('"')[0]
    ratios = [cpu_s(read, big) / cpu_s(lambda _: bytes.fromhex(digits), big) for _ in range(rounds)]
    write("\n| | beside bytes.fromhex | median |\n|---|---|---|\n")
    write(row("8 MiB of memory", ratios))
    write("\n| | of the 50 ms that are allowed | median |\n|---|---|---|\n")
    still = [longest_stop_s(big) / ALLOWED_S for _ in range(rounds)]
    write(row("longest time the loop stands still, memory", still))


if __name__ == "__main__":
    main()
