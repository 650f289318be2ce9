"""GDB's words are resolved as the GDB of this machine resolves them."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from pgdb.frontend.api.gdb_words import ALIASES, KINDS, NEWER, candidates

# An alias is made for each beginning of each word, and GDB resolves the beginning as it resolves
# typed ones. The first line of the alias's help has the command's name, then all aliases.
# 'help' itself would not do: it also knows the topics, such as "running".
_ASK = """
import gdb, json
words = set()
for letter in "abcdefghijklmnopqrstuvwxyz":
    words |= set(gdb.execute("complete " + letter, to_string=True).split())
words |= set(gdb.execute("complete ", to_string=True).split())
words |= set({words!r})
found, names = {{}}, {{}}
for word in sorted({{word[:n] for word in words for n in range(1, len(word) + 1)}}):
    alias = "zz%dzz" % len(found)
    try:
        gdb.execute("alias %s = %s" % (alias, word), to_string=True)
    except gdb.error as error:
        found[word] = "Ambiguous" if "mbiguous" in str(error) else "Undefined"
        continue
    first = gdb.execute("help " + alias, to_string=True).split("\\n")[0]
    names[word] = [name.strip() for name in first.split(",")]
    names[word] = [name for name in names[word] if not name.startswith("zz")]
    found[word] = names[word][0]
with open({answer!r}, "w") as file:
    json.dump([sorted(words), found, names], file)
"""
# GDB prints these commands under a name of two words; the table has the word that is typed.
_TWO_WORDS = {
    "tui focus": {"focus", "fs"},
    "tui layout": {"layout"},
    "tui refresh": {"refresh"},
    "tui window height": {"winheight", "wh"},
    "tui window width": {"winwidth"},
    "set inferior-tty": {"tty"},
    "compile code": {"expression"},
    "save tracepoints": {"save-tracepoints"},
    "maintenance flush register-cache": {"flushregs"},
}


class RealGdb:
    """The words of this machine's GDB, and the command that it takes each beginning for."""

    words: list[str]
    found: dict[str, str]
    names: dict[str, list[str]]

    def __init__(self, directory: Path) -> None:
        answer, script = directory / "answer", directory / "ask.py"
        script.write_text(_ASK.format(words=sorted({*KINDS, *ALIASES} - {"|"}), answer=str(answer)))
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
        self.words, self.found, self.names = json.loads(answer.read_text())


@pytest.fixture(scope="module")
def gdb(tmp_path_factory: pytest.TempPathFactory) -> RealGdb:
    return RealGdb(tmp_path_factory.mktemp("gdbwords"))


def _is_same(name: str, typed: str, gdb: RealGdb) -> bool:
    if name in _TWO_WORDS:
        return any(each.startswith(typed) for each in _TWO_WORDS[name])
    # GDB's help of "expression" names "compile" first.
    own = candidates(typed)
    return own == {name} or (own == {"expression"} and "expression" in gdb.names[typed])


@pytest.mark.gdb
def test_every_beginning_of_every_word_is_what_gdb_takes_it_for(gdb: RealGdb) -> None:
    wrong = {}
    assert len(gdb.found) > 900
    for typed, name in gdb.found.items():
        if name in NEWER:
            continue
        if name in ("Ambiguous", "Undefined"):
            ours = candidates(typed)
            # GDB refuses an alias for the command "tui" that its prompt takes.
            if (len(ours) < 2 if name == "Ambiguous" else ours) and typed != "tu":
                wrong[typed] = (name, ours)
        elif not _is_same(name, typed, gdb):
            wrong[typed] = (name, candidates(typed))
    assert wrong == {}


@pytest.mark.gdb
def test_the_table_has_all_commands_and_aliases_of_gdb(gdb: RealGdb) -> None:
    known = {*KINDS, *ALIASES, *NEWER}
    listed = {word for word in gdb.words if word in gdb.found}
    assert listed - known == set()
    declared = {name for names in gdb.names.values() for name in names}
    assert declared - known - {"info set", *_TWO_WORDS} == set()


@pytest.mark.gdb
def test_no_word_of_the_table_is_made_up(gdb: RealGdb) -> None:
    assert {word for word in {*KINDS, *ALIASES} - {"|"} if gdb.found[word] == "Undefined"} == set()


def test_aliases_stand_for_words_of_the_table() -> None:
    assert set(ALIASES.values()) <= set(KINDS)
    assert not set(ALIASES) & set(KINDS)


def test_user_defined_names_take_part_as_they_do_in_gdb() -> None:
    assert candidates("go", ["go"]) == {"go"}  # not goto-bookmark
    assert candidates("nexu", ["nexus"]) == {"nexus"}
    assert candidates("mo", ["more"]) == {"monitor", "more"}
    assert candidates("print", ["printer"]) == {"print"}
