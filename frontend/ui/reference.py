"""Pages made from the declarations: the settings page, the man page, and shell completion.

``python -m pgdb.frontend.ui.reference settings > docs/reference/settings.md`` and
``pgdb --print-man > docs/pgdb.1`` write the files; tests compare them.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator

from pgdb.errors import UsageError
from pgdb.frontend.api.options import INTERFACE_SETTINGS, SETTINGS
from pgdb.frontend.api.setting import Setting
from pgdb.frontend.run import exit_status

SHELLS = ("bash", "zsh", "fish")
"""The shells that have completion."""

_FILES = ("FILE", "LOG", "PATH")
_DIRECTORIES = ("DIR",)


# -- settings ------------------------------------------------------------------------------------


def settings_page() -> str:
    """Return docs/reference/settings.md."""
    lines = [
        "# Settings",
        "",
        "The declarations of the settings make this page:",
        "`python -m pgdb.frontend.ui.reference settings > docs/reference/settings.md`.",
        "",
        "A value comes from the first of these places that has one:",
        "",
        "1. `set NAME VALUE` at the prompt, for the settings with a name;",
        "2. the option of the command line, or the keyword argument of `pgdb.attach` and",
        "   `pgdb.launch`;",
        "3. the environment variable (command line only);",
        "4. at the prompt, `pgdb/settings.json` in `$XDG_CONFIG_HOME` or `~/.config`, which",
        "   `set -keep NAME VALUE` writes;",
        "5. the default.",
        "",
        "Batch runs and scripts ignore the settings file. Keys that end in `_s` are seconds, in",
        "`_bytes` bytes.",
        "",
        "| Option | `set`, `show` | Python and file | Default | Meaning |",
        "|---|---|---|---|---|",
    ]
    lines += [_row(each) for each in SETTINGS]
    return "\n".join(lines) + "\n"


def _row(setting: Setting) -> str:
    option = f"`{setting.option} {_value(setting)}`".replace(" `", "`") if setting.option else ""
    if setting.environment:
        option += f", `{setting.environment}`"
    key = (
        f"`{setting.key}`" if setting not in INTERFACE_SETTINGS else f"`{setting.key}` (file only)"
    )
    name = f"`{setting.name}`" if setting.name else ""
    default = ""
    if setting.default not in (None, "", ()):
        default = setting.show(setting.default)
    text = setting.help
    # A word that users type keeps its letters.
    is_value = text.partition(":")[0] in setting.choices
    cells = (option, name, key, default, f"{text}." if is_value else _sentence(text))
    escaped = [each.replace("|", "\\|") for each in cells]
    return f"| {' | '.join(escaped)} |"


def _value(setting: Setting) -> str:
    return setting.value or "|".join(setting.choices)


# -- man page ------------------------------------------------------------------------------------


def man_page(parser: argparse.ArgumentParser) -> str:
    """Return the man page of *parser*'s program, in roff."""
    modes = _modes(parser)
    lines = [
        ".\\\" Made from the argument parser by 'pgdb --print-man'.",
        '.TH PGDB 1 "" "PGDB" "User Commands"',
        ".SH NAME",
        "pgdb \\- a parallel debugger for MPI programs",
        ".SH SYNOPSIS",
    ]
    for name, mode in modes.items():
        lines += [".PP", f".B pgdb {_escaped(name)}", _escaped(_operands(mode))]
    lines += [".SH DESCRIPTION", ".PP", _escaped(parser.description or "")]
    lines += [".SH SUBCOMMANDS"]
    shared = set.intersection(
        *(_names(modes[name]) for name in ("attach", "launch", "core", "jobs"))
    )
    for name, mode in modes.items():
        lines += [".TP", f".B {_escaped(name)}", _escaped(_sentence(_help_of(parser, name)))]
        own = [
            each for each in _shown(mode) if name not in _OF_SESSIONS or _name(each) not in shared
        ]
        if own:
            lines.append(".RS")
            for action in own:
                lines += _entry(action)
            lines.append(".RE")
    lines += [
        ".SH OPTIONS",
        ".PP",
        _escaped(
            f"These options belong to {', '.join(_FOR_JOBS[:-1])} and {_FOR_JOBS[-1]}. Those of a "
            "session belong to report as well: all but -x, -ex, --batch, --json and --exit-code."
        ),
    ]
    for action in _shown(modes["jobs"]):
        lines += _entry(action)
    lines += [".SH OTHER OPTIONS"]
    for action in _shown(parser):
        lines += _entry(action)
    examples, _, status = (parser.epilog or "").partition("exit status:")
    lines += [".SH EXIT STATUS", ".PP", _escaped(f"{' '.join(status.split())}.")]
    lines += [".PP", "Of 'pgdb run':"]
    for number, meaning in exit_status.MEANINGS.items():
        lines += [".TP", f".B {number}", _escaped(_sentence(meaning.replace("`", "")))]
    lines += [".SH ENVIRONMENT"]
    for each in SETTINGS:
        if each.environment:
            text = f"the default of {each.option}: {each.help}"
            lines += [".TP", f".B {_escaped(each.environment)}", _escaped(_sentence(text))]
    lines += [
        ".SH FILES",
        ".TP",
        ".I ~/.config/pgdb/settings.json",
        _escaped("Settings that 'set \\-keep' keeps for later sessions at the prompt."),
        ".TP",
        ".I ~/.local/state/pgdb/history",
        "Lines typed at the prompt.",
        ".SH EXAMPLES",
        ".nf",
        *(_escaped(line.strip()) for line in examples.splitlines()[1:] if line.strip()),
        ".fi",
        ".SH SEE ALSO",
        ".BR gdb (1),",
        ".BR mpirun (1),",
        ".BR srun (1)",
    ]
    return "\n".join(lines) + "\n"


