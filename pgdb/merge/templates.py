"""What answers have in common when their values differ: a form, and the parts that fill it.

``{id = 3, name = "a"}`` is the form ``{id = □, name = □}`` with the parts ``3`` and ``"a"``.
Forms are sent once, whatever the number of ranks, and where there are very many different
answers of one form only summaries of the parts travel.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from pgdb.merge.record_visitor import Change, TextKind, map_arguments, map_texts
from pgdb.patterns import pattern
from pgdb.records import (
    PLACEHOLDER,
    Failure,
    Frame,
    Stack,
    Text,
    Threads,
    Value,
    Variables,
)

Templated = Stack | Threads | Value | Variables | Text | Failure
"""Records that can have a form."""

# Numbers that are no part of a name, strings and characters in quotes; and a hole of the program's
# own, so that it gets itself back.
_PART = pattern(
    rf"""{PLACEHOLDER}
    | (?<![\w.$])[-+]?(?:0x[0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?
        |nan(?:\(0x[0-9a-f]+\))?|inf)(?![\w$])
    | "(?:[^"\\]|\\.)*"
    | '(?:[^'\\]|\\.)*'
    """,
    re.X,
)


def extract_template(record: Templated) -> tuple[Templated, tuple[str, ...]]:
    """Return the form of *record* and the parts that were in its holes, in order.

    >>> extract_template(Value(text="{1, -2.5e3}"))[1]
    ('1', '-2.5e3')
    """
    parts: list[str] = []

    def take(match: re.Match[str]) -> str:
        parts.append(match[0])
        return PLACEHOLDER

    def change(text: str, kind: TextKind) -> str:
        del kind
        return _PART.sub(take, text)

    return map_texts(record, change), tuple(parts)


def fill_template(form: Templated, parts: Sequence[str]) -> Templated:
    """Return the record that has *form* and *parts*.

    :raises ValueError: if the form has another number of holes.
    """
    left = iter(parts)
    filled = map_texts(form, _filler(left))
    if next(left, None) is not None:
        raise ValueError("more parts than holes")
    return filled


def fill_rows(
    form: Templated, columns: Sequence[str | Sequence[str]], count: int
) -> list[Templated]:
    """Return the *count* records that have *form*, given the parts of each of its holes.

    A column that is a text is the part of all of them, and is filled in once.

    :raises ValueError: if the form has another number of holes, or a column another length.
    """
    # A hole that stays is filled with itself, which keeps the order of the others.
    common = fill_template(
        form, [each if isinstance(each, str) else PLACEHOLDER for each in columns]
    )
    varied = [each for each in columns if not isinstance(each, str)]
    if any(PLACEHOLDER in each for each in columns if isinstance(each, str)):
        # A mark of the program's own would be taken for a hole.
        common, varied = (
            form,
            [(each,) * count if isinstance(each, str) else each for each in columns],
        )
    if not varied:
        return [common] * count
    rows = zip(*varied, strict=True)
    if isinstance(common, Stack) and PLACEHOLDER not in common.hidden:
        return [*_stacks(common, rows)]
    return [fill_template(common, row) for row in rows]


def _stacks(form: Stack, rows: Iterable[Sequence[str]]) -> Iterator[Stack]:
    """Fill many stacks, whose frames differ in few places: the others are not looked at."""
    places = [
        number
        for number, frame in enumerate(form.frames)
        if any(PLACEHOLDER in argument.value for argument in frame.arguments)
    ]
    for row in rows:
        left = iter(row)
        frames = list(form.frames)
        for number in places:
            frames[number] = map_arguments(frames[number], _filler(left))
        if next(left, None) is not None:
            raise ValueError("more parts than holes")
        yield Stack(frames=tuple(frames), hidden=form.hidden, more=form.more)


class TemplateTable:
    """Records and their forms, each taken apart or put together once.

    At an inner node the children say the same things: a table for each question that is under
    way saves filling and hashing them anew for each child, and taking them apart on the way up.
    Threads may use it at the same time.
    """

    def __init__(self) -> None:
        self._forms: dict[Templated, Templated] = {}
        self._records: dict[tuple[Templated, tuple[str, ...]], Templated] = {}
        self._taken: dict[Templated, tuple[Templated, tuple[str, ...]]] = {}
        self._frames: dict[Frame, tuple[Frame, tuple[str, ...]]] = {}
        self._hidden: dict[str, tuple[str, tuple[str, ...]]] = {}

    def take(self, record: Templated) -> tuple[Templated, tuple[str, ...]]:
        """Return what :func:`extract_template` does."""
        taken = self._taken.get(record)
        if taken is None:
            form, parts = (
                self._take_stack(record) if isinstance(record, Stack) else extract_template(record)
            )
            taken = self._taken[record] = (self._forms.setdefault(form, form), parts)
        return taken

    def _take_stack(self, stack: Stack) -> tuple[Templated, tuple[str, ...]]:
        """Do what :func:`extract_template` does; of a thousand stacks most frames are the same."""
        hidden = self._hidden.get(stack.hidden)
        if hidden is None:
            head, found = extract_template(Stack(frames=(), hidden=stack.hidden))
            assert isinstance(head, Stack)
            hidden = self._hidden[stack.hidden] = (head.hidden, found)
        parts = [*hidden[1]]
        frames = []
        for frame in stack.frames:
            taken = self._frames.get(frame)
            if taken is None:
                form, found = extract_template(Stack(frames=(frame,)))
                assert isinstance(form, Stack)
                taken = self._frames[frame] = (form.frames[0], found)
            frames.append(taken[0])
            parts += taken[1]
        return Stack(frames=tuple(frames), hidden=hidden[0], more=stack.more), tuple(parts)

    def fill_rows(
        self, form: Templated, columns: Sequence[str | Sequence[str]], count: int
    ) -> list[Templated]:
        """Return what :func:`fill_rows` does.

        :raises ValueError: as that does.
        """
        form = self._forms.setdefault(form, form)
        spread = [(each,) * count if isinstance(each, str) else each for each in columns]
        rows = list(zip(*spread, strict=True)) if spread else [()] * count
        known = self._records
        found = [known.get((form, row)) for row in rows]
        new = [number for number, record in enumerate(found) if record is None]
        if not new:
            return [record for record in found if record is not None]
        some = [
            each if isinstance(each, str) else [each[number] for number in new] for each in columns
        ]
        for number, record in zip(new, fill_rows(form, some, len(new)), strict=True):
            row = rows[number]
            # The sender got the row from extract_template: extracting it again would give the same.
            found[number] = known.setdefault((form, row), record)
            self._taken.setdefault(record, (form, row))
        return [record for record in found if record is not None]


def count_placeholders(form: Templated) -> int:
    """Return how many parts *form* takes."""
    count = 0

    def change(text: str, kind: TextKind) -> str:
        nonlocal count
        del kind
        count += text.count(PLACEHOLDER)
        return text

    map_texts(form, change)
    return count


_NOTHING_COMMON: dict[type[Templated], Templated] = {
    Stack: Stack(frames=()),
    Threads: Threads(stacks=()),
    Value: Value(text=""),
    Variables: Variables(items=()),
    Text: Text(text=""),
    Failure: Failure(message=""),
}


def nothing_common(kind: type[Templated]) -> Templated:
    """Return the form of ranks that have said a *kind* of thing each, all of other forms."""
    return _NOTHING_COMMON[kind]


def _filler(parts: Iterator[str]) -> Change:
    def change(text: str, kind: TextKind) -> str:
        del kind
        return "".join(_filled(text, parts)) if PLACEHOLDER in text else text

    return change


def _filled(text: str, parts: Iterator[str]) -> Iterator[str]:
    first, *rest = text.split(PLACEHOLDER)
    yield first
    for piece in rest:
        try:
            yield next(parts)
        except StopIteration:
            raise ValueError("fewer parts than holes") from None
        yield piece
