"""The commands of the PGDB of 2014 in the words of GDB. No I/O.

That PGDB named commands after MI: "list break", "step --reverse", "tfind frame-number 3". A form
that GDB has itself is left alone.
"""

from __future__ import annotations

from pgdb.errors import UsageError
from pgdb.frontend.api.gdb_blocks import argument_of
from pgdb.frontend.api.gdb_words import first_word, resolve
from pgdb.frontend.api.lockstep import LOCKSTEP_WORDS
from pgdb.frontend.commands.meeting import LOCKSTEP
from pgdb.frontend.commands.options import Option, Rest, Syntax, is_number
from pgdb.patterns import pattern

_STEPS = frozenset("continue finish next nexti step stepi".split())
_MODES = {"tracepoint-number": "tracepoint", "frame-number": ""}
_RANGES = {"pc-inside-range": "range", "pc-outside-range": "outside"}
# The command in full and the form behind it, and the lines that it stands for.
_RULES = tuple(
    (pattern(rf"{form}\Z"), lines)
    for form, lines in (
        (r"list br(?:eak(?:points?)?)?", (r"info breakpoints",)),
        (r"tvariables", (r"info tvariables",)),
        (r"tvariable (\$\w+)\s+([^=\s].*)", (r"tvariable \1 = \2",)),
        (r"add inferior\b(.*)", (r"add-inferior\1",)),
        (r"exec-file file\b(.*)", (r"exec-file\1",)),
        (r"symbol-file file\b(.*)", (r"symbol-file\1",)),
        (r"interpreter-exec exec\b(.*)", (r"interpreter-exec\1",)),
        (r"(set|show) inferior\s+tty\b(.*)", (r"\1 inferior-tty\2",)),
        (r"enable pretty\s+printing", (r"enable pretty-printer",)),
        (r"enable timings(?: (?:yes|on))?", (r"set timings on",)),
        (r"(?:enable timings (?:no|off)|disable timings)", (r"set timings off",)),
        (r"directory -r", (r"directory",)),
        (r"directory -r\s+(.+)", (r"directory", r"directory \1")),
        (r"watch -a\s+(.+)", (r"awatch \1",)),
        (r"watch -r\s+(.+)", (r"rwatch \1",)),
        (r"watch -[ar]", (r"watch",)),
        (r"backtrace (\d+)\s+(\d+)", (r"frame apply level \1-\2 echo",)),
        (r"x -o\s+(\S+)\s+(\S+)\s+(\d+)", (r"x/\3xb (char *)(\2) + (\1)",)),
        (r"x ([^/\s]\S*)\s+(\d+)", (r"x/\2xb \1",)),
    )
)


def _group(title: str, text: str) -> str:
    if text not in ("1", "i1"):
        word = title.partition(":")[0]
        raise UsageError(
            f"{word} --thread-group {text}: a rank has the thread group i1 only; 'proc SET {word}' "
            "chooses ranks"
        )
    return text


# These options are not in the command table: a line of 2014 becomes one of GDB before its command
# is looked up, so that history, hooks and bodies have GDB's form only. Help and completion offer
# that form; docs/guide/pgdb-2014.md lists these.
# GDB sets all threads of a rank running, and a rank has one thread group: i1.
_RUN_OPTIONS = (
    Option(name="--all", help="all threads"),
    Option(
        name="--thread-group",
        value="i1",
        help="the thread group",
        read=_group,
        argument="group",
    ),
)
_REVERSE = Option(name="--reverse", help="run backwards")


def _run_syntax(word: str) -> Syntax:
    options = (*_RUN_OPTIONS, *((_REVERSE,) if word in _STEPS else ()))
    known = "--all and --thread-group i1"
    if word in LOCKSTEP_WORDS:
        options, known = (*options, LOCKSTEP), f"{LOCKSTEP.name}, {known}"
    return Syntax(options, Rest.WORDS, known=known)


_RUNS = {word: _run_syntax(word) for word in (*_STEPS, "interrupt", "run")}


def _digits(title: str, text: str) -> str:
    if not is_number(text):
        raise UsageError(f"{title} needs a number, not {text!r}")
    return text


# Not -s and -l: GDB's own -source and -line can be written so.
_BREAK = Syntax(
    (
        Option(name="-t", help="a temporary breakpoint"),
        Option(name="-h", help="a hardware breakpoint"),
        Option(name="-a", help="a tracepoint"),
        Option(name="-f", help="a pending breakpoint, where the location is not found"),
        Option(name="-d", help="a disabled breakpoint"),
        Option(name="-c", value="CONDITION", help="the condition"),
        Option(name="-i", value="COUNT", help="the number of hits to pass over", read=_digits),
        Option(name="-p", value="THREAD", help="the thread", read=_digits),
    ),
    Rest.BEHIND,
)
_BREAKS = {"": "break", "t": "tbreak", "h": "hbreak", "ht": "thbreak", "a": "trace"}


def translated(line: str) -> tuple[str, ...]:
    """Return the lines that a line stands for: itself, or what GDB calls its command.

    >>> translated("step --reverse 2"), translated("list break"), translated("step 2")
    (('reverse-step 2',), ('info breakpoints',), ('step 2',))

    :raises UsageError: for options that do not go together.
    """
    typed, argument = first_word(line), argument_of(line)
    word = resolve(typed)
    if word == "break" and argument.startswith("-"):
        return _break(line, argument)
    if word in _RUNS and argument.startswith("--"):
        return (_run(word, argument),)
    if word == "tfind" and argument:
        return (_tfind(line, argument),)
    text = f"{word} {argument}".rstrip()
    for form, lines in _RULES:
        if (match := form.match(text)) is not None:
            return tuple(match.expand(each).rstrip() for each in lines)
    return (line,)


def _run(word: str, argument: str) -> str:
    """Return a run command without the options of MI."""
    parsed = _RUNS[word].parse(word, argument)
    values = parsed.values
    words = (
        f"reverse-{word}" if values.get("reverse") else word,
        LOCKSTEP.name if values.get(LOCKSTEP.keyword) else "",
        parsed.rest,
    )
    return " ".join(filter(None, words))


def _tfind(line: str, argument: str) -> str:
    mode, _, rest = argument.partition(" ")
    if mode in _MODES:
        return " ".join(f"tfind {_MODES[mode]} {rest}".split())
    if mode in _RANGES:
        ends = rest.replace(",", " ").split()
        if len(ends) != 2:
            raise UsageError(f"tfind {mode} needs two addresses")
        return f"tfind {_RANGES[mode]} {ends[0]}, {ends[1]}"
    return line


def _break(line: str, argument: str) -> tuple[str, ...]:
    """Return the lines for ``break -t -h -f -d -a -c CONDITION -i COUNT -p THREAD LOCATION``."""
    parsed = _BREAK.parse("break", argument)
    values = parsed.values
    if not any(values.values()):
        return (line,)
    word = _BREAKS.get("".join(name for name in "aht" if values[name]))
    if word is None:
        raise UsageError("break: -a is a tracepoint, which takes neither -t nor -h")
    made = f"{word} {parsed.rest}".rstrip()
    if values["p"]:
        made += f" thread {values['p']}"
    if values["c"]:
        made += f" if {values['c']}"
    if values["f"]:
        made = f"with breakpoint pending on -- {made}"
    lines = [made]
    if values["i"]:
        lines.append(f"ignore $bpnum {values['i']}")
    if values["d"]:
        lines.append("disable $bpnum")
    return tuple(lines)
