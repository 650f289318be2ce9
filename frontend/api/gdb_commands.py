"""GDB's commands, classed by their effect on a session: one table.

A word is resolved as GDB does it (aliases, unambiguous abbreviations) before it is classed, so
that ``st``, ``conti`` or ``py`` cannot slip through. GDB judges a word that is not in the table.
"""

from __future__ import annotations

import enum

from pgdb.errors import UsageError
from pgdb.patterns import pattern


class Kind(enum.Enum):
    """The effect of a command on the state that PGDB keeps."""

    FREE = "free"
    """No effect; PGDB merges the text that it prints."""
    RUN = "run"
    """It sets ranks running."""
    BREAKPOINT = "breakpoint"
    """It makes breakpoints, which get job-wide numbers."""
    MULTI_LINE = "multi-line"
    """It reads further lines up to ``end``; sent alone it would swallow the next MI commands."""
    OURS = "ours"
    """PGDB carries it out itself."""
    REFUSED = "refused"
    """It would take the rank, the terminal or GDB's answers away from PGDB."""


_RUN = (
    "continue step next stepi nexti finish until advance jump signal reverse-continue "
    "reverse-finish reverse-next reverse-nexti reverse-step reverse-stepi"
)
_BREAKPOINT = "break tbreak hbreak thbreak watch rwatch awatch catch tcatch rbreak dprintf"
_MULTI_LINE = "actions commands define define-prefix document if stepping while while-stepping"
_OURS = (
    "quit exit kill detach interrupt help delete disable enable condition ignore clear backtrace "
    "print info frame list"
)
_REFUSED = {
    "'restart' launches the job again, session.restart() of the Python API does": (
        "run start restart"
    ),
    "the launcher starts the program; 'restart' stops it in main": "starti",
    "the session has its ranks; leave and use 'pgdb attach' or 'pgdb launch'": (
        "attach target file exec-file core-file add-inferior clone-inferior remove-inferiors "
        "inferior disconnect"
    ),
    "inside another command it would run on every host of the job": "shell ! make edit pipe |",
    "it would wait for lines that nobody can type": "python-interactive pi guile-repl gr",
    "GDB has no terminal here": "tui layout refresh winheight winwidth wh ws new-ui fs focus tty",
    "it would take the answers away from PGDB": "interpreter-exec",
    "PGDB cannot control a copy of a rank": "checkpoint",
}
_OTHERS = (
    "! + - < > add-auto-load-safe-path add-auto-load-scripts-directory add-symbol-file "
    "add-symbol-file-from-memory agent-printf alias append apropos bookmark break-range "
    "call cd collect compare-sections compile complete demangle directory disassemble "
    "display dont-repeat down down-silently dump echo end eval explore expression faas find "
    "flash-erase forward-search ftrace function generate-core-file goto-bookmark guile "
    "handle init-if-undefined jit-reader-load jit-reader-unload load macro maintenance mem "
    "memory-tag monitor nosharedlibrary output overlay passcount path print-object printf "
    "ptype pwd python queue-signal record remote remove-symbol-file restore return "
    "reverse-search save search section select-frame set sharedlibrary show skip source "
    "stop strace symbol-file taas task tdump teval tfaas tfind thread trace tsave tstatus "
    "tstart tstop tvariable undisplay unset up up-silently update whatis with x"
)
ALIASES = {
    "b": "break", "br": "break", "brea": "break", "bt": "backtrace", "where": "backtrace",
    "c": "continue", "fg": "continue", "cont": "continue", "d": "delete", "dis": "disable",
    "disa": "disable", "disas": "disassemble", "dir": "directory", "en": "enable", "f": "frame",
    "h": "help", "i": "info", "inf": "info", "inspect": "print", "j": "jump", "k": "kill",
    "l": "list", "n": "next", "ni": "nexti", "p": "print", "po": "print-object", "py": "python",
    "q": "quit", "r": "run", "rc": "reverse-continue", "rn": "reverse-next", "rs": "reverse-step",
    "rni": "reverse-nexti", "rsi": "reverse-stepi", "s": "step", "sho": "show", "si": "stepi",
    "t": "thread", "tb": "tbreak", "tbr": "tbreak", "th": "thbreak", "tp": "trace", "u": "until",
    "und": "undisplay", "wa": "watch", "core": "core-file", "gcore": "generate-core-file",
    "e": "edit", "o": "output", "mt": "maintenance", "gu": "guile",
    "disp": "display", "tu": "tui", "sh": "sharedlibrary", "ha": "handle",
    "fin": "finish", "bre": "break", "cl": "clear", "whe": "backtrace",
    "ins": "print", "insp": "print", "inspe": "print", "inspec": "print", "wher": "backtrace",
}  # fmt: skip
_SETTINGS_OF_OURS = (
    "mi-async target-async non-stop confirm pagination height annotate interactive-mode".split()
)
# Settings that make GDB follow a child or keep several processes, with the value that does neither
# and the length of the shortest abbreviation (GDB 13.1).
_SETTINGS_OF_FORKS = {
    "follow-fork-mode": ("parent", 8),
    "follow-exec-mode": ("same", 8),
    "detach-on-fork": ("on", 3),
    "schedule-multiple": ("off", 9),
}
_FLAGS = r"(?:-\S+\s+)*"
# Commands that carry out another command.
_CARRIERS = {
    "thread": pattern(
        rf"a(?:p(?:ply?)?|ppl)?\s+(?:a(?:ll?)?|[\d.\s$-]+?)\s+{_FLAGS}(?P<command>\S.*)"
    ),
    "frame": pattern(rf"apply\s+(?:all|level\s+\S+|-?\d+)\s+{_FLAGS}(?P<command>\S.*)"),
    "taas": pattern(rf"{_FLAGS}(?P<command>\S.*)"),
    "tfaas": pattern(rf"{_FLAGS}(?P<command>\S.*)"),
    "faas": pattern(rf"{_FLAGS}(?P<command>\S.*)"),
    "with": pattern(r".*?--\s*(?P<command>\S.*)"),
}