_FOR_JOBS = ("attach", "launch", "core", "jobs", "doctor")
_OF_SESSIONS = (*_FOR_JOBS, "report")


def _modes(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """Return the parsers of the subcommands by name."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    raise AssertionError("the parser has subcommands")


def _help_of(parser: argparse.ArgumentParser, mode: str) -> str:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return next(str(each.help) for each in action._choices_actions if each.dest == mode)
    raise AssertionError("the parser has subcommands")


def _shown(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """Yield the arguments of a parser, without the subcommands."""
    for action in parser._actions:
        if not isinstance(action, argparse._SubParsersAction):
            yield action


def _name(action: argparse.Action) -> str:
    return action.option_strings[0] if action.option_strings else action.dest


def _names(parser: argparse.ArgumentParser) -> set[str]:
    return {_name(action) for action in _shown(parser)}


def _operands(parser: argparse.ArgumentParser) -> str:
    """Return the part of a synopsis behind the subcommand."""
    words = ["[OPTION]..."]
    for action in _shown(parser):
        if not action.option_strings:
            optional = action.nargs == "?"
            words.append(f"[{action.metavar}]" if optional else str(action.metavar))
    return " ".join(words)


def _entry(action: argparse.Action) -> list[str]:
    """Return the lines about one argument."""
    value = str(action.metavar or "")
    if not value and action.choices is not None:
        value = "|".join(map(str, action.choices))
    if not value and action.nargs is None and action.option_strings:
        value = action.dest.upper()
    names = ", ".join(f"\\fB{_escaped(each)}\\fR" for each in action.option_strings)
    title = f"{names} \\fI{_escaped(value)}\\fR" if value and action.nargs != 0 else names
    help = (action.help or "") % {"default": action.default}
    return [".TP", title if names else f"\\fI{_escaped(value)}\\fR", _escaped(_sentence(help))]


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}." if text else ""


def _escaped(text: str) -> str:
    """Return a text as roff shows it unchanged."""
    text = text.replace("\\-", "-").replace("\\", "\\e").replace("-", "\\-")
    text = text.replace("…", "\\&...")
    return f"\\&{text}" if text[:1] in (".", "'") else text


# -- shell completion ----------------------------------------------------------------------------


def completion_script(parser: argparse.ArgumentParser, shell: str) -> str:
    """Return the completion script for a shell, made by ``shtab``.

    :raises UsageError: if ``shtab`` is not installed.
    """
    try:
        import shtab
    except ImportError:
        raise UsageError(
            "--print-completion needs the package shtab: pip install 'pgdb-mpi[completion]'"
        ) from None
    for each in (parser, *_modes(parser).values()):
        for action in _shown(each):
            if action.metavar in _FILES:
                action.complete = shtab.FILE  # type: ignore[attr-defined]
            elif action.metavar in _DIRECTORIES:
                action.complete = shtab.DIRECTORY  # type: ignore[attr-defined]
    return str(shtab.complete(parser, shell))


if __name__ == "__main__":
    if sys.argv[1:] != ["settings"]:
        sys.exit("usage: python -m pgdb.frontend.ui.reference settings")
    sys.stdout.write(settings_page())
