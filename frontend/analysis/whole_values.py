"""Values in full, for verdicts: the parts that GDB does not print are read from the ranks.

A leaf hashes the value in full where GDB prints a part (:class:`pgdb.records.Value`). Equal hashes
need no further look. Of values that differ, one rank of each class is asked for the whole value.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Container, Sequence
from typing import Protocol, TypeVar

from msgspec.structs import replace

from pgdb.errors import NotRecordedError
from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.analysis.arrays import Ask, read_arrays
from pgdb.frontend.analysis.full_answers import pages
from pgdb.frontend.analysis.set_differences import content, may_be_unordered
from pgdb.frontend.analysis.value_nodes import MarkedText
from pgdb.frontend.analysis.values import parse
from pgdb.merge.classes import EquivalenceClass
from pgdb.merge.normalize import DIFFERENT, normalize_record, normalize_values
from pgdb.overlay.messages import Evaluate
from pgdb.print_options import split_print
from pgdb.printed_parts import hidden_part, is_cut, unread_part
from pgdb.ranks import RankSet
from pgdb.records import SLOT, Block, Record, Value, Variable, Variables

MOST_ELEMENTS = 100_000
"""Most elements of containers and text that a verdict looks at."""
MOST_PRINTED = 2_000
"""Most elements of containers and text that ``print`` looks at, which is to answer at once."""
MOST_OF_PRINTED_PARTS = 20_000
"""Most elements of the long containers of a value that ``print`` looks at one by one, together."""
NOT_KEPT = "too many different values, which are not kept"
"""The reason for no verdict on values of which only the range is known."""

_MOST_CONTENTS = 16
"""Most texts of which the content is kept: a verdict asks for that of each side several times."""

_T = TypeVar("_T")


class Compute(Protocol):
    """Runner of long work that does not keep the event loop from its links."""

    async def __call__(self, work: Callable[[], _T], *, name: str) -> _T:
        """Return the result of *work*; *name* is that of the thread."""


async def at_once(work: Callable[[], _T], *, name: str) -> _T:
    """Run *work* on the event loop, where no link waits for it."""
    return work()


Look = Callable[[Answer], Awaitable[Answer]]
"""A function that returns an answer with the values in full that GDB has printed in part."""


async def no_look(answer: Answer) -> Answer:
    """Return an answer as it is."""
    return answer


async def look(
    answer: Answer,
    ask: Ask,
    *,
    limit_bytes: int,
    raw_pointers: bool = False,
    most_elements: int = MOST_ELEMENTS,
    wanted: Container[str] | None = None,
) -> Answer:
    """Return *answer* with the values in full that GDB has printed in part.

    *most_elements* is that of the request for *answer*. With *wanted*, only values with these
    hashes are read. A value that cannot be read again keeps its hash only.

    :raises CommandError: if the arrays are larger than *limit_bytes* together.
    """
    first_ranks: dict[str, int] = {}
    for each in answer.classes:
        record = each.record
        if not isinstance(record, Value) or not record.digest or record.whole is not None:
            continue
        if wanted is None or record.digest in wanted:
            first_ranks.setdefault(record.digest, each.ranks.first)
    if not first_ranks:
        return answer
    word, _, expression = answer.command.partition(" ")
    operation = Evaluate(
        expression=expression,
        format=word.partition("/")[2],
        raw_pointers=raw_pointers,
        most_elements=most_elements,
        limit_bytes=limit_bytes,
        whole=True,
        keeps_history=True,
    )
    found: dict[str, Value] = {}
    headers: dict[int, Value] = {}
    try:
        for page in pages(RankSet(first_ranks.values())):
            said = await ask(answer.command, operation, page)
            for each in said.classes:
                record = each.record
                if isinstance(record, Value) and isinstance(record.whole, str):
                    found[record.digest] = record
                elif isinstance(record, Value) and isinstance(record.whole, Block):
                    headers |= dict.fromkeys(each.ranks, record)
        if headers:
            # The options of "print" are for what it shows; the other readers have none.
            read = split_print(expression).expression
            arrays = await read_arrays(ask, read, RankSet(headers), limit_bytes=limit_bytes)
            for rank, array in arrays.by_rank.items():
                header = headers[rank].whole
                assert isinstance(header, Block)
                data = array.tobytes(order=header.order)
                whole = replace(header, data=data)
                found[headers[rank].digest] = replace(headers[rank], whole=whole)
    except NotRecordedError:
        return answer
    return replace(answer, classes=tuple(_with_whole(each, found) for each in answer.classes))


def _with_whole(
    each: EquivalenceClass[Record], found: dict[str, Value]
) -> EquivalenceClass[Record]:
    record = each.record
    if not isinstance(record, Value) or record.whole is not None or record.digest not in found:
        return each
    return replace(each, record=replace(record, whole=found[record.digest].whole))


def with_known(recalled: Answer, before: Answer) -> Answer:
    """Return a recalled answer with what is known of its values beyond the part that GDB prints.

    Leaves keep their answers as GDB gave them; *before* is the same answer after a look at the
    whole.
    """
    has_format = "/" in before.command.partition(" ")[0]
    known = [each for each in before.classes if isinstance(each.record, Value)]
    classes: list[EquivalenceClass[Record]] = []
    for each in recalled.classes:
        left = each.ranks
        if isinstance(each.record, Value) and each.record.is_part:
            normalized = normalize_record(each.filled, numbers_are_data=has_format)
            for of_class in known:
                if common := left & of_class.ranks:
                    left -= common
                    classes.append(
                        EquivalenceClass(
                            ranks=common, record=of_class.record, slots=normalized.slots
                        )
                    )
        if left:
            classes.append(each.part(left))
    return replace(recalled, classes=tuple(classes))


def is_known(record: Record) -> bool:
    """Return whether the whole of a value, as far as it was looked at, is at hand."""
    return not isinstance(record, Value) or not record.digest or record.whole is not None


def is_partial(record: Record) -> bool:
    """Return whether a value has elements that were not looked at."""
    if isinstance(record, Variables):
        return any(
            item.looked_at or (not item.digest and is_cut(item.value)) for item in record.items
        )
    if not isinstance(record, Value):
        return False
    return bool(record.looked_at) or (not record.digest and is_cut(record.text))


def key_of(record: Record) -> Record | str | tuple[str]:
    """Return a key that is the same for equal values: a part of a value is nothing to compare.

    Values with unordered containers are equal if their content is.
    """
    if isinstance(record, Value) and may_be_unordered(record.text) and is_known(record):
        whole = record.whole
        if whole is None or isinstance(whole, str):
            text = record.text if whole is None else normalize_values(whole, [])
            parts = whole.parts if isinstance(whole, MarkedText) else ""
            return (f"{_content(text)}{parts}",)
    if isinstance(record, Value):
        return record.digest or (replace(record, warnings="") if record.warnings else record)
    return record


@functools.lru_cache(maxsize=_MOST_CONTENTS)
def _content(text: str) -> str:
    return content(parse(text))


def joined_by_content(
    classes: Sequence[EquivalenceClass[Record]],
) -> list[EquivalenceClass[Record]]:
    """Return classes with those joined that differ only in the order of unordered containers."""
    members: dict[object, list[EquivalenceClass[Record]]] = {}
    for each in classes:
        key = key_of(each.record)
        members.setdefault(key if isinstance(key, tuple) else (key, each.ranks), []).append(each)
    return [
        same[0]
        if len(same) == 1
        else replace(same[0], ranks=RankSet.union(each.ranks for each in same))
        for same in members.values()
    ]


def not_seen(record: Record) -> str:
    """Return GDB's mark for a value, or a part of it, that it cannot show; nothing if it shows all.

    Nobody knows whether such values are equal on two ranks.
    """
    if isinstance(record, Variables):
        return next(filter(None, (hidden_part(item.value) for item in record.items)), "")
    if not isinstance(record, Value):
        return ""
    whole = record.whole if isinstance(record.whole, str) else ""
    return hidden_part(record.text) or hidden_part(whole)


def unread(record: Record) -> str:
    """Return the first object of Python in a value of which not all was read; nothing for none.

    Nobody knows whether such objects are equal on two ranks. Where the value in full is a hash, the
    text has at least the object that it is in.
    """
    if isinstance(record, Variables):
        return next(filter(None, map(_unread_in, record.items)), "")
    return _unread_in(record) if isinstance(record, Value) else ""


def _unread_in(item: Value | Variable) -> str:
    if item.digest and item.looked_at >= 0:
        return ""
    found = unread_part(item.text if isinstance(item, Value) else item.value)
    if not found and isinstance(item.whole, str):
        found = unread_part(item.whole)
    return found.replace(SLOT, DIFFERENT)


def is_hidden(record: Record) -> bool:
    """Return whether GDB cannot show any part of a value, as of one that is optimized out."""
    return isinstance(record, Value) and record.text == (not_seen(record) or None)


def how_far(record: Record) -> str:
    """Return words for the elements of a partial value that were looked at."""
    count = record.looked_at if isinstance(record, Value) else 0
    return f"the first {count} elements" if count > 0 else "the elements that GDB prints"


def way_out(expression: str) -> str:
    """Return advice for a value that is too long to be looked at in full."""
    return f"name a part of it, such as a member or elements of {expression}"