KINDS: dict[str, Kind] = {
    **dict.fromkeys(_OTHERS.split(), Kind.FREE),
    **dict.fromkeys(_RUN.split(), Kind.RUN),
    **dict.fromkeys(_BREAKPOINT.split(), Kind.BREAKPOINT),
    **dict.fromkeys(_MULTI_LINE.split(), Kind.MULTI_LINE),
    **dict.fromkeys(_OURS.split(), Kind.OURS),
    **{word: Kind.REFUSED for words in _REFUSED.values() for word in words.split()},
}
"""Every command of GDB 13 and its class."""

_WORD = pattern(r"\s*([A-Za-z][\w-]*|[^\w\s])")


def first_word(line: str) -> str:
    """Return the command word of a line: ``p`` of ``p/x y``, ``!`` of ``!ls``."""
    match = _WORD.match(line)
    return match[1] if match else ""


def resolve(line: str) -> str:
    """Return the full name of the GDB command in *line*, or its word as it is if GDB must judge.

    >>> resolve("bt 3"), resolve("conti"), resolve("p/x y"), resolve("zzz")
    ('backtrace', 'continue', 'print', 'zzz')
    """
    word = first_word(line)
    if word in KINDS:
        return word
    if word in ALIASES:
        return ALIASES[word]
    candidates = [name for name in KINDS if name.startswith(word)] if word else []
    return candidates[0] if len(candidates) == 1 else word


def kind_of(word: str, line: str) -> Kind:
    """Return the class of a resolved command; *line* is the whole, which decides some."""
    kind, inner = _kind_and_inner(word, line)
    while inner:
        # An inner command keeps its effect; the nesting can be as deep as the line is long.
        kind, inner = _kind_and_inner(resolve(inner), inner)
        if not inner and kind not in (Kind.RUN, Kind.REFUSED, Kind.MULTI_LINE):
            kind = Kind.FREE
    return kind


