"""Values of many ranks compared field by field: the common part, and the places that differ.

Texts that are equal after normalization count as equal, so that addresses do not matter. Runs of
equal elements are compared as runs, so that their length costs no time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
from msgspec.structs import replace

from pgdb.frontend.analysis.paths import (
    Base,
    Index,
    Path,
    bases_of,
    by_label,
    element_step,
    into_content,
    is_row,
    path_text,
    positions_of,
    step_to,
    within,
)
from pgdb.frontend.analysis.set_differences import (
    content,
    has_no_order,
    is_set,
    may_be_unordered,
    membership,
)
from pgdb.frontend.analysis.values import Group, Leaf, Node, bounds_text, filled, unparse
from pgdb.merge.normalize import DIFFERENT, SlotFiller, join_slots
from pgdb.merge.summary import Summary
from pgdb.patterns import pattern
from pgdb.ranks import RankSet
from pgdb.records import PLACEHOLDER

NONE = "(none)"
"""Text for an element or field that some ranks do not have."""
NOT_SHOWN = "(beyond 'set print elements')"
"""Text for an element that GDB did not print."""

_FEWEST_REPEATS = 10  # GDB's "print repeats"
_MOST_IN_RUN = 1000  # elements of a run that are named one by one
_SCATTERED = 4  # an array with at most this many differing runs is listed run by run

# In the head of a group: the length of a container, the address behind a reference.
_NUMBERS = pattern(r"0x[0-9a-f]+|\d+")


class Place(msgspec.Struct, frozen=True):
    """A part of a value that differs between ranks."""

    path: str
    """Path from the value: ``.x[1]``, ``[3]@5`` (five elements), ``%x(2)``."""
    texts: tuple[tuple[RankSet, str], ...]
    """Texts of the ranks, most common first."""
    bounds: tuple[str, ...] = ()
    """Lower bounds of the arrays of Fortran in each text, if the place is one with such arrays."""
    summary: Summary | None = None
    """Summary of all numbers at the place, if the texts are parts of them."""


class Placeholder(msgspec.Struct, frozen=True):
    """A placeholder of a template: many ranks have different texts there."""

    path: str
    number: int
    """Index of the placeholder in the text."""


class Comparison(msgspec.Struct, frozen=True):
    """The common part of the values of several ranks, and the places that differ."""

    common: str
    """The value, with ``…`` for each part that differs."""
    places: tuple[Place, ...]
    has_common: bool
    """Whether *common* contains more than the names of fields."""


Values = Sequence[tuple[RankSet, Node]]


def compare(values: Values, *, sets_by_position: bool = False) -> Comparison:
    """Compare the values of ranks, field by field and element by element.

    Sets are compared by membership; with *sets_by_position* by position, for elements that count as
    equal within a tolerance.
    """
    comparing = _Comparing(sets_by_position=sets_by_position)
    common = comparing.node(values, ())
    return Comparison(common, tuple(comparing.places), comparing.has_common)


def bounds_of(values: Values, texts: Sequence[tuple[RankSet, str]]) -> tuple[str, ...]:
    """Return the lower bounds of the arrays in each of *texts*, which are texts of *values*."""
    members: dict[str, list[RankSet]] = {}
    for ranks, node in values:
        members.setdefault(bounds_text(node), []).append(ranks)
    if not any(members):
        return ()
    # Ranks have few different bounds, and many different texts.
    known = [(bounds, RankSet.union(sets)) for bounds, sets in members.items()]
    found = []
    for ranks, _ in texts:
        here = [bounds for bounds, everyone in known if not everyone.isdisjoint(ranks)]
        found.append(here[0] if len(here) == 1 else "?")
    return tuple(found) if any(found) else ()


def placeholders(template: Node) -> list[Placeholder]:
    """Return the placeholders of *template* in their order, each with the path to it."""
    found: list[Placeholder] = []

    def visit(node: Node, path: Path) -> None:
        if isinstance(node, Leaf):
            visit_text(node.text, path)
            return
        visit_text(node.head.text, path)
        path = (*path, *into_content(node))
        is_fortran = node.opening.startswith("(")
        at = 0
        is_array = node.is_array
        for item in node.items:
            visit_text(item.label.text, path)
            label = item.label.text.replace(PLACEHOLDER, DIFFERENT)
            index = Index(at, item.count, is_fortran, node.lower)
            visit(item.value, (*path, index) if is_array else (*path, *step_to(label, is_fortran)))
            at += item.count

    def visit_text(text: str, path: Path) -> None:
        for _ in range(text.count(PLACEHOLDER)):
            found.append(Placeholder(path_text(path), len(found)))

    visit(template, ())
    return found


def leaves(values: Values) -> dict[str, list[tuple[RankSet, str]]]:
    """Return the text of every part without parts, by path.

    A run of equal elements is one part; it ends where a run ends on any rank.
    """
    found: dict[str, list[tuple[RankSet, str]]] = {}

    def visit(values: Values, path: Path) -> None:
        for ranks, node in values:
            if isinstance(node, Leaf):
                found.setdefault(path_text(path), []).append((ranks, node.filled))
        groups = [(ranks, node) for ranks, node in values if isinstance(node, Group)]
        if groups:
            path = (*path, *into_content(groups[0][1]))
        arrays = [(ranks, group) for ranks, group in groups if group.is_array]
        for at, count, nodes in _aligned(arrays):
            is_fortran = arrays[0][1].opening.startswith("(")
            step = Index(at, count, is_fortran, arrays[0][1].lower)
            parts = [(ranks, node) for (ranks, _), node in zip(arrays, nodes, strict=True)]
            visit([pair for pair in parts if not _is_absent(pair[1])], (*path, step))
        members: dict[tuple[str, int], list[tuple[RankSet, Node]]] = {}
        is_fortran = False
        for ranks, group in groups:
            if not group.is_array:
                is_fortran = group.opening.startswith("(")
                for key, item in by_label(group).items():
                    members.setdefault(key, []).append((ranks, item.value))
        positions = positions_of([group for _, group in groups if not group.is_array]) or {}
        for key, parts in members.items():
            steps = step_to(key[0], is_fortran)
            if key in positions:
                steps = element_step(positions[key])
            visit(parts, (*path, *steps))

    visit(values, ())
    return found


def _is_absent(node: Node) -> bool:
    return isinstance(node, Leaf) and node.text in (NONE, NOT_SHOWN)


class _Comparing:
    """Collector of the places that differ, during the walk of a tree."""

    def __init__(self, *, sets_by_position: bool) -> None:
        self._sets_by_position = sets_by_position
        self.places: list[Place] = []
        self.has_common = False

    def node(self, values: Values, path: Path, base: Base | None = None) -> str:
        """Return the common part, and add a place for each difference.

        *base* is given for the part of an object that is of a base class.
        """
        first = values[0][1]
        if isinstance(first, Leaf):
            if all(node == first for _, node in values[1:]) or _is_same_leaf(values):
                self.has_common = self.has_common or bool(first.text)
                return _joined(values).filled
            return self._differs(values, path)
        groups = [(ranks, node) for ranks, node in values if isinstance(node, Group)]
        if len(groups) < len(values) or not _is_same_kind(groups):
            return self._differs(values, path)
        if all(has_no_order(group) for _, group in groups) and _have_one_content(groups):
            self.has_common = True
            return _first_text(groups)
        path = (*path, *into_content(first))
        if not self._sets_by_position and all(is_set(group) for _, group in groups):
            return self._set(groups, path)
        if all(group.is_array for _, group in groups):
            return self._array(groups, path)
        if any(not group.items for _, group in groups) and any(g.items for _, g in groups):
            return self._differs(values, path)
        return self._struct(groups, path, base)

    def _differs(self, values: Values, path: Path) -> str:
        texts = _texts(values)
        self.places.append(Place(path_text(path), texts, bounds_of(values, texts)))
        return DIFFERENT

    def _head(self, groups: Sequence[tuple[RankSet, Group]], path: Path) -> str:
        heads = [(ranks, group.head) for ranks, group in groups]
        if _is_same_leaf(heads):
            return _joined(heads).filled
        # The length of a container: "std::vector of length 3, capacity 4 = ".
        texts = [
            (ranks, Leaf(head.text.removesuffix(" = ").removesuffix(": "), head.slots))
            for ranks, head in heads
        ]
        self.places.append(Place(path_text(path), _texts(texts)))
        return _NUMBERS.sub(DIFFERENT, heads[0][1].filled)

    def _set(self, groups: Sequence[tuple[RankSet, Group]], path: Path) -> str:
        found = membership([group for _, group in groups])
        if found is None:
            sizes = {sum(item.count for item in group.items) for _, group in groups}
            is_ordered = not any(may_be_unordered(group.head.text) for _, group in groups)
            by_position = is_ordered and len(sizes) == 1
            return (self._array if by_position else self._whole)(groups, path)
        self.has_common = True
        pairs = zip(groups, found.texts, strict=True)
        self.places.append(
            Place(path_text(path), _texts([(ranks, Leaf(text)) for (ranks, _), text in pairs]))
        )
        first = groups[0][1]
        head = _joined([(ranks, group.head) for ranks, group in groups]).filled
        if len({group.head.text for _, group in groups}) > 1:
            head = _NUMBERS.sub(DIFFERENT, head)
        parts = [filled(item.value) + item.after for item in found.common]
        return f"{head}{first.opening}{', '.join((*parts, DIFFERENT))}{first.end}"

    def _struct(
        self, groups: Sequence[tuple[RankSet, Group]], path: Path, base: Base | None
    ) -> str:
        first = groups[0][1]
        parts = [self._head(groups, path), first.opening]
        is_fortran = first.opening.startswith("(")
        keyed = [(ranks, by_label(group)) for ranks, group in groups]
        keys = dict.fromkeys(key for _, items in keyed for key in items)
        positions = positions_of([group for _, group in groups])
        if positions is None:
            return self._whole(groups, path)
        bases = bases_of(first)
        absent = Leaf("0" if first.head.text.startswith("std::bitset") else NONE)
        for number, key in enumerate(keys):
            here = next(items[key] for _, items in keyed if key in items)
            values = [
                (
                    ranks,
                    items[key].value
                    if key in items
                    else (Leaf(NOT_SHOWN) if group.is_cut else absent),
                )
                for (ranks, items), (_, group) in zip(keyed, groups, strict=True)
            ]
            labels = [(ranks, items[key].label) for ranks, items in keyed if key in items]
            label = _joined(labels).filled
            parts += ((here.before or ", ") if number else "", label)
            element = positions.get(key)
            steps = step_to(label, is_fortran, base) if element is None else element_step(element)
            inner = within(bases.get(key), base)
            parts += (self.node(values, (*path, *steps), inner), here.after)
        return "".join((*parts, first.end))

    def _whole(self, groups: Sequence[tuple[RankSet, Group]], path: Path) -> str:
        """Compare groups as a whole, whose elements no expression names on all ranks."""
        texts = _texts(groups)
        if len(texts) > 1:
            return self._differs(groups, path)
        self.has_common = True
        return texts[0][1]

    def _array(self, groups: Sequence[tuple[RankSet, Group]], path: Path) -> str:
        first = groups[0][1]
        is_fortran = first.opening.startswith("(")
        lower = first.lower
        if is_fortran and any(group.lower != lower for _, group in groups):
            return self._whole(groups, path)
        mark, had_common = len(self.places), self.has_common
        head = self._head(groups, path)
        shown: list[tuple[str, int]] = []
        begin = Index(0, 0, is_fortran, lower)
        has_row = is_row(first)
        run: _Run | None = None
        runs = differing = 0
        for at, count, nodes in _aligned(groups):
            values = [(ranks, node) for (ranks, _), node in zip(groups, nodes, strict=True)]
            is_open = not any(isinstance(node, Group) for node in nodes)
            if is_open and not _is_same_leaf(values) and count > 1 and not has_row:
                differing += count
                runs += 1
                texts = _texts(values)
                for number in range(at, at + min(count, _MOST_IN_RUN)):
                    step = replace(begin, first=number, count=1)
                    self.places.append(Place(path_text((*path, step)), texts))
                shown.append((DIFFERENT, count))
                continue
            if is_open and not _is_same_leaf(values):
                differing += count
                texts = _texts(values)
                sets = tuple(ranks for ranks, _ in texts)
                if run is None or run.sets != sets or not has_row:
                    if run is not None:
                        self.places.append(run.place())
                    runs += 1
                    run = _Run(path, replace(begin, first=at), sets)
                run.add(count, texts)
                shown.append((DIFFERENT, count))
                continue
            if run is not None:
                self.places.append(run.place())
                run = None
            known = len(self.places)
            shown.append((self.node(values, (*path, replace(begin, first=at, count=count))), count))
            if 1 < count <= _MOST_IN_RUN and len(self.places) > known:
                # No expression names a part of each element of a run.
                del self.places[known:]
                for number in range(at, at + count):
                    self.node(values, (*path, replace(begin, first=number, count=1)))
        if run is not None:
            self.places.append(run.place())
        length = sum(count for _, count in shown)
        if runs > _SCATTERED and 2 * differing >= length:
            del self.places[mark:]
            self.has_common = had_common
            return self._differs(groups, path)
        separator = next((i.before for _, g in groups for i in g.items[1:]), ", ")
        # Python has no form for a run of equal elements.
        parts = _runs(shown) if first.opening else [text for text, n in shown for _ in range(n)]
        body = separator.join(parts)
        return f"{head}{first.opening}{body}{first.end}"


class _Run:
    """Neighbouring elements that split the ranks into the same sets: one place."""

    def __init__(self, path: Path, begin: Index, sets: tuple[RankSet, ...]) -> None:
        self.sets = sets
        self._path = path
        self._begin = begin
        self._count = 0
        self._elements: list[list[tuple[str, int]]] = [[] for _ in sets]

    def add(self, count: int, texts: Sequence[tuple[RankSet, str]]) -> None:
        """Add *count* further elements; *texts* are in the order of the sets."""
        self._count += count
        for elements, (_, text) in zip(self._elements, texts, strict=True):
            elements.append((text, count))

    def place(self) -> Place:
        """Return the place that stands for all elements."""
        texts = []
        for ranks, elements in zip(self.sets, self._elements, strict=True):
            text = ", ".join(_runs(elements))
            texts.append((ranks, text if self._count == 1 else f"{{{text}}}"))
        step = replace(self._begin, count=self._count)
        return Place(path_text((*self._path, step)), tuple(texts))


def _runs(shown: Sequence[tuple[str, int]]) -> list[str]:
    """Return elements as GDB lists them, with each long run of equal elements once."""
    joined: list[tuple[str, int]] = []
    for text, count in shown:
        if joined and joined[-1][0] == text:
            count += joined.pop()[1]
        joined.append((text, count))
    parts: list[str] = []
    for text, count in joined:
        if count >= _FEWEST_REPEATS:
            parts.append(f"{text} <repeats {count} times>")
        else:
            parts += [text] * count
    return parts


def _aligned(groups: Sequence[tuple[RankSet, Group]]) -> Iterator[tuple[int, int, list[Node]]]:
    """Yield position, length and values of each run in which every array has one value."""
    lengths = [sum(item.count for item in group.items) for _, group in groups]
    number = [0] * len(groups)
    used = [0] * len(groups)
    at = 0
    while at < max(lengths, default=0):
        count = max(lengths) - at
        nodes: list[Node] = []
        for index, (_, group) in enumerate(groups):
            if number[index] < len(group.items):
                item = group.items[number[index]]
                count = min(count, item.count - used[index])
                nodes.append(item.value)
            else:
                nodes.append(Leaf(NOT_SHOWN if group.is_cut else NONE))
        for index, (_, group) in enumerate(groups):
            if number[index] < len(group.items):
                used[index] += count
                if used[index] == group.items[number[index]].count:
                    number[index] += 1
                    used[index] = 0
        yield at, count, nodes
        at += count


def _is_same_leaf(values: Values) -> bool:
    """Return whether all values are leaves that are equal after normalization."""
    first = values[0][1]
    return isinstance(first, Leaf) and all(
        isinstance(node, Leaf) and node.text == first.text for _, node in values
    )


def _is_same_kind(groups: Sequence[tuple[RankSet, Group]]) -> bool:
    first = groups[0][1]
    head = _NUMBERS.sub("", first.head.text)
    return all(
        group.opening[:1] == first.opening[:1]
        and group.is_array == first.is_array
        and _NUMBERS.sub("", group.head.text) == head
        for _, group in groups
    )


def _have_one_content(groups: Sequence[tuple[RankSet, Group]]) -> bool:
    """Return whether containers without an order of their own are equal."""
    first = groups[0][1]
    if any(len(group.items) != len(first.items) for _, group in groups):
        return False
    wanted = content(first)
    return all(content(group) == wanted for _, group in groups[1:])


def _first_text(groups: Sequence[tuple[RankSet, Group]]) -> str:
    """Return the text of the first of equal containers; addresses differ between them."""
    return unparse(
        groups[0][1], lambda leaf: SlotFiller([DIFFERENT for _ in leaf.slots]).fill(leaf.text)
    )


def _joined(values: Sequence[tuple[RankSet, Node]]) -> Leaf:
    """Return equal leaves as one leaf, with the addresses that are equal in all."""
    leaves = [node for _, node in values if isinstance(node, Leaf)]
    slots = leaves[0].slots
    for leaf in leaves[1:]:
        if len(leaf.slots) == len(slots):
            slots = join_slots(slots, leaf.slots)
    return Leaf(leaves[0].text, slots)


def _texts(values: Values) -> tuple[tuple[RankSet, str], ...]:
    """Return the different texts of values with their ranks, the most common first."""
    members: dict[str, list[tuple[RankSet, Leaf]]] = {}
    for ranks, node in values:
        # Most values are leaves, and there can be a million of them.
        leaf = node if isinstance(node, Leaf) else Leaf(unparse(node), tuple(_slots(node)))
        members.setdefault(leaf.text, []).append((ranks, leaf))
    pairs = [
        (RankSet.union(ranks for ranks, _ in same) if len(same) > 1 else same[0][0], text)
        for same in members.values()
        for text in (_joined(same).filled if same[0][1].slots else same[0][1].text,)
    ]
    return tuple(sorted(pairs, key=lambda pair: (-len(pair[0]), pair[0].first)))


def _slots(node: Node) -> Iterator[str]:
    if isinstance(node, Leaf):
        yield from node.slots
        return
    yield from node.head.slots
    for item in node.items:
        yield from item.label.slots
        yield from _slots(item.value)
