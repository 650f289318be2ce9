"""Sizes as they are shown and typed."""

from __future__ import annotations

import pytest

from pgdb.errors import UsageError
from pgdb.sizes import read_mebibytes, read_size, size_text, whole_size


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [(0, "0 bytes"), (1023, "1023 bytes"), (1536, "1.5 KiB"), (3 << 40, "3.0 TiB")],
)
def test_sizes_in_words(size_bytes: int, text: str) -> None:
    assert size_text(size_bytes) == text


def test_limits_have_no_decimals() -> None:
    assert [whole_size(each) for each in (8 << 20, (1 << 20) - 1)] == ["8 MiB", "1023 KiB"]
    assert [whole_size(each) for each in ((64 << 20) + 5, 2 << 40)] == ["64 MiB", "2097152 MiB"]
    assert [whole_size(each) for each in (0, 1023, 2047)] == ["0 bytes", "1023 bytes", "1 KiB"]


@pytest.mark.parametrize(
    ("text", "size_bytes"), [("500000", 500_000), ("4G", 4 << 30), ("1k", 1024), ("2T", 2 << 40)]
)
def test_sizes_are_read(text: str, size_bytes: int) -> None:
    assert read_size("limit", text) == size_bytes


@pytest.mark.parametrize("text", ["0", "-1", "4GB", "1.5G", "\u00b2", "1" * 5000, ""])
def test_other_texts_are_no_sizes(text: str) -> None:
    with pytest.raises(
        UsageError, match=r"^limit: .* is no number of bytes, such as 500000 or 4G$"
    ):
        read_size("limit", text)
    with pytest.raises(UsageError, match=r"^limit: .* is no whole number of MiB above 0$"):
        read_mebibytes("limit", text)


def test_numbers_of_mebibytes_are_read() -> None:
    assert read_mebibytes("limit", "4096") == 4 << 30
