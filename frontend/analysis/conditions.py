"""Reads conditions over ranks as users type them: text only, no rank is asked."""

from __future__ import annotations

import re
from typing import Literal

import msgspec

from pgdb.errors import UsageError
from pgdb.patterns import pattern
from pgdb.records import parse_number

Kind = Literal[
    "same", "increasing", "decreasing", "nondecreasing", "nonincreasing", "within", "true"
]
"""What must hold: one value on all ranks, an order from each rank to the next, a range, or a
condition that is true on every rank."""

# Typed lines and scripts can have lines of any length, so that none of these may try again from
# each character of what it has tried already: they begin where a word does, and give nothing back.
_RANGE = pattern(r"(?<=\S)\s++(?:is\s++)?in\s++(?=\S)")
_KINDS: tuple[Kind, ...] = (
    "same", "increasing", "decreasing", "nondecreasing", "nonincreasing", "true"
)  # fmt: skip
# The third is there so that what an open quote has gone by is not taken for another one.
_QUOTED = pattern(r"\"(?:\\.|[^\"\\])*+\"|'(?:\\.|[^'\\])*+'|\\.", re.S)
_TEMPLATES = pattern(r"[\w\s:,*&<>]++\(?")
_TEMPLATE_BEGIN = pattern(r"(?<=\w)<")
_TEMPLATE = pattern(r".*>(?=\s*+(?:::|\())", re.S)
# Not "/=", which is "differs" in Fortran: where it is not, GDB is asked.
_ASSIGNMENT = pattern(
    r"(?:<<|>>|[-+*%&|^])=(?!=)|(?<![=!<>/])=(?!=)|(?<!\w)(?:and|or|xor)_eq(?!\w)"
)
_DIFFERS = "/="
# A call, $_shell() is one; code of other languages; a pipe; the end of a line.
_EFFECT = pattern(r"[(){};`|\x00-\x1f\x7f]|\+\+|--")
_LOOKING = frozenset(("print", "p", "inspect", "backtrace", "bt", "where", "info", "x"))
_NO_COMPARISON = pattern(r"->|<<|>>|(?<=operator)[<>=!]+")
_COMPARISON = pattern(r"==|!=|/=|<=|>=|<|>|\.(?:eq|ne|lt|le|gt|ge)\.", re.I)
_LOGICAL = pattern(r"&&|\|\||!|\.(?:and|or|not|eqv|neqv)\.", re.I)
_JOINT = pattern(r"&&|\|\||\.(?:and|or|eqv|neqv)\.", re.I)
_NEGATIONS = pattern(r"(?:\s*+(?:!|\.not\.))++", re.I)
_CALL = pattern(r"[A-Za-z_][\w:.]*\s*(?=\()")
_NO_RANGE = pattern(r"(?<=[\w)\]])\s++(?:is\s++)?in\s++(?=\S)")
_STRAY = pattern(r"(?P<before>(?<!\w)\w++|[)\]])\s++(?P<word>[A-Za-z_]\w*+)\s*+\Z")
_MOST_NESTED = 100
"""Deeper than this nobody's condition is, and each level takes as long as the whole."""
_PREFIXES = frozenset(
    "sizeof alignof typeof struct union enum class unsigned signed long short const volatile "
    "static new delete and or xor not mod div".split()
)
_FORTRAN = {".eq.": "==", ".ne.": "!=", "/=": "!=", ".le.": "<=", ".ge.": ">="} | {
    ".lt.": "<",
    ".gt.": ">",
}


class Requirement(msgspec.Struct, frozen=True):
    """What is to hold, as ``assert`` takes it."""

    expression: str
    """What is looked at; of ``x > 0`` the ``x``."""
    kind: Kind
    conditions: tuple[str, ...] = ()
    """What GDB has to find true on each rank; none where the values of all ranks are needed."""
    title: str = ""
    """The whole in words: ``x is the same on all ranks``."""
    comparisons: tuple[tuple[str, str], ...] = ()
    """Where it is plain what *expression* is compared with: operators and their right sides."""
    operands: tuple[str, ...] = ()
    """What GDB would compare or test by its address if it is an array."""


