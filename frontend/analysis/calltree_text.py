"""A merged call tree as text: one line for each branching point and each leaf.

Long chains and long rank sets are cut to the width, but ``@N`` names all ranks of a node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from pgdb.frontend.analysis.call_paths import Node, Source, base_name
from pgdb.frontend.analysis.calltree import CallTree, label
from pgdb.frontend.analysis.function_names import short_name, without_parameters
from pgdb.merge.normalize import DIFFERENT
from pgdb.merge.runs import runs
from pgdb.patterns import pattern
from pgdb.ranks import RankSet

WIDTH = 80
"""Columns of the text if the caller names no width."""
ITSELF = "(itself)"
"""Label of the ranks whose innermost frame is the last frame of a branching point."""
_RANKS_WIDTH = 24
_PLACE_WIDTH = 24
_LEAST_CHAIN_WIDTH = 20
_NO_LIMIT = 1 << 20
"""Columns of a text that is not cut."""
_MARK = "<-- differs"
_MOST_COUNTS = 8
"""Maximum number of different thread counts that are listed for a leaf."""
# Frames of the C library (__GI___poll), of C++, and of the start of a thread.
_LIBRARY_NAME = pattern(r"_|\?\? \(|(?:std|__gnu_cxx)::|start_thread\b|clone3?\b|execute_native_")
_LEAST_NAME_WIDTH = 12
"""Minimum width of a cut name, in columns."""
_LEAST_START = 3
"""Minimum width of the start of a name before an MPI call, in columns."""
_MPI_CALL = pattern(r"P?MPI_[A-Z]\w+\Z")
_FEW_CALLS = 2
"""Maximum number of nested calls of one function that are shown one by one."""
JOIN = " > "
"""Separator between the frames of one node."""

Absent = Callable[[RankSet], list[str]]
"""A function that returns one line for each reason why ranks were absent."""


def absent(ranks: RankSet) -> list[str]:
    """Return the line for absent ranks, if no reason is known."""
    return [f"[{ranks}] not there: ended, detached or lost"]


def text(tree: CallTree, *, width: int = WIDTH, absent: Absent = absent) -> str:
    """Return the tree as text of *width* columns, with the ranks that are not in it below.

    With a *width* of 0, for files and pipes, nothing is cut.

    *absent* returns the lines for absent ranks.
    """
    odd = tree.odd
    rows = [_Row(tree, node, is_odd=node is odd, is_whole=not width) for node in tree.nodes]
    numbers = max((len(row.number) for row in rows), default=0)
    ranks = max((len(row.ranks) for row in rows), default=0)
    places = max((len(row.place) for row in rows), default=0)
    others = max((len(row.behind(ranks)) for row in rows), default=0)
    room = (width or _NO_LIMIT) - numbers - 1 - others - 2 - (places + 2 if places else 0)
    guides = _guides(tree, max(_LEAST_CHAIN_WIDTH, room) // 2)
    chains = [
        guide + chain(row.labels, max(_LEAST_CHAIN_WIDTH, room) - len(guide))
        for guide, row in zip(guides, rows, strict=True)
    ]
    columns = max(map(len, chains), default=0)
    lines = []
    for row, left in zip(rows, chains, strict=True):
        line = f"{row.number:<{numbers}} {left:<{columns}}  "
        if places:
            line += f"{row.place:<{places}}  "
        lines.append(line + row.behind(ranks))
    return "\n".join([*lines, *_count_lines(tree), *notes(tree, absent)])


def numbered_sets(tree: CallTree) -> tuple[RankSet, ...]:
    """Return the sets of @1, @2 …: ranks of the nodes, then ranks with equal thread counts."""
    more = (ranks for _, counts in _differing_counts(tree) for _, ranks in counts)
    return (*(node.ranks for node in tree.nodes), *more)


def _differing_counts(tree: CallTree) -> Iterator[tuple[Node, tuple[tuple[int, RankSet], ...]]]:
    """Yield the leaves at which ranks have different numbers of threads."""
    if tree.samples > 1:
        return  # threads come and go
    for node in tree.leaves:
        if len(node.threads_by_rank) > 1:
            yield node, node.threads_by_rank


def _count_lines(tree: CallTree) -> Iterator[str]:
    """Return lines with the ranks of each thread count, where counts differ."""
    number = len(tree.nodes)
    for node, counts in _differing_counts(tree):
        sizes = [len(ranks) for _, ranks in counts]
        start = f"of @{node.number}:"
        for at, (count, ranks) in enumerate(counts):
            number += 1
            if at >= _MOST_COUNTS:
                continue
            is_odd = sizes.count(min(sizes)) == 1 and len(ranks) == min(sizes) < max(sizes)
            parts = [f"{start} @{number}", short_ranks(ranks), _count_text(count, tree.unit)]
            yield "  ".join([*parts, _MARK] if is_odd else parts)
            start = " " * len(start)
        if len(counts) > _MOST_COUNTS:
            yield f"{start} … {len(counts) - _MOST_COUNTS} more numbers of {tree.unit}s"


def notes(tree: CallTree, absent: Absent = absent) -> list[str]:
    """Return the lines below the tree for ranks without a stack; *absent* returns the lines for
    absent ranks."""
    lines = []
    if tree.samples > 1:
        lines += _movement(tree)
    lines += [f"[{ranks}] error: {message}" for message, ranks in tree.failures.items()]
    missing = tree.missing
    if missing.running:
        lines.append(f"[{missing.running}] running")
    if missing.late:
        lines.append(f"[{missing.late}] no answer in time")
    if missing.lost:
        lines += absent(missing.lost)
    return lines


def node_labels(node: Node) -> list[str]:
    """Return the labels of the frames of a node, outermost first; recursion becomes its depth."""
    labels = [label(each) for each in node.frames]
    shown = []
    for run in runs(labels):
        cycle = labels[run.start : run.start + run.period]
        if run.times <= _FEW_CALLS:
            shown += cycle * run.times
        else:
            shown.append(
                f"{cycle[0] if len(cycle) == 1 else f'({JOIN.join(cycle)})'} × {run.times}"
            )
    return shown or [ITSELF]


def node_label(node: Node) -> str:
    """Return all frames of a node: ``main > solve > exchange``."""
    return JOIN.join(node_labels(node))


def place(node: Node) -> str:
    """Return the source lines of a node: ``ring.c:21``, or ``ring.c:21,25`` for several lines.

    >>> from pgdb.frontend.analysis.call_paths import Source
    >>> lines_text([Source("/src/a.c", 3), Source("/src/a.c", 9), Source("b.c", 1)])
    'a.c:3,9 b.c:1'
    """
    return lines_text(node.sources)


def lines_text(sources: Sequence[Source]) -> str:
    """Return lines of source files, each file once."""
    files: dict[str, list[str]] = {}
    for file, line in sources:
        files.setdefault(base_name(file), []).append(str(line))
    return " ".join(f"{file}:{','.join(lines)}" for file, lines in files.items())


def short_ranks(ranks: RankSet, width: int = _RANKS_WIDTH) -> str:
    """Return a rank set in brackets, cut if it is longer than *width*.

    >>> short_ranks(RankSet.parse("0,2,5,9,14,20,27,35,44,54"), 20)
    '[0,2,5,9,… 10 ranks]'
    """
    whole = f"[{ranks}]"
    if len(whole) <= width:
        return whole
    end = f",{DIFFERENT} {len(ranks)} ranks]"
    kept, _, _ = whole[: max(2, width - len(end)) + 1].rpartition(",")
    return (kept or f"[{ranks.first}") + end


def chain(labels: list[str], width: int) -> str:
    """Return frames joined and cut to *width*: the most informative frames that fit.

    The first and the innermost frame of the program are kept first, then the program's other frames
    from the inside out, then frames of the C and C++ libraries, whose names begin with ``_`` or
    ``std::``.

    >>> chain(["main", "run_everything", "solve", "exchange"], 32)
    'main > … > solve > exchange'
    >>> chain(["begin_log", "usleep", "__GI___nanosleep", "__GI___clock_nanosleep"], 30)
    'begin_log > usleep > …'
    >>> chain(["std::__invoke<void (*)(int), int>", "spin", "std::this_thread::sleep_for"], 20)
    '… > spin > …'
    >>> chain(["Solver<double>::run_all_of_it(int, int)", "exchange(int)", "PMPI_Allreduce"], 30)
    'Solver<… > … > PMPI_Allreduce'
    """
    whole = JOIN.join(labels)
    if len(whole) <= width:
        return whole
    for folded in (without_parameters, short_name):
        shorter = [folded(each) for each in labels]
        whole = JOIN.join(shorter)
        if len(whole) <= width:
            return whole
    labels = shorter
    own = [at for at, each in enumerate(labels) if not _LIBRARY_NAME.match(each)] or [0]
    inner = list(range(own[-1] + 1, len(labels)))
    # The branching frame is more informative than the innermost frame.
    kept = {own[-1]} if _LIBRARY_NAME.match(labels[0]) else {own[-1], 0}
    if (excess := len(_joined(labels, kept)) - width) > 0:
        left = len(labels[0]) - excess - len(DIFFERENT)
        if _MPI_CALL.match(labels[own[-1]]) and len(kept) > 1 and left >= _LEAST_START:
            # The call that the ranks wait in stays whole.
            labels = [labels[0][:left].rstrip(DIFFERENT) + DIFFERENT, *labels[1:]]
        return _cut(_joined(labels, kept), width)
    for candidates in ([0], own[-2::-1], inner[:1], inner[-1:], inner[1:]):
        for at in candidates:
            if len(_joined(labels, kept | {at})) > width:
                break
            kept.add(at)
    text = _joined(labels, kept)
    if inner and kept.isdisjoint(inner) and width - len(text) >= _LEAST_NAME_WIDTH:
        return _cut(_joined(labels, kept | {inner[0]}), width)
    return text


def _joined(labels: list[str], kept: set[int]) -> str:
    """Return the kept *labels*, with one sign for each gap."""
    parts, before = [], -1
    for at in sorted(kept):
        parts += [labels[at]] if at == before + 1 else [DIFFERENT, labels[at]]
        before = at
    return JOIN.join(parts if before == len(labels) - 1 else [*parts, DIFFERENT])


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: max(1, width - 1)] + DIFFERENT


def seen_text(node: Node, tree: CallTree) -> str:
    """Return the number of samples with a node, and its number of threads."""
    parts = []
    if tree.samples > 1:
        parts.append(f"{node.samples}/{tree.samples} samples")
    if tree.has_threads:
        parts.append(threads_text(node, tree.unit))
    return "  ".join(parts)


def threads_text(node: Node, unit: str = "thread") -> str:
    """Return the number of threads of each rank at a node: ``× 3 threads``, ``× 1-4 threads``."""
    low, high = node.threads_per_rank
    if low == high:
        return _count_text(low, unit)
    return f"× {low}-{high} {unit}s"


def _count_text(count: int, unit: str) -> str:
    return f"× {count} {unit}{'s'[: count != 1]}"


class _Row:
    """The parts of one line."""

    def __init__(self, tree: CallTree, node: Node, *, is_odd: bool, is_whole: bool) -> None:
        self.number = f"@{node.number}"
        self.labels = node_labels(node)
        # In a tree by line the frames show the lines, also those of the caller for "(itself)".
        places = "" if tree.by == "line" else place(node)
        self.place = places if is_whole else _cut_left(places, _PLACE_WIDTH)
        self.ranks = f"[{node.ranks}]" if is_whole else short_ranks(node.ranks)
        self._seen = seen_text(node, tree)
        if node.number > 1:
            # Shown once: columns are few.
            self._seen = self._seen.replace(" samples", "")
        self._mark = _MARK if is_odd else ""

    def behind(self, width: int) -> str:
        """Return the text behind the frames, with the ranks in *width* columns."""
        ranks = f"{self.ranks:<{width}}" if self._seen else self.ranks
        return "  ".join(part for part in (ranks, self._seen, self._mark) if part)


def _guides(tree: CallTree, width: int) -> list[str]:
    """Return the drawing before the frames of each node: its last *width* columns."""
    last = {children[-1] for children in tree.children()[1:] if children}
    below = {0: ""}
    made = []
    for node in tree.nodes:
        before = below[node.parent]
        if not node.parent:
            made.append("")
            below[node.number] = ""
            continue
        is_last = node.number in last
        own = f"{before}{'└─ ' if is_last else '├─ '}"
        deeper = f"{before}{'   ' if is_last else '│  '}"
        made.append(_cut_left(own, width))
        below[node.number] = deeper[-width:]
    return made


def _cut_left(text: str, width: int) -> str:
    return text if len(text) <= width else DIFFERENT + text[len(text) - width + 1 :]


def _movement(tree: CallTree) -> list[str]:
    """Return lines with the ranks that stayed in one place in all samples, and those that moved."""
    last_s = tree.times_s[-1] - tree.times_s[0]
    lines = [f"{tree.samples} samples within {last_s:.3g} s:"]
    for node in tree.leaves:
        ranks = node.steady & tree.stayed
        if ranks:
            lines.append(f"{short_ranks(ranks)} in the same place each time: @{node.number}")
    if tree.moved:
        lines.append(f"{short_ranks(tree.moved)} moved between places")
    if tree.idle:
        lines.append(f"{short_ranks(tree.idle)} stopped all the time")
    if tree.halted:
        lines.append(f"{short_ranks(tree.halted)} stopped on their own, or ended, meanwhile")
    if tree.stayed and not tree.moved:
        lines.append("no rank that runs has moved: the job hangs, or is always in the same call")
    return lines
