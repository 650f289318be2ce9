"""GDB's words are resolved as GDB resolves them, and classed by what they do."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from pgdb.frontend.api.gdb_commands import (
    ALIASES,
    KINDS,
    Kind,
    first_word,
    kind_of,
    resolve,
    why_refused,
)

# Asks a GDB for its commands and for what each beginning of a word stands for. Aliases stand in
# the first line of a help text behind the name; where there is none, the text itself shows
# whether two words are the same command.
_ASK = """
import gdb, json
def help_of(word):
    try:
        return gdb.execute("help " + word, to_string=True).split("\\n")[0]
    except gdb.error as error:
        return "ERROR " + str(error)
with open({words!r}) as file:
    words = json.load(file)
own = [line.strip() for line in gdb.execute("complete ", to_string=True).split("\\n")]
words += [word for word in own if word]
prefixes = {{word[:n]: "" for word in words for n in range(1, len(word) + 1)}}
with open({answer!r}, "w") as file:
    json.dump([own, {{word: help_of(word) for word in prefixes}}], file)
"""


class RealGdb:
    """The help of this machine's GDB for each word."""

    commands: list[str]
    help: dict[str, str]

    def __init__(self, directory: Path) -> None:
        words, answer, script = (directory / name for name in ("words", "answer", "ask.py"))
        words.write_text(json.dumps(sorted({*KINDS, *ALIASES})))
        script.write_text(_ASK.format(words=str(words), answer=str(answer)))
        gdb = shutil.which("gdb")
        assert gdb is not None
        subprocess.run(
            [gdb, "-nx", "-q", "-batch", "-x", str(script)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=True,
            timeout=60,
        )
        commands, self.help = json.loads(answer.read_text())
        self.commands = [word for word in commands if word]

    def name_of(self, word: str) -> str | None:
        """Return the command that GDB takes *word* for, None if it refuses it."""
        text: str = self.help[word]
        if text.startswith("ERROR"):
            return None
        if word in KINDS:
            return word
        names = [name.strip() for name in text.split(",")]
        if names[0] in KINDS and self.help.get(names[0]) == text:
            return names[0]
        return next((name for name in KINDS if self.help.get(name) == text), word)


@pytest.fixture(scope="module")
def gdb(tmp_path_factory: pytest.TempPathFactory) -> RealGdb:
    return RealGdb(tmp_path_factory.mktemp("gdbwords"))


@pytest.mark.gdb
def test_every_beginning_of_every_word_is_classed_as_what_gdb_takes_it_for(gdb: RealGdb) -> None:
    wrong = []
    for word in gdb.help:
        name = gdb.name_of(word)
        if name is None:
            continue
        expected, found = KINDS.get(name, Kind.FREE), kind_of(resolve(word), f"{word} 1")
        if found is not expected:
            wrong.append(f"{word} is GDB's {name} ({expected.value}), here {found.value}")
    assert wrong == []


@pytest.mark.gdb
def test_the_table_has_gdbs_commands_and_no_others(gdb: RealGdb) -> None:
    assert sorted(word for word in gdb.commands if word not in KINDS and word not in ALIASES) == []
    assert sorted(word for word in KINDS if gdb.help[word].startswith("ERROR Undefined")) == []


@pytest.mark.gdb
def test_no_alias_is_made_up(gdb: RealGdb) -> None:
    for alias, name in ALIASES.items():
        text = gdb.help[alias]
        # The prompt accepts some words that help calls ambiguous.
        assert "Undefined" not in text, alias
        if not text.startswith("ERROR"):
            assert gdb.name_of(alias) == name, alias


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
        ("12", ""),
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
        ("pi", "pi"),
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


def test_every_refusal_says_why() -> None:
    for word, found in KINDS.items():
        if found is Kind.REFUSED:
            why = why_refused(word)
            assert why.startswith(f"'{word}' is refused: ") and len(why) > len(word) + 20
    assert why_refused("set") == "'set' with this setting is refused: PGDB needs it as it is"


def test_aliases_stand_for_words_of_the_table() -> None:
    assert set(ALIASES.values()) <= set(KINDS)
    assert not set(ALIASES) & set(KINDS)


def test_commands_in_commands_may_be_as_deep_as_a_line_is_long() -> None:
    deep = "with print pretty on -- " * 2000
    for inner, kind in (("continue", Kind.RUN), ("shell ls", Kind.REFUSED), ("x", Kind.FREE)):
        assert kind_of("with", deep + inner) is kind
