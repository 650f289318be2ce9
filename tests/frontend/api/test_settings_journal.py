"""The journal of GDB settings, and the form of frames that follows from it."""

from __future__ import annotations

import pytest

from pgdb.frontend.api.settings_journal import KeptCommand, SettingsJournal
from pgdb.merge.classes import EquivalenceClass
from pgdb.overlay.messages import Console
from pgdb.ranks import RankSet
from pgdb.records import Failure, Record, Text, Value

RANKS = RankSet(range(4))


def given(*lines: tuple[str, RankSet]) -> SettingsJournal:
    """Return a journal of lines that ranks have carried out."""
    journal = SettingsJournal()
    for line, ranks in lines:
        record: Record = Value(text="")
        journal.take(line, Console(command=line), [EquivalenceClass(ranks=ranks, record=record)])
    return journal


@pytest.mark.parametrize("word", ["print", "pr", "p", "prin"])
def test_another_form_of_frames_holds_until_it_is_auto_again(word: str) -> None:
    lines = [(f"set {word} frame-info short-location", RANKS)]
    assert given(*lines).shows_frames_otherwise(RANKS)
    lines.append((f"set {word} frame-info auto", RANKS))
    assert not given(*lines).shows_frames_otherwise(RANKS)
    lines.append(("set print frame-i source-line", RANKS))
    assert given(*lines).shows_frames_otherwise(RANKS)


def test_python_code_that_only_defines_is_kept() -> None:
    lines = ("python def f(): return 1", "python print(f())", "py f()", "python x = 1")
    journal = given(*((line, RANKS) for line in lines))
    assert [each.line for each in journal.kept] == ["python def f(): return 1", "py f()"]
    assert not journal.has_lost_python
    journal.note_file("source /a.py", "class A: pass")
    journal.note_file("source /b.py", "class B: pass\nprint(B)")
    for line in ("source /a.py", "source /b.py", "source /c.py"):
        classes = [EquivalenceClass(ranks=RANKS, record=Value(text=""))]
        journal.take(line, Console(command=line), classes)
    assert [each.line for each in journal.kept][2:] == ["source /a.py"]
    assert journal.has_lost_python


def test_variables_of_traces_and_lists_of_printers_are_kept() -> None:
    kept = (
        *("tvariable $tv = 7", "delete tvariable $tv", "tvariable $other = 1"),
        *("disable pretty-printer global", "disable frame-filter all", "mem 0 16 ro"),
    )
    lines = (*kept, "disable 1", "delete 2", "enable once 3", "disable display 1")
    journal = given(*((line, RANKS) for line in lines))
    assert [each.line for each in journal.kept] == [*kept]


def test_the_form_of_frames_is_that_of_the_ranks_asked() -> None:
    journal = given(
        ("set print frame-info location", RankSet([1, 2])),
        ("set print frame-info a", RankSet([2])),
        ("set print frame-arguments all", RANKS),
    )
    shown = [journal.shows_frames_otherwise(RankSet([rank])) for rank in RANKS]
    assert shown == [False, True, False, False]


def test_a_form_that_gdb_has_refused_changes_nothing() -> None:
    journal = SettingsJournal()
    line = "set print frame-info nosuch"
    refused = EquivalenceClass[Record](ranks=RANKS, record=Failure(message="Undefined item"))
    journal.take(line, Console(command=line), [refused])
    assert not journal.shows_frames_otherwise(RANKS)


def displayed(journal: SettingsJournal, line: str, ranks: RankSet, record: Record) -> int:
    """Let ranks carry out a ``display``; return the number that it is to have."""
    operation = Console(command=line, display=journal.display_number(line))
    journal.take(line, operation, [EquivalenceClass(ranks=ranks, record=record)])
    return operation.display


def test_a_display_that_a_rank_has_made_takes_its_number_from_all() -> None:
    journal = SettingsJournal()
    failed, one, three = Failure(message="no i"), RankSet([1]), RankSet([0, 1, 3])
    assert displayed(journal, "display j", RANKS, failed) == 1
    assert displayed(journal, "disp i", one, Text(text="1: i = 3")) == 1
    # Bodies of the user's have made 2 to 4.
    assert displayed(journal, "display/x j", three, Text(text="5: /x j = 0x3")) == 2
    assert displayed(journal, "display k", RANKS, Text(text="6: k = 1")) == 6
    assert journal.display_number("display") == 0
    assert journal.display_number("info display") == 0
    assert journal.ranks_with_displays("undisplay 1") == one
    assert journal.ranks_with_displays("delete display 1 6") == RANKS
    assert not journal.ranks_with_displays("undisplay 7")
    assert not journal.ranks_with_displays("undisplay")


def test_displays_wait_for_their_variables() -> None:
    journal = SettingsJournal()
    kept = [
        KeptCommand(f"display {name}", Console(command=f"display {name}", display=number), RANKS)
        for number, name in enumerate("ij", 1)
    ]
    for each in kept:
        journal.put_display_off(each, RankSet([0, 1]))
    first, second = journal.put_off
    journal.display_came(first, RankSet([1]))
    journal.display_came(second, RankSet())
    assert [(each.line, each.ranks) for each in journal.put_off] == [
        ("display i", RankSet([0])),
        ("display j", RankSet([0, 1])),
    ]
    journal.display_came(second, RankSet([1]))
    assert journal.put_off[1].ranks == RankSet([0])
    gone = EquivalenceClass[Record](ranks=RANKS, record=Failure(message="No display number 1."))
    assert journal.put_off_in("undisplay 1-9") == {1: RankSet([0]), 2: RankSet([0])}
    journal.take("disable display 2", Console(command="disable display 2"), [gone])
    assert [each.is_disabled for each in journal.put_off] == [False, True]
    journal.take("enable display", Console(command="enable display"), [gone])
    assert [each.is_disabled for each in journal.put_off] == [False, False]
    journal.take("undisplay 1", Console(command="undisplay 1"), [gone])
    assert [each.line for each in journal.put_off] == ["display j"]
    journal.take("undisplay", Console(command="undisplay"), [gone])
    assert not journal.put_off


def test_a_display_that_is_disabled_stays_so_and_a_deleted_one_is_forgotten() -> None:
    journal, some = SettingsJournal(), RankSet([0, 1])
    for name in "abc":
        displayed(journal, f"display {name}", RANKS, Text(text=f"{ord(name) - 96}: {name} = 1"))
    done = EquivalenceClass[Record](ranks=some, record=Text(text=""))
    for line in ("disable display 1-2", "enable display 2", "undisplay 3"):
        journal.take(line, Console(command=line), [done])
    others = RANKS - some
    assert [(each.line, each.ranks, each.is_disabled) for each in journal.kept] == [
        ("display a", others, False),
        ("display a", some, True),
        ("display b", others, False),
        ("display b", some, False),
        ("display c", others, False),
    ]
    whole = EquivalenceClass[Record](ranks=RANKS, record=Text(text=""))
    journal.take("disable display", Console(command="disable display"), [whole])
    assert all(each.is_disabled for each in journal.kept)
    journal.take("delete display", Console(command="delete display"), [whole])
    assert not journal.kept
