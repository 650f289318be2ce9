"""Templates: the common part of answers whose values differ, and the parts that fill it.

``{id = 3, name = "a"}`` has the template ``{id = □, name = □}`` and the parts ``3`` and ``"a"``.
A template is sent once for any number of ranks. If one template has very many different answers,
only summaries of their parts travel.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

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
"""Records that can have a template."""

# A part is a number outside a name, a quoted string or a quoted character. A placeholder in the
# program's own data is a part too, so filling restores it.
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
    """Return the template of *record*, and the parts for its placeholders in order.

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


def fill_template(template: Templated, parts: Sequence[str]) -> Templated:
    """Return the record that has *template* and *parts*.

    :raises ValueError: if *template* has another number of placeholders.
    """
    left = iter(parts)
    filled = map_texts(template, _filler(left))
    if next(left, None) is not None:
        raise ValueError("more parts than placeholders")
    return filled


def fill_rows(
    template: Templated, columns: Sequence[str | Sequence[str]], count: int
) -> list[Templated]:
    """Return *count* records of *template*, given one column of parts for each placeholder.

    A column that is a text is the part of all records; it is filled in once.

    :raises ValueError: if *template* has another number of placeholders, or a column another
        length.
    """
    # A placeholder with different parts is filled with itself first, which keeps the order of the
    # others.
    common = fill_template(
        template, [each if isinstance(each, str) else PLACEHOLDER for each in columns]
    )
    varied = [each for each in columns if not isinstance(each, str)]
    if any(PLACEHOLDER in each for each in columns if isinstance(each, str)):
        # A placeholder in the program's own data would be filled like one of the template's.
        common, varied = (
            template,
            [(each,) * count if isinstance(each, str) else each for each in columns],
        )
    if not varied:
        return [common] * count
    rows = zip(*varied, strict=True)
    if isinstance(common, Stack) and PLACEHOLDER not in common.hidden:
        return [*_stacks(common, rows)]
    return [fill_template(common, row) for row in rows]


def _stacks(template: Stack, rows: Iterable[Sequence[str]]) -> Iterator[Stack]:
    """Yield a filled stack for each row; frames without placeholders are not visited."""
    places = [
        number
        for number, frame in enumerate(template.frames)
        if PLACEHOLDER in frame.function
        or any(PLACEHOLDER in argument.value for argument in frame.arguments)
    ]
    for row in rows:
        left = iter(row)
        frames = list(template.frames)
        for number in places:
            frames[number] = map_arguments(frames[number], _filler(left))
        if next(left, None) is not None:
            raise ValueError("more parts than placeholders")
        yield replace(template, frames=tuple(frames))


class TemplateTable:
    """A table of records and their templates; each is extracted or filled once.

    The children of an inner node mostly send equal answers. A table for each open question saves
    filling and hashing them again for each child, and extracting them again on the way up. Several
    threads may use a table at the same time.
    """

    def __init__(self) -> None:
        self._templates: dict[Templated, Templated] = {}
        self._records: dict[tuple[Templated, tuple[str, ...]], Templated] = {}
        self._extracted: dict[Templated, tuple[Templated, tuple[str, ...]]] = {}
        self._frames: dict[Frame, tuple[Frame, tuple[str, ...]]] = {}
        self._hidden: dict[str, tuple[str, tuple[str, ...]]] = {}

    def extract(self, record: Templated) -> tuple[Templated, tuple[str, ...]]:
        """Return the same as :func:`extract_template`."""
        extracted = self._extracted.get(record)
        if extracted is None:
            template, parts = (
                self._extract_stack(record)
                if isinstance(record, Stack)
                else extract_template(record)
            )
            extracted = self._extracted[record] = (
                self._templates.setdefault(template, template),
                parts,
            )
        return extracted

    def _extract_stack(self, stack: Stack) -> tuple[Templated, tuple[str, ...]]:
        """Return the same as :func:`extract_template`; a thousand stacks share most of their
        frames."""
        hidden = self._hidden.get(stack.hidden)
        if hidden is None:
            head, found = extract_template(Stack(frames=(), hidden=stack.hidden))
            assert isinstance(head, Stack)
            hidden = self._hidden[stack.hidden] = (head.hidden, found)
        parts = [*hidden[1]]
        frames = []
        for frame in stack.frames:
            extracted = self._frames.get(frame)
            if extracted is None:
                template, found = extract_template(Stack(frames=(frame,)))
                assert isinstance(template, Stack)
                extracted = self._frames[frame] = (template.frames[0], found)
            frames.append(extracted[0])
            parts += extracted[1]
        return replace(stack, frames=tuple(frames), hidden=hidden[0]), tuple(parts)

    def fill_rows(
        self, template: Templated, columns: Sequence[str | Sequence[str]], count: int
    ) -> list[Templated]:
        """Return the same as the function :func:`fill_rows`.

        :raises ValueError: as that function does.
        """
        template = self._templates.setdefault(template, template)
        spread = [(each,) * count if isinstance(each, str) else each for each in columns]
        rows = list(zip(*spread, strict=True)) if spread else [()] * count
        known = self._records
        found = [known.get((template, row)) for row in rows]
        new = [number for number, record in enumerate(found) if record is None]
        if not new:
            return [record for record in found if record is not None]
        some = [
            each if isinstance(each, str) else [each[number] for number in new] for each in columns
        ]
        for number, record in zip(new, fill_rows(template, some, len(new)), strict=True):
            row = rows[number]
            # The sender extracted this row, so extracting it again gives the same.
            found[number] = known.setdefault((template, row), record)
            self._extracted.setdefault(record, (template, row))
        return [record for record in found if record is not None]


def count_placeholders(template: Templated) -> int:
    """Return the number of placeholders in *template*."""
    count = 0

    def change(text: str, kind: TextKind) -> str:
        nonlocal count
        del kind
        count += text.count(PLACEHOLDER)
        return text

    map_texts(template, change)
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
    """Return the template for answers of one *kind* that have nothing in common."""
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
            raise ValueError("fewer parts than placeholders") from None
        yield piece
