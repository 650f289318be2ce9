"""The cases of the benchmark: made-up answers of emulated ranks, without a GDB."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from bench.emulate.farm import DEPTH, mix
from pgdb.merge.classes import EquivalenceClass, Merger
from pgdb.merge.graph import to_graph
from pgdb.merge.normalize import normalize_record
from pgdb.overlay.message_codec import encode
from pgdb.overlay.messages import Events, Reply
from pgdb.ranks import RankSet
from pgdb.records import Event, Frame, Record, Stack, Stop, Text, Value, Variable

REQUEST_ID = 1


@dataclass(frozen=True, slots=True)
class Case:
    """One question to all ranks, and the number of different answers."""

    command: str
    """``bt``, ``bt -args``, ``print``, ``info threads`` or ``stop storm``."""
    ranks: int
    classes: int
    is_random: bool = False
    lacks: str = ""
    """``late child``, ``dead child`` or nothing."""

    @property
    def name(self) -> str:
        """The case in words."""
        if self.classes >= self.ranks:
            kind = "all different"
        elif self.classes == 1:
            kind = "1"
        else:
            kind = f"{self.classes:,} {'random' if self.is_random else 'blocks'}"
        return f"{self.command}, {kind}" + (f", {self.lacks}" if self.lacks else "")

    @classmethod
    def read(cls, text: str) -> Case:
        """Return the case that :meth:`write` wrote."""
        return msgspec.json.decode(text, type=cls)

    def write(self) -> str:
        """Return the case as one line."""
        return msgspec.json.encode(self).decode()

    def label(self, rank: int) -> int:
        """Return the class of a rank."""
        if self.is_random:
            return mix(1 << 32 ^ rank) % self.classes
        return rank * self.classes // self.ranks

    def said(self, rank: int) -> EquivalenceClass[Record]:
        """Return the class that a rank's leaf adds."""
        normalized = normalize_record(
            self._record(self.label(rank)), join_arguments=self.command == "bt"
        )
        ranks = RankSet([rank])
        return EquivalenceClass(ranks, normalized.record, normalized.slots)  # type: ignore[arg-type]

    def message(self, ranks: RankSet) -> bytes:
        """Return the reply of a child whose subtree has *ranks*."""
        if self.classes >= self.ranks:
            whole: Merger[Record] = Merger()
            for rank in ranks:
                said = self.said(rank)
                whole.add(said.ranks, said.record, said.slots)
            return encode(Reply(request_id=REQUEST_ID, graph=to_graph(whole.classes).deflate()))
        members: dict[int, list[int]] = {}
        for rank in ranks:
            members.setdefault(self.label(rank), []).append(rank)
        classes = [
            msgspec.structs.replace(self.said(found[0]), ranks=RankSet(found))
            for found in members.values()
        ]
        if self.command == "stop storm":
            events: list[EquivalenceClass[Event]] = classes  # type: ignore[assignment]
            return encode(Events(classes=tuple(events)))
        return encode(Reply(request_id=REQUEST_ID, graph=to_graph(classes).deflate()))

    def _record(self, label: int) -> Record:
        match self.command:
            case "print":
                return Value(text=str(1.5 * label))
            case "info threads":
                lines = [
                    f"  {thread}    LWP {4711 + thread} function_0 (n={label}) at solver.c:100"
                    for thread in range(1, 5)
                ]
                return Text(text="\n".join(["  Id   Target Id   Frame", *lines]))
            case "stop storm":
                return Stop(reason="breakpoint-hit", run=1, breakpoint=1, frame=self._frame(label))
            case _:
                outer = (_frame(level, level, 100 + level) for level in range(1, DEPTH))
                return Stack(frames=(self._frame(label), *outer), hidden="0")

    def _frame(self, label: int) -> Frame:
        # By default the line distinguishes the classes; with arguments only their values do.
        return _frame(0, label, 100 if self.command == "bt -args" else 1000 + label)


def _frame(level: int, argument: int, line: int) -> Frame:
    return Frame(
        level=level,
        function=f"function_{level}",
        arguments=(Variable(name="n", value=str(argument)),),
        file="solver.c",
        fullname="/emulated/solver.c",
        line=line,
    )
