"""GDB's command lines are classed by what they do."""

from __future__ import annotations

import pytest

from pgdb.errors import UsageError
from pgdb.frontend.api.gdb_commands import (
    ALIASES,
    KINDS,
    Kind,
    changes_nothing,
    check_script,
    ends_body,
    first_word,
    kind_of,
    resolve,
    why_not_at_start,
    why_refused,
)


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("break main", "break"),
        ("  p/x y", "p"),
        ("!ls", "!"),
        ("| p x | cat", "|"),
        ("x/4i $pc", "x"),
        ("tbreak*0x400", "tbreak"),
        ("add-symbol-file a", "add-symbol-file"),
        ("", ""),
        ("   ", ""),
        ("12", "12"),
        ("-1", "-1"),
        ("$x", "$x"),
        ("+3", "+3"),
        ("p+1", "p+1"),
        ("|cat", "|"),
        ("@3", "@"),
        ("p/d-1", "p"),
        ("p/x$sp", "p"),
        ("x/2i$pc", "x"),
        ("p&main", "p"),
        ("p::x", "p"),
        # GDB takes these for one word, and refuses them.
        ("bt-1", "bt-1"),
        ("p$_", "p$_"),
        ("p.x", "p.x"),
        ("p_x", "p_x"),
        ("bt3", "bt3"),
    ],
)
def test_first_word(line: str, word: str) -> None:
    assert first_word(line) == word


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("b main", "break"),
        ("conti", "continue"),
        ("c 3", "continue"),
        ("s", "step"),
        ("si", "stepi"),
        ("n", "next"),
        ("fini", "finish"),
        ("bt full", "backtrace"),
        ("i b", "info"),
        ("d 1", "delete"),
        ("dis 1", "disable"),
        ("disas", "disassemble"),
        ("she ls", "shell"),
        ("starti", "starti"),
        ("tar remote :1", "target"),
        ("py print(1)", "python"),
        ("pi", "python-interactive"),
        ("rev", "reverse-search"),
        ("do", "down"),
        ("w print pretty -- p x", "with"),
        ("tr f", "trace"),
        ("fo x", "forward-search"),
        ("th", "th"),
        ("re", "re"),  # ambiguous: GDB's to say so
        ("zzz", "zzz"),
    ],
)
def test_resolve(line: str, name: str) -> None:
    assert resolve(line) == name


@pytest.mark.parametrize(
    ("line", "kind"),
    [("fin", Kind.RUN), ("bre main", Kind.BREAKPOINT), ("cl", Kind.OURS), ("whe", Kind.OURS)],
)
def test_aliases_that_are_beginnings_of_several_words(line: str, kind: Kind) -> None:
    assert kind_of(resolve(line), line) is kind


def kind(line: str) -> Kind:
    return kind_of(resolve(line), line)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("print x", Kind.OURS),
        ("ptype x", Kind.FREE),
        ("finish", Kind.RUN),
        ("signal 0", Kind.RUN),
        ("u 12", Kind.RUN),
        ("watch x", Kind.BREAKPOINT),
        ("commands 1", Kind.MULTI_LINE),
        ("if x > 1", Kind.MULTI_LINE),
        ("python", Kind.MULTI_LINE),
        ("py", Kind.MULTI_LINE),
        ("python print(1)", Kind.FREE),
        ("compile", Kind.MULTI_LINE),
        ("set var x = 1", Kind.FREE),
        ("set  confirm on", Kind.REFUSED),
        ("set pagination on", Kind.REFUSED),
        ("set non-stop on", Kind.REFUSED),
        ("set confirmation = 1", Kind.FREE),
        ("r", Kind.REFUSED),
        ("record full restore f", Kind.REFUSED),
        ("rec full r f", Kind.REFUSED),
        ("record restore f", Kind.REFUSED),
        ("thread apply 1 record restore f", Kind.REFUSED),
        ("record full", Kind.FREE),
        ("record save f", Kind.FREE),
        ("!ls", Kind.REFUSED),
        ("| p 1 | cat", Kind.REFUSED),
        ("att 1", Kind.REFUSED),
        ("zzz", Kind.FREE),
        ("", Kind.FREE),
    ],
)
def test_kinds(line: str, expected: Kind) -> None:
    assert kind(line) is expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("python\tprint(1)", Kind.FREE),
        ("set con off", Kind.REFUSED),  # GDB takes a setting's beginning too
        ("set hei 10", Kind.REFUSED),
        ("actions 1", Kind.MULTI_LINE),
        ("expression", Kind.MULTI_LINE),
        ("compile code", Kind.MULTI_LINE),
        ("expr 1", Kind.FREE),
        ("set p elements 4", Kind.FREE),
        ("thread apply all continue", Kind.RUN),
        ("t a a c", Kind.RUN),
        ("thread apply 1 2 continue", Kind.RUN),
        ("thread apply 1 - 3 -q kill", Kind.REFUSED),
        ("thread apply 1.* $mine kill", Kind.REFUSED),
        ("frame apply level 1 2-3 kill", Kind.REFUSED),
        ("frame apply all -past-main on kill", Kind.REFUSED),
        ("frame apply $count c", Kind.RUN),
        ("f ap a c", Kind.RUN),
        ("maint with worker-threads 0 -- kill", Kind.REFUSED),
        ("with language c -- run", Kind.REFUSED),
    ],
)
def test_kinds_that_are_missed(line: str, expected: Kind) -> None:
    assert kind(line) is expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("compile print", Kind.MULTI_LINE),
        ("expr", Kind.MULTI_LINE),
        ("set he 10", Kind.REFUSED),  # two letters are enough for GDB
        ("set mi 0", Kind.REFUSED),
    ],
)
def test_kinds_that_are_still_missed(line: str, expected: Kind) -> None:
    assert kind(line) is expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("set follow-fork-mode child", Kind.REFUSED),
        ("set follow-f  child", Kind.REFUSED),
        ("set detach-on-fork off", Kind.REFUSED),
        ("set det off", Kind.REFUSED),
        ("set schedule-multiple on", Kind.REFUSED),
        ("set follow-exec-mode new", Kind.REFUSED),
        ("with follow-fork-mode child -- next", Kind.REFUSED),
        ("set follow-fork-mode parent", Kind.FREE),
        ("set detach-on-fork on", Kind.FREE),
        ("set det = 1", Kind.FREE),  # a variable of the program
        ("set scheduler-locking on", Kind.FREE),
    ],
)
def test_a_rank_is_one_process(line: str, expected: Kind) -> None:
    assert kind(line) is expected
    if expected is Kind.REFUSED:
        why = why_refused(resolve(line), line)
        assert "a rank is one process" in why and "--pids" in why


