"""Whole sessions with real GDBs of two versions, parsed by us and by pygdbmi.

tests/transcripts/record.py records them again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from pygdbmi import gdbmiparser

from pgdb.backend.gdb import decode
from pgdb.backend.gdb.mi import Line, cut
from pgdb.backend.gdb.mi_lines import Lines, cut_pieces
from pgdb.records import Exit, Frame, Stop

TRANSCRIPTS = Path(__file__).resolve().parents[2] / "transcripts"
SESSIONS = ("app", "attach", "crash", "fortran")
VERSIONS = ("13.1", "18.1")
ALL = [f"session-{name}-gdb{version}.mi" for version in VERSIONS for name in SESSIONS]


def said(name: str) -> list[str]:
    """Return GDB's output, line by line."""
    text = (TRANSCRIPTS / name).read_text("utf-8")
    return [line for line in text.split("\n") if line and not line.startswith("# ")]


def answers(name: str) -> Iterator[tuple[str, Line]]:
    """Yield commands and their results."""
    commands: dict[int, str] = {}
    for line in (TRANSCRIPTS / name).read_text("utf-8").split("\n"):
        if match := re.match(r"# (\d+)-(.*)", line):
            commands[int(match[1])] = match[2]
            continue
        part = cut(line)
        if part.kind == "^" and part.token is not None:
            yield commands[part.token], part


def results(name: str, command: str) -> list[Line]:
    return [line for sent, line in answers(name) if sent == command]


def stops(name: str) -> list[Stop | Exit]:
    found: list[Stop | Exit] = []
    for line in map(cut, said(name)):
        if line.kind == "*" and line.name == "stopped":
            end = decode.exit_of(line.payload, run=1)
            found.append(end or decode.stop(line.payload, run=1))
    return found


@pytest.mark.parametrize("name", ALL)
def test_all_of_a_session_says_what_it_says_to_pygdbmi(name: str) -> None:
    compared = 0
    for text in said(name):
        line = cut(text)
        if text.startswith("(gdb)"):
            continue
        assert line.kind, text
        if "script={" in text:
            # GDB's output here up to mi3 is no MI (sourceware bug 24285); pygdbmi loses more.
            text = text.replace('{"silent","print depth"}', '["silent","print depth"]')
        reference = gdbmiparser.parse_response(text)
        compared += 1
        if line.kind in "~&@":
            assert line.text == reference["payload"]
        else:
            assert (line.name, line.payload) == (reference["message"], reference["payload"] or {})
            assert line.token == reference["token"]
    assert compared > 20


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("size", [1, 7, 4096])
def test_a_session_in_pieces_is_the_same(name: str, size: int) -> None:
    data = (TRANSCRIPTS / name).read_bytes()
    lines = Lines()
    found = [line for at in range(0, len(data), size) for line in lines.feed(data[at : at + size])]
    assert b"".join(each + b"\n" for each in found if isinstance(each, bytes)) == data
    for each in found:
        assert isinstance(each, bytes)
        pieces = [each[at : at + size] for at in range(0, len(each), size)]
        assert cut_pieces(pieces) == cut(each)


@pytest.mark.parametrize("version", VERSIONS)
def test_stops_of_a_session(version: str) -> None:
    found = stops(f"session-app-gdb{version}.mi")
    assert [(each.reason, each.frame and each.frame.function) for each in found[:-1]] == [
        ("breakpoint-hit", "main"),
        ("end-stepping-range", "main"),
        # MI has no reason for a stop of a breakpoint with `silent` commands.
        ("other", None),
        ("function-finished", "add"),
        ("watchpoint-trigger", "main"),
    ]  # type: ignore[union-attr]
    assert found[-1] == Exit(code=42, run=1)
    finished, watched = found[3], found[4]
    assert isinstance(finished, Stop) and isinstance(watched, Stop)
    assert finished.detail == "value returned: 1"
    assert (watched.breakpoint, watched.detail) == (4, "round_number: 0 -> 4")

    crashed = stops(f"session-crash-gdb{version}.mi")
    assert isinstance(crashed[0], Stop) and crashed[0].signal == "SIGSEGV"
    assert crashed[1] == Exit(signal="SIGSEGV", run=1)


@pytest.mark.parametrize("version", VERSIONS)
def test_stacks_with_their_arguments(version: str) -> None:
    name = f"session-app-gdb{version}.mi"
    frames, addresses = decode.frames_of(results(name, "stack-list-frames")[1])
    assert [each.function for each in frames] == [*["add"] * 4, "main"]
    assert len(set(addresses)) == 3 and all(addresses)
    arguments = decode.arguments_of(results(name, "stack-list-arguments --all-values")[1])
    whole = decode.with_arguments(frames, arguments)
    assert [each.arguments[1].value for each in whole[:4]] == ["0", "1", "2", "3"]
    assert whole[0].arguments[0].value == "0x404060 <first>"
    threads = decode.threads(results(name, "thread-info")[1].payload)
    assert [each.process for each in threads] == [4711, 4712]

    inner, _ = decode.frames_of(results(f"session-fortran-gdb{version}.mi", "stack-list-frames")[0])
    assert [each.function for each in inner[:3]] == ["mesh::relax"] * 3
    assert all(each.file == "app.f90" for each in inner[:4])


@pytest.mark.parametrize("version", VERSIONS)
def test_values_and_errors(version: str) -> None:
    name = f"session-app-gdb{version}.mi"
    [table] = results(name, "break-list")
    assert table.payload["BreakpointTable"]["body"][0]["script"] == ["silent", "print depth"]
    [cell] = results(name, "data-evaluate-expression *cell")
    assert cell.payload["value"].startswith('{id = 1, name = "näme\\000')
    assert 'label = 0x402004 "a \\"b\\"\\n"' in cell.payload["value"]
    [field] = results(f"session-fortran-gdb{version}.mi", "data-evaluate-expression field")
    assert field.payload["value"] == "((1.25, 1.25, -1, 1.25) (1.25, 1.25, 1.25, 1.25))"
    [error] = results(name, "data-evaluate-expression nosuch")
    assert (error.name, error.payload["msg"]) == ("error", 'No symbol "nosuch" in current context.')
    [memory] = results(name, "data-read-memory-bytes &first 24")
    assert decode.memory(memory.payload)[4:10] == "näme".encode() + b"\0"
    [unknown] = results(name, "nosuch-command")
    assert unknown.payload["code"] == "undefined-command"


@pytest.mark.parametrize("name", SESSIONS)
def test_both_versions_say_the_same(name: str) -> None:
    def summary(version: str) -> list[object]:
        found: list[object] = []
        for each in stops(f"session-{name}-gdb{version}.mi"):
            place = getattr(each, "frame", None)
            assert place is None or isinstance(place, Frame)
            found.append((type(each), place and (place.function, place.line, place.file)))
        for command, line in answers(f"session-{name}-gdb{version}.mi"):
            if command.startswith("data-evaluate-expression"):
                found.append((command, line.name, line.payload.get("value")))
        return found

    old, new = map(summary, VERSIONS)
    assert old == new and len(old) > 2


@pytest.mark.parametrize("name", ALL)
def test_nothing_of_a_machine_is_in_a_recording(name: str) -> None:
    text = (TRANSCRIPTS / name).read_text("utf-8")
    for path in re.findall(r'"(/[^"\\ ]*)', text):
        assert path.startswith(("/tmp/app/", "/lib/", "/lib64/")), path
