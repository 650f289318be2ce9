"""Displayed expressions are shown as they were typed."""

from __future__ import annotations

from pgdb.backend.gdb.typed_displays import TypedDisplays


def test_only_displayed_expressions_are_shown_as_typed() -> None:
    displays = TypedDisplays()
    displays.take("display plain", "display plain")
    displays.take("display star%x", "display star%point%x")
    displays.take("display/x poly%width ", "display/x $_pgdb_object(poly)%width ")
    displays.take("print star%y", "print star%point%y")
    text = (
        "1: plain = 'star%point%x = 1'\n"
        "2: star%point%x = 1\n"
        "3: /x $_pgdb_object(poly)%width = 0x9\n"
        "4: star%point%x%inner = 1\n"
        "star%point%y = 4\n"
        "Num Enb Expression\n"
        "2:   y  star%point%x\n"
        "3:   n  /x $_pgdb_object(poly)%width\n"
    )
    assert displays.as_typed(text) == (
        "1: plain = 'star%point%x = 1'\n"
        "2: star%x = 1\n"
        "3: /x poly%width = 0x9\n"
        "4: star%point%x%inner = 1\n"
        "star%point%y = 4\n"
        "Num Enb Expression\n"
        "2:   y  star%x\n"
        "3:   n  /x poly%width\n"
    )