def parse(text: str) -> Requirement:
    """Read what is to hold.

    ``EXPR same``, ``EXPR increasing`` (``decreasing``, ``nondecreasing``, ``nonincreasing``),
    ``EXPR in LOW..HIGH``, ``EXPR true``; a bare EXPR must be true where it is a comparison, and
    the same on all ranks where it is none.

    >>> parse("x").kind, parse("x > 0").kind, parse("x > 0").expression
    ('same', 'true', 'x')

    :raises UsageError: if nothing is said, or what is said is neither of these.
    """
    text = text.strip()
    if not text:
        raise UsageError("what is to hold? for example 'x > 0', 'x same' or 'x in 0..1'")
    check_changes_nothing(text)
    if (found := _range_of(text)) is not None:
        expression, low, high = found
        ends = (parse_number(low), parse_number(high))
        if ends[0] is not None and ends[1] is not None and ends[0] > ends[1]:
            raise UsageError(f"assert: '{low}..{high}' runs backwards; write '{high}..{low}'")
        conditions = (f"({expression}) >= ({low})", f"({expression}) <= ({high})")
        title = f"{expression} is in {low}..{high}"
        compared = ((">=", low), ("<=", high))
        operands = possible_arrays([expression, low, high])
        return Requirement(expression, "within", conditions, title, compared, operands)
    expression, word = _word_of(text)
    match word:
        case None:
            subject = _subject(text)
            if subject is None:
                _check_form(text)
                return Requirement(text, "same", title=f"{text} is the same on all ranks")
            operands = possible_arrays(operands_of(text))
            return Requirement(subject, "true", (text,), text, _compared(text), operands)
        case "same":
            return Requirement(expression, "same", title=f"{expression} is the same on all ranks")
        case "true":
            return Requirement(expression, "true", (expression,), f"{expression} is true")
        case word:
            return Requirement(expression, word, title=f"{expression} is {word} from rank to rank")


def _range_of(text: str) -> tuple[str, str, str] | None:
    """Return expression and ends of ``EXPR [is] in LOW..HIGH``, None if *text* is none."""
    found = _RANGE.search(text)
    if found is None:
        return None
    # Where the first 'in' has no two ends behind it, no later one has.
    at = text.find("..", found.end() + 1)
    low, high = text[found.end() : at].rstrip(), text[at + 2 :].strip()
    return (text[: found.start()], low, high) if at >= 0 and high else None


def _word_of(text: str) -> tuple[str, Kind | None]:
    """Return expression and word of ``EXPR [is] WORD``; all of *text* and None if it is none."""
    *before, last = text.rsplit(None, 1)
    word = next((kind for kind in _KINDS if kind == last), None)
    if not before or word is None:
        return text, None
    expression, *behind = before[0].rsplit(None, 1)
    return (expression if behind == ["is"] else before[0]), word


# -- inside ------------------------------------------------------------------------------------


def _subject(text: str) -> str | None:
    """Return what a condition is about, or None if *text* is no condition.

    Of one comparison that is its left side; of anything more, the condition as a whole.
    """
    text = _stripped(text)
    bare = _outermost(text)
    if _LOGICAL.search(_COMPARISON.sub(_blank, bare)):
        return text
    found = list(_COMPARISON.finditer(bare))
    if len(found) != 1:
        return text if found else None
    return text[: found[0].start()].strip() or None


def _compared(text: str) -> tuple[tuple[str, str], ...]:
    """Return operator and right side of a condition that is one comparison, else nothing."""
    text = _stripped(text)
    bare = _outermost(text)
    found = list(_COMPARISON.finditer(bare))
    if len(found) != 1 or _LOGICAL.search(_COMPARISON.sub(_blank, bare)):
        return ()
    sign = found[0][0].lower()
    return ((_FORTRAN.get(sign, sign), text[found[0].end() :].strip()),)


def operands_of(text: str, depth: int = 0) -> list[str]:
    """Return everything that a condition compares or tests, left to right.

    :raises UsageError: if it is nested too deeply.
    """
    if depth > _MOST_NESTED:
        raise UsageError(f"assert: a condition may be nested {_MOST_NESTED} deep, and no deeper")
    text = _stripped(text)
    bare = _outermost(text)
    for form in (_JOINT, _COMPARISON):
        cuts = list(form.finditer(bare))
        if cuts:
            ends = [0, *(end for cut in cuts for end in cut.span()), len(text)]
            parts = [text[ends[at] : ends[at + 1]] for at in range(0, len(ends), 2)]
            return [operand for part in parts for operand in operands_of(part, depth + 1)]
    negation = _NEGATIONS.match(text)
    return operands_of(text[negation.end() :], depth + 1) if negation is not None else [text]


