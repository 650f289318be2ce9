"""GDB's command words: their classes, and the resolution of aliases and abbreviations.

GDB takes an exact name or alias first, then a beginning that only one of its words has.
tests/frontend/api/test_gdb_words.py asks a GDB for every beginning of every word.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable

from pgdb.patterns import pattern


class Kind(enum.Enum):
    """The effect of a command on the state that PGDB keeps."""

    FREE = "free"
    """The command has no effect; PGDB merges the text that GDB prints."""
    RUN = "run"
    """The command sets ranks running."""
    BREAKPOINT = "breakpoint"
    """The command makes breakpoints, which get job-wide numbers."""
    MULTI_LINE = "multi-line"
    """The command reads lines up to ``end``; sent alone it would swallow the next MI commands."""
    OURS = "ours"
    """PGDB carries the command out itself."""
    REFUSED = "refused"
    """The command would take the rank, the terminal or GDB's answers away from PGDB."""


_RUN = (
    "continue step next stepi nexti finish until advance jump signal reverse-continue "
    "reverse-finish reverse-next reverse-nexti reverse-step reverse-stepi"
)
_BREAKPOINT = (
    "break tbreak hbreak thbreak watch rwatch awatch catch tcatch rbreak dprintf "
    "trace ftrace strace"
)
_MULTI_LINE = "actions commands define document if while"
_OURS = (
    "quit kill detach interrupt help delete disable enable condition ignore passcount clear "
    "backtrace print info frame list"
)
ONE_PROCESS = "a rank is one process; 'pgdb attach --pids PID' debugs a child of it"
REFUSED = {
    "'restart' launches the job again, session.restart() of the Python API does": (
        "run start restart"
    ),
    "the launcher starts the program; 'restart' stops it in main": "starti",
    "the session has its ranks; leave and use 'pgdb attach' or 'pgdb launch'": (
        "attach target file exec-file core-file disconnect"
    ),
    ONE_PROCESS: "inferior add-inferior clone-inferior remove-inferiors",
    "inside another command it would run on every host of the job": "shell make edit pipe",
    "it would wait for lines that nobody can type": "python-interactive guile-repl",
    "GDB has no terminal here": "tui layout refresh winheight winwidth wh new-ui fs focus tty",
    "inside another command it would take the answers away from PGDB": "interpreter-exec",
    "PGDB cannot control a copy of a rank": "checkpoint",
}
"""The words that PGDB refuses, by the reason with the way out."""
_OTHERS = (
    "+ - < > add-auto-load-safe-path add-auto-load-scripts-directory add-symbol-file "
    "add-symbol-file-from-memory agent-printf alias append apropos bookmark break-range "
    "call cd collect compare-sections compile complete define-prefix demangle directory "
    "disassemble display dont-repeat down down-silently dump echo end eval explore expression faas "
    "find flash-erase flushregs forward-search function generate-core-file goto-bookmark "
    "guile handle init-if-undefined jit-reader-load jit-reader-unload load macro maintenance mem "
    "memory-tag monitor nosharedlibrary output overlay path print-object printf "
    "ptype pwd python queue-signal record remote remove-symbol-file restore return "
    "reverse-search save save-tracepoints section select-frame set sharedlibrary show skip source "
    "stop symbol-file taas task tdump teval tfaas tfind thread tsave tstatus "
    "tstart tstop tvariable undisplay unset up up-silently update whatis while-stepping with x"
)
ALIASES = {
    "!": "shell", "b": "break", "br": "break", "bre": "break", "brea": "break", "bt": "backtrace",
    "where": "backtrace", "c": "continue", "fg": "continue", "cl": "clear", "d": "delete",
    "del": "delete", "dis": "disable", "disa": "disable", "do": "down", "dow": "down",
    "en": "enable", "exit": "quit", "f": "frame", "fin": "finish",
    "fo": "forward-search", "search": "forward-search", "gcore": "generate-core-file",
    "gr": "guile-repl", "gu": "guile", "h": "help", "i": "info", "inf": "info",
    "inspect": "print", "j": "jump", "k": "kill", "l": "list", "mt": "maintenance", "n": "next",
    "ni": "nexti", "ov": "overlay", "ovly": "overlay", "p": "print", "pi": "python-interactive",
    "|": "pipe", "po": "print-object", "py": "python", "q": "quit", "r": "run",
    "rc": "reverse-continue", "rec": "record", "rev": "reverse-search", "rn": "reverse-next",
    "rni": "reverse-nexti", "rs": "reverse-step", "rsi": "reverse-stepi", "s": "step",
    "si": "stepi", "stepping": "while-stepping", "t": "thread", "tp": "trace", "tr": "trace",
    "tra": "trace", "trac": "trace", "tu": "tui", "u": "until", "w": "with",
    "ws": "while-stepping",
}  # fmt: skip
"""Names of GDB's for another command of the table, its declared abbreviations among them."""

KINDS: dict[str, Kind] = {
    **dict.fromkeys(_OTHERS.split(), Kind.FREE),
    **dict.fromkeys(_RUN.split(), Kind.RUN),
    **dict.fromkeys(_BREAKPOINT.split(), Kind.BREAKPOINT),
    **dict.fromkeys(_MULTI_LINE.split(), Kind.MULTI_LINE),
    **dict.fromkeys(_OURS.split(), Kind.OURS),
    **{word: Kind.REFUSED for words in REFUSED.values() for word in words.split()},
}
"""Every command of GDB 13 and its class."""

NEWER = frozenset(("adi",))
"""Commands that GDB 13 does not have, up to GDB 18; GDB judges them."""
_NAMES = sorted({*KINDS, *ALIASES})
# GDB's words have these characters: "bt-1", "p$_" and "-1" are words, "p/x" is not.
_WORD = pattern(r"\s*([!|]|[\w.$+<>-]+|[^\w\s])")


def first_word(line: str) -> str:
    """Return the command word of a line: ``p`` of ``p/x y``, ``!`` of ``!ls``."""
    match = _WORD.match(line)
    return match[1] if match else ""


def candidates(word: str, others: Iterable[str] = ()) -> set[str]:
    """Return the commands that GDB can mean by *word*: one for an exact name.

    *others* are further names of a session's GDBs, such as those of user-defined commands.

    >>> candidates("rev") == {"reverse-search"}, sorted(candidates("th"))
    (True, ['thbreak', 'thread'])
    """
    names = {*others}
    if word in names or word in KINDS:
        return {word}
    if word in ALIASES:
        return {ALIASES[word]}
    if not word:
        return set()
    # GDB counts names: "ex" is ambiguous although both of two names could be one command.
    found = {name for name in (*_NAMES, *names) if name.startswith(word)}
    return {ALIASES.get(name, name) for name in found} if len(found) == 1 else found


def resolve(line: str) -> str:
    """Return the full name of the GDB command in *line*, or its word as it is if GDB must judge.

    >>> resolve("bt 3"), resolve("conti"), resolve("p/x y"), resolve("zzz")
    ('backtrace', 'continue', 'print', 'zzz')
    """
    word = first_word(line)
    found = candidates(word)
    return found.pop() if len(found) == 1 else word
