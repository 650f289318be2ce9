"""Texts as ranks say them."""

from __future__ import annotations

from pgdb.frontend.analysis.text_parts import Said
from pgdb.merge.normalize import normalize_record
from pgdb.ranks import RankSet
from pgdb.records import Text


def said(*texts: str) -> list[Said]:
    found = []
    for rank, text in enumerate(texts):
        normalized = normalize_record(Text(text=text))
        assert isinstance(normalized.record, Text)
        found.append(Said(RankSet([rank]), normalized.record.text, normalized.slots))
    return found
