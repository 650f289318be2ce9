"""Row ``why``: the explanation of a hang of very many ranks, at the front end.

The calls of emulated ranks come as classes. The reference is networkx alone, with a node for each
rank in place of one for each class, and one edge for each rank: the graph and its strongly
connected parts.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import networkx
from measuring import Row

from pgdb.frontend.analysis.why.explain import explain
from pgdb.frontend.analysis.why.waiting import Watch
from pgdb.merge.classes import EquivalenceClass
from pgdb.mpi_calls import CallSite, Communicator, MpiCall, MpiCallStatus
from pgdb.ranks import RankSet
from pgdb.records import Record

RANKS = 65_536
TARGET = 1.0
SIZES = ((RANKS, 5), (1_000_000, 100))
"""Numbers of ranks, and of their classes."""


def measure(ranks: int, rounds: int, wanted: Sequence[str] = ("why",)) -> list[Row]:
    """Return a row for each size."""
    del ranks, wanted
    rows = []
    for size, count in SIZES:
        values = []
        for _ in range(rounds):
            ours, theirs = _explain_s(size, count), _reference_s(size)
            values.append(ours / theirs)
        rows.append(
            Row(
                name=f"why, {size:,} ranks in {count} classes",
                reference="networkx with a node for each rank",
                values=tuple(values),
                target=TARGET,
            )
        )
    return rows


def job(size: int, count: int) -> list[EquivalenceClass[Record]]:
    """Return the calls of a job: two ranks in a cycle, and classes that wait for them."""
    world = Communicator(name="MPI_COMM_WORLD", members=f"0-{size - 1}")

    def status(function: str, line: int, source: int | None = None) -> MpiCallStatus:
        made = MpiCall(
            function=function,
            kind="collective" if source is None else "recv",
            blocking=True,
            communicator=world,
            source=source,
            tag=None if source is None else 1,
        )
        where = CallSite(function="main", file="solve.c", line=line)
        return MpiCallStatus(state="in_call", where=where, calls=(made,))

    found: list[EquivalenceClass[Record]] = [
        EquivalenceClass(RankSet([0]), status("MPI_Recv", 1, 1)),
        EquivalenceClass(RankSet([1]), status("MPI_Recv", 2, 0)),
    ]
    others = count - len(found)
    for number in range(others):
        ranks = RankSet(range(2 + number, size, others))
        record = status("MPI_Barrier", 3) if number == 0 else status("MPI_Recv", 4 + number, 0)
        found.append(EquivalenceClass(ranks, record))
    return found


def _explain_s(size: int, count: int) -> float:
    classes = job(size, count)
    watch = Watch(still=RankSet(range(size)), seconds=1.0)
    begun_s = time.perf_counter()
    found = explain(classes, (), watch)
    elapsed_s = time.perf_counter() - begun_s
    assert [each.kind for each in found.verdicts] == ["cycle"]
    print(f"  {size:,} ranks in {count} classes: {elapsed_s:.2f} s")
    return elapsed_s


def _reference_s(size: int) -> float:
    begun_s = time.perf_counter()
    graph: networkx.DiGraph[int] = networkx.DiGraph()
    graph.add_edges_from((rank, 0 if rank else 1) for rank in range(size))
    assert sum(1 for _ in networkx.strongly_connected_components(graph)) == size - 1
    return time.perf_counter() - begun_s