def possible_arrays(operands: list[str]) -> tuple[str, ...]:
    """Return what can be an array: no number or string, nor what has an effect each time."""
    found: dict[str, None] = {}
    for text in operands:
        call = _CALL.match(text)
        is_call = call is not None and _closing(text[call.end() :]) == len(text) - call.end() - 1
        has_effect = is_call or "++" in text or "--" in text
        if text and not has_effect and parse_number(text) is None and text[0] not in "\"'":
            found[text] = None
    return tuple(found)


def check_changes_nothing(text: str) -> None:
    """Check that a condition assigns nothing: mostly ``==`` is meant.

    :raises UsageError: if it does.
    """
    if match := _ASSIGNMENT.search(_QUOTED.sub(_blank_quoted, text)):
        raise UsageError(
            f"'{text}' would change the program: {match[0]!r} assigns, '==' compares; "
            "'set var' is there to change a variable"
        )


def has_ambiguous_differs(text: str) -> bool:
    """Return whether *text* has a ``/=``, which compares in Fortran and assigns in C."""
    return _DIFFERS in _QUOTED.sub(_blank_quoted, text)


def only_looks(command: str) -> bool:
    """Return whether a command of somebody else's can do nothing but look.

    It must show values, stacks or what ``info`` knows, with an expression that calls nothing (nor
    casts, which looks the same) and assigns nothing. Quotes hide nothing here.

    >>> [only_looks(each) for each in ("print/x u.a[3] == 4", "bt -args", "info locals")]
    [True, True, True]
    >>> [only_looks(each) for each in ("python 1", "print f(1)", "print x /= 1", "info line f();")]
    [False, False, False, False]
    """
    word, _, rest = command.partition(" ")
    is_looking = word.partition("/")[0] in _LOOKING
    assigns = _ASSIGNMENT.search(rest) or _DIFFERS in rest
    return is_looking and not _EFFECT.search(command) and not assigns


def _check_form(text: str) -> None:
    """Check that what is to be the same on all ranks can be one expression.

    :raises UsageError: if a word stands behind it that says nothing.
    """
    bare = _without_brackets(_QUOTED.sub(_blank_quoted, text))
    if match := _NO_RANGE.search(bare):
        raise UsageError(f"assert: 'in' needs two ends: '{text[: match.start()]} in 0..3'")
    match = _STRAY.search(bare)
    if match is not None and match["before"] not in _PREFIXES and not match["before"].isdigit():
        raise UsageError(
            f"assert: what is {match['word']!r}? behind an expression can stand same, true, "
            "increasing, decreasing, nondecreasing, nonincreasing, or in LOW..HIGH"
        )


def _stripped(text: str) -> str:
    """Take blanks and brackets around the whole away."""
    text = text.strip()
    if not text.startswith("("):
        return text
    closing: dict[int, int] = {}
    opened: list[int] = []
    for at, each in enumerate(text):
        if each == "(":
            opened.append(at)
        elif each == ")" and opened:
            closing[opened.pop()] = at
    begin, end = 0, len(text)
    while begin < end and closing.get(begin) == end - 1:
        begin, end = begin + 1, end - 1
        while begin < end and text[begin].isspace():
            begin += 1
        while begin < end and text[end - 1].isspace():
            end -= 1
    return text[begin:end]


def _outermost(text: str) -> str:
    """Blank what is quoted or in brackets, and what only looks like a comparison."""
    text = _QUOTED.sub(_blank_quoted, text)
    text = _TEMPLATES.sub(_blank_template, text)
    return _without_brackets(_NO_COMPARISON.sub(_blank, text))


def _without_brackets(text: str) -> str:
    kept, depth = [], 0
    for each in text:
        depth += each in "([{"
        kept.append(" " if depth else each)
        depth -= each in ")]}"
    return "".join(kept)


def _blank(match: re.Match[str]) -> str:
    return " " * len(match[0])


def _blank_quoted(match: re.Match[str]) -> str:
    return match[0] if match[0][0] == "\\" else _blank(match)


def _blank_template(match: re.Match[str]) -> str:
    """Blank the arguments of a template, which are in brackets of two kinds, among such letters."""
    text = match[0]
    begin = _TEMPLATE_BEGIN.search(text)
    found = _TEMPLATE.match(text, begin.start()) if begin is not None else None
    if found is None:
        return text
    # What was looked for behind it stays.
    return f"{text[: found.start()]}{_blank(found)}{text[found.end() :]}"


def _closing(text: str) -> int:
    depth = 0
    for at, each in enumerate(text):
        depth += (each == "(") - (each == ")")
        if not depth:
            return at
    return -1