def _kind_and_inner(word: str, line: str) -> tuple[Kind, str]:
    """Return the class of a command, and the inner command that it carries out, if any."""
    rest = line.split(maxsplit=1)[1:]
    argument = rest[0].strip() if rest else ""
    if word in ("python", "guile", "compile", "expression") and argument in ("", "code", "print"):
        return Kind.MULTI_LINE, ""
    if word == "set" and (_is_setting_of_ours(argument) or _is_setting_of_forks(argument)):
        return Kind.REFUSED, ""
    if word == "with" and _is_setting_of_forks(argument.partition("--")[0]):
        return Kind.REFUSED, ""
    if word in _CARRIERS and (match := _CARRIERS[word].match(argument)):
        return Kind.FREE, match["command"]
    return KINDS.get(word, Kind.FREE), ""


def _is_setting_of_ours(argument: str) -> bool:
    name = argument.split(maxsplit=1)[0] if argument else ""
    # GDB accepts the beginning of a setting's name: "he", "mi" and "an" are enough (GDB 13.1).
    enough = len(name) > 2 or name in ("he", "mi", "an")
    return enough and any(own.startswith(name) for own in _SETTINGS_OF_OURS)


_ABOUT_BREAKPOINTS = frozenset("condition ignore enable disable delete commands".split())


def is_about_breakpoints(line: str) -> bool:
    """Return whether a command makes or changes breakpoints."""
    word = resolve(line)
    return KINDS.get(word) is Kind.BREAKPOINT or word in _ABOUT_BREAKPOINTS


def _is_setting_of_forks(argument: str) -> bool:
    """Return whether a ``set`` makes GDB follow a child, or keep several processes."""
    name, value = (*argument.split(maxsplit=1), "", "")[:2]
    return not value.startswith("=") and any(
        own.startswith(name) and len(name) >= shortest and value.strip() != as_it_is
        for own, (as_it_is, shortest) in _SETTINGS_OF_FORKS.items()
    )


_MEMORY = pattern(r"((?:dump|append)\s+(?:\w+\s+)?(?:memory|value)\s+)(\S+)")
_OWN_NAME = pattern(r"%[rp]")
_CORES = "core.%r.%h.%p"
"""Name of the core files of several ranks; see the guide, docs/guide/crashes.md."""


def with_file_for_each(line: str, count: int) -> str:
    """Return a command that writes a file, with a name of its own for each of *count* ranks.

    >>> with_file_for_each("gcore app.core", 2), with_file_for_each("gcore app.core", 1)
    ('generate-core-file app.core.%r', 'generate-core-file app.core')
    """
    word = resolve(line)
    if word in ("dump", "append"):
        match = _MEMORY.match(line)
        if count < 2 or match is None or _OWN_NAME.search(match[2]):
            return line
        return f"{match[0]}.%r{line[match.end() :]}"
    if word != "generate-core-file":
        return line
    name = line[len(line.split(maxsplit=1)[0]) :].strip()
    if not name:
        return f"{word} {_CORES if count > 1 else 'core.%p'}"
    return f"{word} {name}{'' if count < 2 or _OWN_NAME.search(name) else '.%r'}"


def why_refused(word: str, line: str = "") -> str:
    """Return the message for a refused command, with the way out."""
    if word in ("set", "with") and _is_setting_of_forks(line.partition(" ")[2].partition("--")[0]):
        return (
            f"'{word}' with this setting is refused: a rank is one process. 'pgdb attach --pids' "
            "debugs its children; --program NAME names the program that a wrapper starts"
        )
    for why, words in _REFUSED.items():
        if word in words.split():
            return f"'{word}' is refused: {why}"
    return f"'{word}' with this setting is refused: PGDB needs it as it is"


_OPENS = frozenset("commands define document if while while-stepping".split())


def opens_block(line: str) -> bool:
    """Return whether a line inside a block begins a block of its own."""
    word = resolve(line)
    return word in _OPENS or (kind_of(word, line) is Kind.MULTI_LINE)


def check_text(line: str) -> None:
    """Check that a line is UTF-8: a terminal or a command line can contain other bytes.

    :raises UsageError: if it is not UTF-8.
    """
    try:
        line.encode("utf-8")
    except UnicodeEncodeError as error:
        byte = ord(line[error.start]) & 0xFF
        raise UsageError(
            f"byte {byte:#04x} at character {error.start + 1} of the line is not UTF-8"
        ) from None
