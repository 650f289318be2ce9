"""Lines of source files at which ranks stand and breakpoints are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from pgdb.merge.classes import EquivalenceClass
from pgdb.ranks import RankSet
from pgdb.records import Breakpoint, BreakpointList, Event, Frame, Record, Stop, Text


class LineMark(msgspec.Struct, frozen=True):
    """A line at which ranks stand or a breakpoint is."""

    file: str
    """The file as a path, or as the compiler recorded it."""
    line: int
    ranks: RankSet = RankSet()
    """Ranks that stand there."""
    breakpoints: tuple[int, ...] = ()
    """Job-wide numbers of the enabled breakpoints there."""
    disabled: tuple[int, ...] = ()
    """Job-wide numbers of the disabled breakpoints there."""


class Listing(msgspec.Struct, frozen=True):
    """The files of listed source lines, and the marks in these files."""

    files: tuple[tuple[RankSet, str], ...]
    """The path of the file whose lines each set of ranks has listed."""
    marks: tuple[LineMark, ...]

    def file_of(self, ranks: RankSet) -> str:
        """Return the file whose lines *ranks* have listed; empty if it is not known."""
        return next((file for members, file in self.files if ranks <= members), "")

    def marks_of(self, ranks: RankSet) -> dict[int, LineMark]:
        """Return the marks in the file that *ranks* have listed, by line."""
        file = self.file_of(ranks)
        return {each.line: each for each in self.marks if file and is_same_file(each.file, file)}


def is_same_file(one: str, other: str) -> bool:
    """Return whether two names are of one file: the compiler may have recorded a part of the path.

    >>> is_same_file("/home/a/x.c", "x.c"), is_same_file("/home/a/x.c", "/home/b/x.c")
    (True, False)
    """
    if one.startswith("/") and other.startswith("/"):
        return one == other
    longer, shorter = (one, other) if len(one) >= len(other) else (other, one)
    return longer == shorter or longer.endswith(f"/{shorter.removeprefix('./')}")


def listed_files(classes: Iterable[EquivalenceClass[Record]]) -> tuple[tuple[RankSet, str], ...]:
    """Return the files in the answer to ``info source``, with their ranks."""
    found = []
    for each in classes:
        if not isinstance(each.record, Text):
            continue
        names = {}
        for line in each.record.text.split("\n"):
            for start in ("Located in ", "Current source file is "):
                if line.startswith(start):
                    names[start] = line[len(start) :].strip()
        if names:
            found.append((each.ranks, names.get("Located in ", "") or next(iter(names.values()))))
    return tuple(found)


def marks(
    stops: Iterable[EquivalenceClass[Event]], listed: Iterable[EquivalenceClass[Record]]
) -> tuple[LineMark, ...]:
    """Return the marks of the last *stops* of ranks, and of the *listed* breakpoints."""
    frames = [(each.ranks, each.record.frame) for each in stops if isinstance(each.record, Stop)]
    return marks_of_frames(frames, listed)


def marks_of_frames(
    frames: Iterable[tuple[RankSet, Frame | None]],
    listed: Iterable[EquivalenceClass[Record]],
) -> tuple[LineMark, ...]:
    """Return the marks of ranks with their *frames*, and of the *listed* breakpoints."""
    standing: dict[tuple[str, int], RankSet] = {}
    for ranks, frame in frames:
        if frame is not None and frame.line:
            place = (frame.fullname or frame.file, frame.line)
            standing[place] = standing.get(place, RankSet()) | ranks
    found = [LineMark(file, line, ranks) for (file, line), ranks in standing.items()]
    enabled: dict[tuple[str, int], dict[int, bool]] = {}
    for answered in listed:
        if isinstance(answered.record, BreakpointList):
            for made in answered.record.breakpoints:
                for file, line, is_on in _places(made):
                    numbers = enabled.setdefault((file, line), {})
                    numbers[made.number] = numbers.get(made.number, False) or is_on
    for (file, line), numbers in enabled.items():
        on = tuple(sorted(number for number, is_on in numbers.items() if is_on))
        off = tuple(sorted(number for number, is_on in numbers.items() if not is_on))
        at = next((n for n, m in enumerate(found) if _is_at(m, file, line)), None)
        if at is None:
            found.append(LineMark(file, line, breakpoints=on, disabled=off))
        else:
            found[at] = msgspec.structs.replace(found[at], breakpoints=on, disabled=off)
    return tuple(sorted(found, key=lambda each: (each.file, each.line)))


def _is_at(mark: LineMark, file: str, line: int) -> bool:
    return mark.line == line and is_same_file(mark.file, file)


def _places(made: Breakpoint) -> Sequence[tuple[str, int, bool]]:
    if made.locations:
        places = [(each.file, each.line, each.enabled) for each in made.locations]
    else:
        places = [(made.file, made.line, True)]
    return [(file, line, is_on and made.enabled) for file, line, is_on in places if file and line]
