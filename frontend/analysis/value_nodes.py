"""The trees and texts of values in full, where GDB prints only a part."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from pgdb.frontend.analysis import block_values
from pgdb.frontend.analysis.values import Node, parse
from pgdb.merge.classes import EquivalenceClass
from pgdb.merge.normalize import normalize_values
from pgdb.patterns import pattern
from pgdb.records import SLOT, Block, Record, Value

_ADDRESS = pattern(r'(?:\([^()"]*\) )?0x[0-9a-f]+ (?:<[^<>"]*> )?')


class MarkedText(str):
    """The whole of a value that was looked at part by part.

    Elements beyond GDB's text that are equal on all ranks are a mark in it.
    """

    before: Value
    """The value as it was before its parts were looked at."""
    parts: str
    """Hash of the parts."""
    cut: tuple[str, ...]
    """Paths to the parts of which more elements differ than the text has."""
    bounds: dict[str, tuple[int, ...]]
    """Lower bounds of the arrays of Fortran among the parts, by path."""

    @classmethod
    def of(
        cls,
        text: str,
        before: Value,
        parts: str,
        cut: Iterable[str],
        bounds: dict[str, tuple[int, ...]],
    ) -> MarkedText:
        """Return a text with what is known of it."""
        made = cls(text)
        made.before, made.parts, made.cut, made.bounds = before, parts, tuple(cut), bounds
        return made


def node_of(each: EquivalenceClass[Record]) -> Node:
    """Return the tree of a value, in full if that is at hand."""
    record = cast(Value, each.record)
    bounds = record.bounds
    if bounds == SLOT:
        bounds = each.slots[-1] if each.slots else ""
    if record.whole is None:
        slots = [*each.slots] if record.bounds in ("", SLOT) else [*each.slots, bounds]
        return parse(record.text, slots)
    slots = []
    if isinstance(record.whole, Block):
        text, bounds = (
            normalize_values(full_text(record), slots),
            block_values.bounds_text(record.whole),
        )
    elif "0x" in record.text and SLOT not in record.text:
        # Printed with a format: the numbers are data. A null pointer beside addresses is none.
        text = record.whole
    else:
        text = normalize_values(record.whole, slots)
    return parse(text, [*slots, bounds] if bounds else slots)


def whole_string(text: str, record: Value | None) -> str:
    """Return a string up to its end if that is at hand.

    *text* is the part that GDB has printed, with the address on its rank. The whole string comes
    from one of the ranks with the value.
    """
    whole = record.whole if record is not None else None
    if not isinstance(whole, str):
        return text
    mine, other = _ADDRESS.match(text), _ADDRESS.match(whole)
    return f"{mine[0]}{whole[other.end() :]}" if mine and other else whole


def full_text(record: Value) -> str:
    """Return the text of a value, in full if that is at hand."""
    if isinstance(record.whole, Block):
        return block_values.text_of(record.whole, most=0)
    return record.text if record.whole is None else record.whole
