"""The cost of recording and logging a session: time for each answer, and bytes.

    python bench/recording.py [--ranks N]

Generated backtraces of 12 frames in 1, 5 and 1,024 classes are processed as in a session. A
Markdown table shows the time to keep one for a recording (each session does that), to log one
(``--log``), to write one to a file and to read it again, and the bytes that it adds to the file.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import zlib
from collections.abc import Callable
from pathlib import Path

import msgspec

from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.store.log import SessionLog
from pgdb.frontend.store.recorder import Recorder
from pgdb.frontend.store.recording_file import Answers
from pgdb.frontend.store.redact import Redactor
from pgdb.merge.classes import EquivalenceClass
from pgdb.merge.graph import from_graph
from pgdb.merge.rankset_codec import pack
from pgdb.overlay.messages import Backtrace
from pgdb.ranks import RankSet
from pgdb.records import Frame, Record, Stack, Variable

DEPTH = 12
REPEATED = 5
COUNTS = (1, 5, 1024)


def backtrace(class_count: int, rank_count: int) -> Answer:
    """Return stacks that differ in their innermost frame."""
    classes = []
    for number in range(class_count):
        argument = Variable(name="n", value=str(number), is_argument=True)
        frames = tuple(
            Frame(
                level=level,
                function=f"function_{level}" if level else f"leaf_{number}",
                arguments=(argument,),
                file="src/file.c",
                fullname="/emulated/src/file.c",
                line=10 + level,
            )
            for level in range(DEPTH)
        )
        ranks = RankSet.range(number, rank_count, class_count)
        classes.append(EquivalenceClass[Record](ranks=ranks, record=Stack(frames=frames)))
    return Answer("backtrace", RankSet.range(0, rank_count), tuple(classes), request_id=1)


def time_ms(work: Callable[[], object]) -> float:
    """Return the shortest time of several, in milliseconds."""
    times_s = []
    for _ in range(REPEATED):
        begun_s = time.perf_counter()
        work()
        times_s.append(time.perf_counter() - begun_s)
    return min(times_s) * 1000


def row(class_count: int, rank_count: int, folder: Path) -> str:
    """Return the line of the table for one number of classes."""
    answer = backtrace(class_count, rank_count)
    redactor = Redactor({"HOME": "/home/me"}, keeps_values=False)
    log = SessionLog(folder / f"{class_count}.log", redactor, on_failure=print)
    recorder = Recorder()
    stored = Answers()
    stored.put(answer)
    graph = stored.stored[0].graph
    packed = zlib.compress(
        msgspec.msgpack.encode(stored.stored, enc_hook=lambda ranks: pack(ranks)), 6
    )
    cells = [
        f"{class_count}",
        f"{time_ms(lambda: recorder.take(Backtrace(), answer)):.2f}",
        f"{time_ms(lambda: log.answer(answer)):.2f}",
        f"{time_ms(lambda: Answers().put(answer)):.2f}",
        f"{time_ms(lambda: from_graph(graph)):.2f}",
        f"{len(packed)}",
    ]
    log.close()
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="what recording and logging cost")
    parser.add_argument("--ranks", type=int, default=1024, help="ranks of the job (%(default)d)")
    rank_count: int = parser.parse_args().ranks
    print("| classes | keep (ms) | log (ms) | store (ms) | read (ms) | file (bytes) |")
    print("|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for class_count in COUNTS:
            print(row(class_count, rank_count, Path(folder)))


if __name__ == "__main__":
    main()
