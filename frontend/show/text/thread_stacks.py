"""Stacks of threads, merged over ranks by stack. No I/O, no session.

An answer of :meth:`Ranks.backtrace` for all threads has a class for each set of ranks with the same
threads. The text is ordered by stack instead: a stack, and the number of threads of each rank in
it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
from msgspec.structs import replace

from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.analysis.outliers import is_smallest
from pgdb.frontend.api.argument_types import checks_call
from pgdb.frontend.show.text.layout import DIFFERS, MOST_CLASSES, SHOWN_OF_MANY, Layout
from pgdb.merge.classes import EquivalenceClass
from pgdb.merge.normalize import DIFFERENT
from pgdb.merge.record_visitor import map_texts
from pgdb.ranks import RankSet
from pgdb.records import PLACEHOLDER, SLOT, Record, Stack, Threads, Various


class ThreadGroup(msgspec.Struct, frozen=True):
    """Threads of any ranks with the same stack."""

    ranks: RankSet
    """Ranks that have such threads."""
    counts: tuple[tuple[int, RankSet], ...]
    """Numbers of such threads on one rank in ascending order, each with its ranks."""
    stack: Stack
    """Stack of the threads; ``…`` for arguments that differ."""
    are_tasks: bool = False
    """Whether they are tasks of asyncio."""

    @property
    def thread_count(self) -> int:
        """Number of threads on all ranks together."""
        return sum(count * len(ranks) for count, ranks in self.counts)


@checks_call
def stacks_of(said: Answer) -> tuple[ThreadGroup, ...]:
    """Return the stacks of an answer to ``backtrace(threads=True)``, most threads first.

    Ranks that failed or have not answered are in no stack.
    """
    found: dict[Stack, _Group] = {}
    for each in said.classes:
        record, filled = threads_in(each)
        if record is None or filled is None:
            continue
        for normalized, whole in zip(record.stacks, filled.stacks, strict=True):
            shape = map_texts(normalized.stack, lambda text, _: _without_marks(text))
            group = found.setdefault(shape, _Group(are_tasks=record.are_tasks))
            group.add(each.ranks, normalized.count, whole.stack)
    groups = [group.made(shape) for shape, group in found.items()]
    return tuple(sorted(groups, key=lambda each: (-each.thread_count, each.ranks.first)))


def numbered_sets(said: Answer) -> tuple[RankSet, ...]:
    """Return the rank sets of @1, @2 …: ranks with the same stack and number of threads in
    displayed order, then failed ranks; each set once."""
    sets = [ranks for group in stacks_of(said) for _, ranks in group.counts]
    sets += [each.ranks for each in without_threads(said).classes]
    return tuple(dict.fromkeys(sets))


def threads_in(
    each: EquivalenceClass[Record],
) -> tuple[Threads | None, Threads | None]:
    """Return the threads of the ranks of a class, with and without marks in their texts."""
    record, filled = each.record, each.filled
    if isinstance(record, Various):
        record = record.template
    if isinstance(filled, Various):
        filled = filled.template
    if isinstance(record, Threads) and isinstance(filled, Threads):
        return record, filled
    return None, None


def lines(said: Answer, layout: Layout, show_stack: Callable[[Stack], str]) -> list[str]:
    """Return the text of the threads of an answer; other classes are left out."""
    groups = stacks_of(said)
    most = None if layout.whole else MOST_CLASSES
    shown: Sequence[ThreadGroup] = groups
    if len(groups) > MOST_CLASSES and not layout.whole:
        layout.is_shortened = True
        shown = (*groups[:SHOWN_OF_MANY], *groups[-SHOWN_OF_MANY:])
    sizes = [len(each.ranks) for each in groups]
    found = []
    for each in shown:
        own_sizes = [len(ranks) for _, ranks in each.counts]
        for count, ranks in each.counts[:most]:
            is_odd = is_smallest(len(each.ranks), sizes) if len(own_sizes) == 1 else False
            is_odd = is_odd or is_smallest(len(ranks), own_sizes)
            mark = f"  {DIFFERS}" if is_odd else ""
            words = _number(count, "task" if each.are_tasks else "thread") + _name(each.stack)
            found.append(f"{layout.brackets(ranks)} {words}{mark}{layout.mark(ranks)}")
        if left := len(each.counts) - len(each.counts[:most]):
            layout.is_shortened = True
            found.append(f"({left} more numbers of threads are folded)")
        found.append(show_stack(each.stack))
    if left := len(groups) - len(shown):
        found.append(f"({left} more stacks are folded)")
    return [*found, *_hidden_note(said)]


def threads(said: Threads, show_stack: Callable[[Stack], str]) -> str:
    """Return the text of the threads of one rank."""
    word = "task" if said.are_tasks else "thread"
    parts = (
        f"{_number(each.count, word)}{_name(each.stack)}\n{show_stack(each.stack)}"
        for each in said.stacks
    )
    return "\n".join(parts) or "No threads."


def without_threads(said: Answer) -> Answer:
    """Return the classes of an answer without threads: the failed ranks."""
    left = tuple(each for each in said.classes if threads_in(each)[0] is None)
    return replace(said, classes=left)


def _number(count: int, word: str) -> str:
    return f"× {count} {word}{'s'[: count != 1]}"


def _name(stack: Stack) -> str:
    """Return Python's name of the threads behind a separator, if there is one."""
    return f": {stack.thread}" if stack.thread else ""


def _hidden_note(said: Answer) -> list[str]:
    hidden: list[tuple[str, int]] = []
    for each in said.classes:
        _, threads = threads_in(each)
        if threads is not None and threads.hidden not in ("", "0"):
            hidden.append((threads.hidden, len(each.ranks)))
    if not hidden:
        return []
    what = "the threads"
    if all(text.isdecimal() and len(text) < 10 for text, _ in hidden):
        number = sum(int(text) * ranks for text, ranks in hidden)
        what = f"{number} thread{'s'[: number != 1]}"
    verb = "is" if what.startswith("1 ") else "are"
    it = "it" if verb == "is" else "them"
    return [f"({what} of the MPI library {verb} not shown; bt -threads --full shows {it})"]


class _Group:
    """Collector of the threads with one stack."""

    def __init__(self, *, are_tasks: bool) -> None:
        self._are_tasks = are_tasks
        self._counts: dict[int, list[RankSet]] = {}
        self._texts: list[str] | None = None

    def add(self, ranks: RankSet, count: int, stack: Stack) -> None:
        """Add *count* threads on each of *ranks*."""
        self._counts.setdefault(count, []).append(ranks)
        texts: list[str] = []

        def collect(text: str, _: object) -> str:
            texts.append(text)
            return text

        map_texts(stack, collect)
        known = self._texts or texts
        self._texts = [
            one if one == other else DIFFERENT for one, other in zip(known, texts, strict=True)
        ]

    def made(self, shape: Stack) -> ThreadGroup:
        """Return the group; *shape* is its stack."""
        texts = iter(self._texts or ())
        counts = tuple((count, RankSet.union(sets)) for count, sets in sorted(self._counts.items()))
        return ThreadGroup(
            ranks=RankSet.union(ranks for _, ranks in counts),
            counts=counts,
            stack=map_texts(shape, lambda *_: _without_marks(next(texts))),
            are_tasks=self._are_tasks,
        )


def _without_marks(text: str) -> str:
    return text.replace(SLOT, DIFFERENT).replace(PLACEHOLDER, DIFFERENT)
