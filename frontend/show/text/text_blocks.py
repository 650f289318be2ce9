"""Outputs of commands on many ranks: lines that are equal once, and the parts that differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from pgdb.frontend.analysis.prominence import most_prominent_first
from pgdb.frontend.analysis.text_parts import ANY_HISTORY, Merged, Said, merge_texts
from pgdb.frontend.analysis.text_sections import merge_sections
from pgdb.frontend.analysis.values import Leaf
from pgdb.frontend.show.text.display_table import display_table
from pgdb.frontend.show.text.layout import HANDFUL, Layout
from pgdb.frontend.show.text.mapping_table import mapping_table
from pgdb.frontend.show.text.thread_table import thread_switch, thread_table
from pgdb.frontend.show.text.value_text import choice_rows, place_rows, rate_place
from pgdb.merge.classes import EquivalenceClass
from pgdb.merge.normalize import DIFFERENT
from pgdb.patterns import pattern
from pgdb.printed_parts import is_cut
from pgdb.ranks import RankSet
from pgdb.records import Event, Output, Record, Text


class TextBlock(msgspec.Struct, frozen=True):
    """The merged outputs of several classes."""

    ranks: RankSet
    members: tuple[int, ...]
    """Indices of the classes."""
    lines: tuple[str, ...]


_INDENT = "    "
_LIST_OF_THREADS = " Target Id "
_MEMORY_MAP = "Start Addr "
_BEGIN = 80
_TOO_LARGE = "max-value-size>"
_DISPLAY = pattern(r"[0-9]+: (?:/\w+ )?(?P<name>\S.*?) = (?P<value>.*)")


def text_blocks(
    classes: Sequence[EquivalenceClass[Record] | EquivalenceClass[Event]],
    layout: Layout,
) -> list[TextBlock]:
    """Return the outputs that can be merged by their parts.

    A few outputs of one line each stay apart, unless they are structures: a line for each is
    short.
    """
    numbers = [
        number for number, each in enumerate(classes) if isinstance(each.record, Text | Output)
    ]
    if not numbers:
        return []
    said = []
    for number in numbers:
        each = classes[number]
        assert isinstance(each.record, Text | Output)
        filled = each.filled
        if layout.whole and isinstance(filled, Text | Output):
            said.append(Said(each.ranks, filled.text))  # addresses are places, too
        else:
            said.append(Said(each.ranks, each.record.text, each.slots))
    if not layout.whole and (lines := _structured(said, layout)) is not None:
        ranks = RankSet.union(each.ranks for each in said)
        return [TextBlock(ranks, tuple(numbers), tuple(lines))]
    if len(numbers) < 2:
        return []
    blocks = []
    for merged in merge_texts(said):
        if len(merged.members) > 1 and _is_worth(merged):
            members = tuple(numbers[member] for member in merged.members)
            ranks = RankSet.union(classes[number].ranks for number in members)
            blocks.append(TextBlock(ranks, members, tuple(_lines(merged, ranks, layout))))
    return blocks


def notes_on_displays(
    classes: Sequence[EquivalenceClass[Record] | EquivalenceClass[Event]],
) -> list[str]:
    """Return a note if several ranks show a display of which GDB prints a part.

    GDB itself writes displays, so that nothing looks at the rest of these values.
    """
    said = [each for each in classes if isinstance(each.record, Text | Output)]
    if len(RankSet.union(each.ranks for each in said)) < 2:
        return []
    names: dict[str, None] = {}
    for each in said:
        assert isinstance(each.record, Text | Output)
        if "..." in each.record.text or _TOO_LARGE in each.record.text:
            for line in each.record.text.split("\n"):
                found = _DISPLAY.match(line)
                if found is not None and (is_cut(found["value"]) or _TOO_LARGE in line):
                    names[found["name"]] = None
    if not names:
        return []
    first = next(iter(names))
    return [
        f"{_INDENT}(compared as far as they are shown: {', '.join(names)};",
        f"{_INDENT} 'print {first}' looks at all of it)",
    ]


def _structured(said: Sequence[Said], layout: Layout) -> list[str] | None:
    """Return the lines of outputs with a structure of their own; None for all others."""
    if all(_LIST_OF_THREADS in each.text[:_BEGIN] for each in said):
        return thread_table(said, layout)
    if all(_MEMORY_MAP in each.text for each in said):
        return mapping_table(said, layout, lambda parts: _whole_or_merged(parts, layout))
    found = display_table(said, layout) or thread_switch(said, layout)
    return found or section_lines(said, layout)


def _whole_or_merged(said: Sequence[Said], layout: Layout) -> list[str]:
    """Return the lines of texts, with those together that can be merged."""
    lines: list[str] = []
    for merged in merge_texts(said):
        ranks = RankSet.union(said[number].ranks for number in merged.members)
        if len(merged.members) > 1:
            lines += _lines(merged, ranks, layout)
            continue
        only = said[merged.members[0]]
        text = Leaf(only.text, only.slots).filled
        lines += [layout.brackets(ranks), *(layout.fit(line) for line in text.split("\n"))]
    return lines


def section_lines(said: Sequence[Said], layout: Layout) -> list[str] | None:
    """Return the lines of outputs for several threads or frames; None for all others."""
    sections = merge_sections(said)
    if sections is None:
        return None
    lines: list[str] = []
    for each in sections:
        heading = _threads_text(each.threads, layout) or layout.brackets(each.ranks)
        places = most_prominent_first(each.places, rate_place)
        if "\n" in each.common:
            lines += (heading, *(layout.fit(line) for line in each.common.split("\n")))
        else:
            colon = ":" if each.threads else ""
            lines.append(layout.fit(f"{heading}{colon} {each.common}"))
        lines += layout.lines(place_rows(each.ranks, places, layout))
    return lines


def _threads_text(threads: Mapping[str, RankSet], layout: Layout) -> str:
    """Return the ranks with the numbers of their threads: ``[0,3] thread 4, [2] thread 5``."""
    numbers: dict[RankSet, list[str]] = {}
    for number, ranks in threads.items():
        numbers.setdefault(ranks, []).append(number)
    return ", ".join(
        f"{layout.brackets(ranks)} thread{'s' if len(found) > 1 else ''} {' '.join(found)}"
        for ranks, found in numbers.items()
    )


def _is_worth(merged: Merged) -> bool:
    if ANY_HISTORY in merged.common:
        return True
    if not merged.places:
        return False
    return "\n" in merged.common or len(merged.members) > HANDFUL or merged.has_fields


def _lines(merged: Merged, ranks: RankSet, layout: Layout) -> list[str]:
    places = most_prominent_first(merged.places, rate_place)
    if merged.common == DIFFERENT and len(places) == 1:
        return layout.lines(choice_rows("", places[0].texts, layout))
    if merged.common == f"{ANY_HISTORY} = {DIFFERENT}" and len(places) == 1:
        return layout.lines(choice_rows(f"{ANY_HISTORY} = ", places[0].texts, layout))
    rows = place_rows(ranks, places, layout)
    if "\n" in merged.common:
        # The lines keep their columns, as GDB has aligned them.
        heading = layout.brackets(ranks)
        common = [layout.fit(line) for line in merged.common.split("\n")]
        return [heading, *common, *layout.lines(rows)]
    return layout.lines([(ranks, merged.common), *rows])
