"""Raw addresses, which comparisons leave out: whether a verdict has left out some that differ."""

from __future__ import annotations

from collections.abc import Iterable

from pgdb.frontend.analysis.answers import Answer
from pgdb.merge.normalize import DIFFERENT_SLOT
from pgdb.patterns import pattern
from pgdb.records import SLOT, Value

# A name behind an address (<main+4>) is compared. An address behind an @ is that of a reference,
# whose value follows, and a string behind an address is compared; the bits of a NaN are no address.
_RAW = pattern(rf"(?P<nan>nan\()?(?P<reference>@)?{SLOT}(?P<name> [<\"'])?")


def leaves_out_addresses(answers: Iterable[Answer]) -> bool:
    """Return whether equal values have raw addresses that differ between ranks or answers."""
    known: dict[str, tuple[str, ...]] = {}
    for answer in answers:
        for each in answer.classes:
            if not isinstance(each.record, Value) or SLOT not in each.record.text:
                continue
            text = each.record.text
            raw = [not any(match.groups()) for match in _RAW.finditer(text)]
            slots = tuple(slot for slot, is_raw in zip(each.slots, raw, strict=False) if is_raw)
            if DIFFERENT_SLOT in slots or known.setdefault(text, slots) != slots:
                return True
    return False
