"""The commands of the PGDB of 2014 in the words of GDB. No I/O.

That PGDB named commands after MI: "list break", "step --reverse", "tfind frame-number 3". A form
that GDB has itself is left alone.
"""

from __future__ import annotations

from pgdb.errors import UsageError
from pgdb.frontend.api.gdb_blocks import argument_of
from pgdb.frontend.api.gdb_words import first_word, resolve
from pgdb.frontend.api.lockstep import LOCKSTEP_WORDS
from pgdb.frontend.commands.options import for_ranks
from pgdb.patterns import pattern

_STEPS = "continue finish next nexti step stepi"
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
# Not -s and -l: GDB's own -source and -line can be written so.
_BREAK_OPTION = pattern(
    r"-(?:(?P<flag>[thfda])|(?P<name>[cip])\s+(?P<value>\"(?:\\.|[^\"\\])*\"|'[^']*'|\S+))(?:\s+|\Z)"
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
    if word in (*_STEPS.split(), "interrupt", "run") and argument.startswith("--"):
        return (_run(word, argument),)
    if word == "tfind" and argument:
        return (_tfind(line, argument),)
    text = f"{word} {argument}".rstrip()
    for form, lines in _RULES:
        if (match := form.match(text)) is not None:
            return tuple(match.expand(each).rstrip() for each in lines)
    return (line,)


def _run(word: str, argument: str) -> str:
    """Return a run command without the options of MI.

    GDB sets all threads of a rank running, and a rank has one thread group: i1.
    """
    is_reverse = False
    while argument.startswith("--"):
        option, _, rest = argument.partition(" ")
        if option == "--reverse" and word in _STEPS.split():
            is_reverse = True
        elif option == "--thread-group":
            group, _, rest = rest.strip().partition(" ")
            if group not in ("1", "i1"):
                raise UsageError(
                    f"{word} --thread-group {group}: a rank has the thread group i1 only; 'proc "
                    f"SET {word}' chooses ranks"
                )
        elif option == "--" or (option == "--lockstep" and word in LOCKSTEP_WORDS):
            break
        elif option != "--all":
            known = ", ".join(("--lockstep",) * (word in LOCKSTEP_WORDS) + ("--all",))
            raise UsageError(
                f"{word}: no option {option!r}; there are {known} and --thread-group i1"
                f"{for_ranks(word, option)}"
            )
        argument = rest.strip()
    return f"{'reverse-' if is_reverse else ''}{word} {argument}".rstrip()


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
    flags: set[str] = set()
    values: dict[str, str] = {}
    rest = argument
    while (match := _BREAK_OPTION.match(rest)) is not None:
        if match["flag"]:
            flags.add(match["flag"])
        else:
            value = match["value"]
            values[match["name"]] = value[1:-1] if value[0] in "\"'" else value
        rest = rest[match.end() :]
    if not flags and not values:
        return (line,)
    word = _BREAKS.get("".join(sorted(flags & set("tha"))))
    if word is None:
        raise UsageError("break: -a is a tracepoint, which takes neither -t nor -h")
    for name in "ip":
        if not values.get(name, "0").isdecimal():
            raise UsageError(f"break: -{name} needs a number, not {values[name]!r}")
    made = f"{word} {rest}".rstrip()
    if "p" in values:
        made += f" thread {values['p']}"
    if "c" in values:
        made += f" if {values['c']}"
    if "f" in flags:
        made = f"with breakpoint pending on -- {made}"
    lines = [made]
    if "i" in values:
        lines.append(f"ignore $bpnum {values['i']}")
    if "d" in flags:
        lines.append("disable $bpnum")
    return tuple(lines)