@pytest.mark.parametrize(
    ("argument", "expected"),
    [
        ("non-stop off", True),
        ("mi-async  on", True),
        ("annotate 0", True),
        ("non-stop on", False),
        ("non-stop", False),
        ("listsize 3", False),
        ("confirm off", False),
    ],
)
def test_a_setting_may_get_the_value_that_pgdb_needs(argument: str, expected: bool) -> None:
    assert changes_nothing(argument) is expected


def test_a_rank_stays_one_process_from_the_start() -> None:
    assert "a rank is one process" in why_not_at_start("set det off")
    assert not why_not_at_start("set detach-on-fork on")
    assert not why_not_at_start("set confirm off")
    assert kind("inferior") is kind("inferior 1") is Kind.FREE
    assert kind("inferior 2") is Kind.REFUSED


def test_every_refusal_says_why() -> None:
    for word, found in KINDS.items():
        if found is Kind.REFUSED:
            why = why_refused(word)
            assert why.startswith(f"'{word}' is refused: ") and len(why) > len(word) + 20
    assert why_refused("set") == "'set' is refused: PGDB needs that setting as it is"


def test_aliases_stand_for_words_of_the_table() -> None:
    assert set(ALIASES.values()) <= set(KINDS)
    assert not set(ALIASES) & set(KINDS)


def test_commands_in_commands_may_be_as_deep_as_a_line_is_long() -> None:
    deep = "with print pretty on -- " * 2000
    for inner, kind in (("continue", Kind.RUN), ("shell ls", Kind.REFUSED), ("x", Kind.FREE)):
        assert kind_of("with", deep + inner) is kind


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (["define foo", "if 1", "attach 3", "end", "end"], "line 3, 'attach 3': 'attach' is ref"),
        (["print 1", "commands", "kill", "end"], "line 3, 'kill': 'kill' is a call of its own"),
        (["detach"], "line 1, 'detach'"),
        (["while 1", 'eval "quit"', "end"], "line 2, 'eval \"quit\"': 'quit' is a call"),
        (["define foo", "print 1"], "'define' is not finished"),
    ],
)
def test_scripts_are_checked(lines: list[str], says: str) -> None:
    with pytest.raises(UsageError) as caught:
        check_script(lines)
    assert says in str(caught.value)


def test_scripts_may_have_all_else() -> None:
    check_script(["define foo", "python", "kill", "end", "continue", "end"])
    check_script(["document foo", "kill", "if you must", "end"])
    check_script(["define foo", "print 1", "end", "python", "kill = 1", "end", "break main"])


def test_a_topic_for_which_gdb_lets_the_rank_run_is_refused() -> None:
    for line in ("info static-tracepoint-markers", "info stat", "i static"):
        assert kind_of("info", line) is Kind.REFUSED, line
        assert "let the rank run" in why_refused("info", line)
    for line in ("info sta", "info stack", "info status", "info", "info s"):
        assert kind_of("info", line) is not Kind.REFUSED, line


@pytest.mark.parametrize(
    ("line", "message", "ends"),
    [
        ("tbreak f", 'Function "f" not defined.', False),
        ("break f.c:3", "No source file named f.c.", False),
        ("break 99", "No line 99 in the current file.", False),
        ("break *f", 'No symbol "f" in current context.', True),
        ("break g if f", 'No symbol "f" in current context.', True),
        ("watch f", 'No symbol "f" in current context.', True),
        ("with print pretty on -- watch f", "Cannot watch constant value `1'.", True),
        ("delete 9", "No breakpoint number 9.", False),
        ("disable 9", "No breakpoint number 9.", False),
        ("condition 9 x", "No breakpoint number 9.", True),
        ("ignore 9 1", "No breakpoint number 9.", True),
        ("print f", 'No symbol "f" in current context.', True),
    ],
)
def test_errors_that_end_a_body_are_gdbs(line: str, message: str, ends: bool) -> None:
    assert ends_body(line, message) is ends
