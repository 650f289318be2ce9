"""The settings page, the man page and shell completion, all made from the declarations."""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path

import pytest

from pgdb.errors import UsageError
from pgdb.frontend.api.interface_options import InterfaceOptions
from pgdb.frontend.api.options import CHANGEABLE, SETTINGS, SessionOptions
from pgdb.frontend.ui import reference
from pgdb.frontend.ui.arguments import parse
from pgdb.frontend.ui.command_line import make_parser
from pgdb.frontend.ui.main import main
from pgdb.frontend.ui.run_arguments import OPTION_NAMES

DOCS = Path(__file__).parent.parent.parent.parent / "docs"


def test_settings_page_is_what_the_declarations_say() -> None:
    command = "python -m pgdb.frontend.ui.reference settings > docs/reference/settings.md"
    written = (DOCS / "reference" / "settings.md").read_text("utf-8")
    assert written == reference.settings_page(), f"run: {command}"


def test_man_page_is_what_the_parser_says(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["--print-man"])
    printed = capsys.readouterr().out
    assert left.value.code == 0
    assert printed == (DOCS / "pgdb.1").read_text("utf-8"), "run: pgdb --print-man > docs/pgdb.1"


def test_man_page_has_every_option_and_no_stray_control_line() -> None:
    text = reference.man_page(make_parser())
    for each in SETTINGS:
        if each.option:
            assert each.option.replace("-", "\\-") in text
    requests = {line.split()[0] for line in text.splitlines() if line.startswith(".")}
    known = {'.\\"', ".TH", ".SH", ".PP", ".B", ".BR", ".I", ".TP", ".RS", ".RE", ".nf", ".fi"}
    assert requests == known
    assert text.isascii()
    lines = text.splitlines()
    assert lines.count(".RS") == lines.count(".RE")


def test_roff_shows_a_text_unchanged() -> None:
    assert reference._escaped(".x -y \\n …") == "\\&.x \\-y \\en \\&..."


@pytest.mark.parametrize("shell", reference.SHELLS)
def test_completion_is_printed_for_each_shell(
    shell: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        main(["--print-completion", shell])
    printed = capsys.readouterr().out
    assert left.value.code == 0
    for word in ("attach", "report-bug", "overlay-launcher", "wire-up", "direct"):
        assert word in printed


@pytest.mark.parametrize(
    ("words", "candidates"),
    [
        (["att"], ["attach"]),
        (["attach", "--wire-up", ""], ["auto", "mpi", "direct"]),
        (
            ["launch", "--no-"],
            [
                "--no-stop-on-error",
                "--no-look-at-running",
                "--no-stop-on-report",
                "--no-nursery",
            ],
        ),
    ],
)
def test_bash_completes(words: list[str], candidates: list[str], tmp_path: Path) -> None:
    script = tmp_path / "pgdb.bash"
    script.write_text(reference.completion_script(make_parser(), "bash"), "utf-8")
    typed = " ".join(f"'{word}'" for word in ["pgdb", *words])
    line = (
        f"source {script}; COMP_WORDS=({typed}); COMP_CWORD={len(words)}; "
        'cur=${COMP_WORDS[COMP_CWORD]}; _shtab_pgdb; echo "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        ["bash", "--norc", "-c", line], capture_output=True, text=True, check=True, timeout=30
    )
    assert done.stdout.split() == candidates


def test_completion_without_its_package_names_the_way_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "shtab", None)
    with pytest.raises(UsageError, match=r"pip install 'pgdb-mpi\[completion\]'"):
        reference.completion_script(make_parser(), "bash")
    assert main(["--print-completion", "bash"]) == 2
    assert "needs the package shtab" in capsys.readouterr().err


def test_a_setting_is_declared_once() -> None:
    assert len({each.key for each in SETTINGS}) == len(SETTINGS)
    options = [each.option for each in SETTINGS if each.option]
    assert len(set(options)) == len(options)
    fields = set(SessionOptions.__dataclass_fields__)
    fields |= set(InterfaceOptions.__dataclass_fields__)
    assert {each.key for each in SETTINGS} == fields | {"settle_s"}
    assert sorted(CHANGEABLE) == [
        "array-limit",
        "compare-pointers",
        "confirm",
        "height",
        "look-at-running",
        "max-hold",
        "pagination",
        "prompt",
        "python-glue",
        "settle",
        "spawned",
        "status-line",
        "stop-before-death",
        "stop-mode",
        "stop-on-error",
        "stop-on-report",
        "style",
        "timeout",
        "timings",
        "trace-commands",
        "varprint-children",
        "varprint-depth",
        "width",
    ]


@pytest.mark.parametrize("mode", ["attach", "launch", "core", "jobs", "doctor", "run"])
def test_every_option_is_in_the_help_of_its_modes(
    mode: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        parse([mode, "--help"])
    shown = capsys.readouterr().out
    for each in SETTINGS:
        if each.option:
            option = OPTION_NAMES.get(each.key, each.option) if mode == "run" else each.option
            has = mode in each.modes
            assert bool(re.search(rf"{option}(?![\w-])", shown)) is has, option


def test_help_is_a_phrase() -> None:
    parsers: list[argparse.ArgumentParser] = [*reference._modes(make_parser()).values()]
    texts = [str(action.help) for each in parsers for action in each._actions]
    texts += [each.help for each in SETTINGS]
    for text in texts:
        assert text and not text.endswith("."), text
