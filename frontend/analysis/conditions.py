"""Parser of conditions over ranks, as users type them. No rank is asked."""

from __future__ import annotations

import re
from typing import Literal

import msgspec
from msgspec.structs import replace

from pgdb.errors import UsageError
from pgdb.patterns import pattern
from pgdb.records import parse_number

Kind = Literal[
    "same", "increasing", "decreasing", "nondecreasing", "nonincreasing", "within", "true"
]
"""Kind of a requirement: one value on all ranks, an order from rank to rank, a range, or a
condition that is true on every rank."""

# Typed lines and scripts can be of any length. Therefore these patterns begin at the start of a
# word and do not backtrack, so that the search takes linear time.
_RANGE = pattern(r"(?<=\S)\s++(?:is\s++)?in\s++(?=\S)")
_KINDS: tuple[Kind, ...] = (
    "same", "increasing", "decreasing", "nondecreasing", "nonincreasing", "true"
)  # fmt: skip
# The third alternative skips escaped characters after an unclosed quote.
_QUOTED = pattern(r"\"(?:\\.|[^\"\\])*+\"|'(?:\\.|[^'\\])*+'|\\.", re.S)
_TEMPLATES = pattern(r"[\w\s:,*&<>]++\(?")
_TEMPLATE_BEGIN = pattern(r"(?<=\w)<")
_TEMPLATE = pattern(r".*>(?=\s*+(?:::|\())", re.S)
# Without "/=", which means "differs" in Fortran; GDB is asked which language applies.
_ASSIGNMENT = pattern(
    r"(?:<<|>>|[-+*%&|^])=(?!=)|(?<![=!<>/])=(?!=)|(?<!\w)(?:and|or|xor)_eq(?!\w)"
)
_DIFFERS = "/="
# Calls, also $_shell(); code of other languages; pipes; line ends.
_EFFECT = pattern(r"[(){};`|\x00-\x1f\x7f]|\+\+|--")
_ONLY_LOOK = frozenset(("print", "p", "inspect", "backtrace", "bt", "where", "info", "x"))
_NO_COMPARISON = pattern(r"->|<<|>>|(?<=operator)[<>=!]+")
_COMPARISON = pattern(r"==|!=|/=|<=|>=|<|>|\.(?:eq|ne|lt|le|gt|ge|eqv|neqv)\.", re.I)
_LOGICAL = pattern(r"&&|\|\||!|\.(?:and|or|not)\.", re.I)
_JOINT = pattern(r"&&|\|\||\.(?:and|or)\.", re.I)
_NEGATIONS = pattern(r"(?:\s*+(?:!|\.not\.))++", re.I)
_SECTION = pattern(r"(?<!:):(?!:)")
"""The sign of a section of an array of Fortran, ``a(:,2)``."""
_CALL = pattern(r"[A-Za-z_][\w:.]*\s*(?=\()")
_NO_RANGE = pattern(r"(?<=[\w)\]])\s++(?:is\s++)?in\s++(?=\S)")
_OPERATOR_AT_END = pattern(
    r"(?:[-=!<>&|^+*/%(,]|(?<!\w)(?:and|or|xor|not)|\.(?:eq|ne|lt|le|gt|ge|and|or|not|eqv|neqv)\.)\Z",
    re.I,
)
_STRAY = pattern(r"(?P<before>(?<!\w)\w++|[)\]])\s++(?P<word>[A-Za-z_]\w*+)\s*+\Z")
# A constant says nothing about ranks: a name, a register, text or a call would.
_CONSTANT = pattern(
    r"""(?:
      0x[0-9a-f]++[ul]*+
    | (?:\d++\.?+\d*+|\.\d++)(?:[ed][-+]?+\d++)?+[ulf]*+
    | [-+*/%~()\s&|^]++
    )++\Z""",
    re.I | re.X,
)
_MOST_NESTED = 100
"""Maximum nesting of a condition; each level costs as much time as the whole text."""
_PREFIXES = frozenset(
    "sizeof alignof typeof struct union enum class unsigned signed long short const volatile "
    "static new delete and or xor not mod div".split()
)
_FORTRAN = {".eq.": "==", ".ne.": "!=", "/=": "!=", ".le.": "<=", ".ge.": ">="} | {
    ".lt.": "<",
    ".gt.": ">",
    ".eqv.": "==",
    ".neqv.": "!=",
}


class Requirement(msgspec.Struct, frozen=True):
    """A requirement of ``assert``."""

    expression: str
    """Expression whose values are checked: ``x`` for ``x > 0``."""
    kind: Kind
    conditions: tuple[str, ...] = ()
    """Conditions that GDB must find true on each rank; empty if the values of all ranks are needed.
    """
    title: str = ""
    """The requirement in words: ``x is the same on all ranks``."""
    comparisons: tuple[tuple[str, str], ...] = ()
    """Operators and right sides of the comparisons of *expression*, if they are known."""
    operands: tuple[str, ...] = ()
    """Operands that GDB would compare or test by address if they are arrays."""
    is_bare: bool = False
    """Whether a value must be the same only because the expression is no comparison: a truth value
    must be true."""

    @property
    def is_about_text(self) -> bool:
        """Whether *expression* is compared with a string or a character."""
        return bool(self.comparisons) and self.comparisons[0][1][:1] in ("'", '"')


def parse(text: str) -> Requirement:
    """Parse a requirement.

    The forms are ``EXPR same``, ``EXPR increasing`` (``decreasing``, ``nondecreasing``,
    ``nonincreasing``), ``EXPR in LOW..HIGH`` and ``EXPR true``. A bare comparison or
    constant must be true; any other bare expression must be the same on all ranks, and true if its
    value is a truth value.

    >>> parse("x").kind, parse("x > 0").kind, parse("x > 0").expression
    ('same', 'true', 'x')

    :raises UsageError: if *text* is empty, has none of these forms, or is a list of several.
    """
    text = text.strip()
    if not text:
        raise UsageError("a condition is missing; for example 'x > 0', 'x same' or 'x in 0..1'")
    check_changes_nothing(text)
    check_is_one(text)
    if (range_ := _range_of(text)) is not None:
        expression, low, high = range_
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
                if _CONSTANT.match(text):
                    return Requirement(text, "true", (text,), title=f"{text} is true")
                title = f"{text} is the same on all ranks"
                return Requirement(text, "same", title=title, is_bare=True)
            operands = possible_arrays(operands_of(text))
            found = Requirement(subject, "true", (text,), text, _compared(text), operands)
            if found.is_about_text and subject not in operands:
                return replace(found, operands=(subject, *operands))
            return found
        case "same":
            return same(expression)
        case "true":
            return Requirement(expression, "true", (expression,), f"{expression} is true")
        case word:
            return Requirement(expression, word, title=f"{expression} is {word} from rank to rank")


def same(expression: str) -> Requirement:
    """Return the requirement that an expression has one value on all ranks.

    The expression is taken as it is: ``parse("x + same")`` would be about a variable ``same``.

    >>> same("x +").expression, same("x > 0").kind
    ('x +', 'same')

    :raises UsageError: if the expression assigns, or is a list of several.
    """
    check_changes_nothing(expression)
    check_is_one(expression)
    return Requirement(expression, "same", title=f"{expression} is the same on all ranks")


def _range_of(text: str) -> tuple[str, str, str] | None:
    """Return expression and ends of ``EXPR [is] in LOW..HIGH``; None if *text* has another form."""
    found = _RANGE.search(text)
    if found is None:
        return None
    # If the first 'in' has no two ends behind it, no later 'in' has.
    at = text.find("..", found.end() + 1)
    low, high = text[found.end() : at].rstrip(), text[at + 2 :].strip()
    return (text[: found.start()], low, high) if at >= 0 and high else None


def _word_of(text: str) -> tuple[str, Kind | None]:
    """Return expression and word of ``EXPR [is] WORD``; for another form, *text* and None."""
    *before, last = text.rsplit(None, 1)
    word = next((kind for kind in _KINDS if kind == last), None)
    # Behind an operator the word is an operand: 'flag != true'.
    if not before or word is None or _OPERATOR_AT_END.search(before[0]):
        return text, None
    expression, *behind = before[0].rsplit(None, 1)
    return (expression if behind == ["is"] else before[0]), word


def comparison(text: str) -> tuple[str, str, str] | None:
    """Return subject, operator and right side of a condition that is one comparison; else None.

    >>> comparison("name == 'ab'"), comparison("x > 1 && y"), comparison("x")
    (('name', '==', "'ab'"), None, None)
    """
    subject, compared = _subject(text), _compared(text)
    return (subject, *compared[0]) if subject and compared else None


def over_ranks(text: str) -> Requirement | None:
    """Return the requirement of a text with a range or a word of ``assert``; None for others.

    >>> over_ranks("x in 0..3").kind, over_ranks("x increasing").kind, over_ranks("x > 0")
    ('within', 'increasing', None)
    """
    text = text.strip()
    is_form = bool(text) and (_range_of(text) is not None or _word_of(text)[1] is not None)
    return parse(text) if is_form else None


# -- inside ------------------------------------------------------------------------------------


def _subject(text: str) -> str | None:
    """Return the subject of a condition; None if *text* is no condition.

    The subject of one comparison is its left side. The subject of any other condition is the whole
    condition.
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
    """Return operator and right side of a condition that is one comparison; otherwise nothing."""
    text = _stripped(text)
    bare = _outermost(text)
    found = list(_COMPARISON.finditer(bare))
    if len(found) != 1 or _LOGICAL.search(_COMPARISON.sub(_blank, bare)):
        return ()
    sign = found[0][0].lower()
    return ((_FORTRAN.get(sign, sign), text[found[0].end() :].strip()),)


def operands_of(text: str, depth: int = 0) -> list[str]:
    """Return all operands that a condition compares or tests, left to right.

    :raises UsageError: if the condition is nested too deeply.
    """
    if depth > _MOST_NESTED:
        raise UsageError(f"assert: a condition may be nested at most {_MOST_NESTED} deep")
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
    """Return the operands that can be arrays: no numbers, strings or expressions with effects."""
    found: dict[str, None] = {}
    for text in operands:
        call = _CALL.match(text)
        is_call = call is not None and closing(text[call.end() :]) == len(text) - call.end() - 1
        is_section = is_call and call is not None and _SECTION.search(text, call.end())
        has_effect = (is_call and not is_section) or "++" in text or "--" in text
        if text and not has_effect and not is_typed_number(text) and text[0] not in "\"'":
            found[text] = None
    return tuple(found)


def is_typed_number(text: str) -> bool:
    """Return whether a text is a number for GDB too, to which ``inf`` and ``nan`` are names."""
    return parse_number(text) is not None and not text.isidentifier()


def check_changes_nothing(text: str) -> None:
    """Check that a condition assigns nothing; most users mean ``==``.

    :raises UsageError: if the condition assigns.
    """
    if match := _ASSIGNMENT.search(_QUOTED.sub(_blank_quoted, text)):
        raise UsageError(
            f"'{text}' would change the program: {match[0]!r} assigns, '==' compares; "
            "'set var' changes a variable"
        )


def check_is_one(text: str) -> None:
    """Check that a text is one expression and no list of them.

    >>> check_is_one("f(a, b) + m[0, 1] + std::max<int, int>(a, ',')")

    :raises UsageError: if it is a list: C computes all of it, and has the value of the last one.
    """
    if "," in _outermost(text):
        raise UsageError(
            f"'{text}' is several expressions, of which C has only the value of the last one; "
            "name one at a time"
        )


def has_ambiguous_differs(text: str) -> bool:
    """Return whether *text* has a ``/=``, which compares in Fortran and assigns in C."""
    return _DIFFERS in _QUOTED.sub(_blank_quoted, text)


def only_looks(command: str) -> bool:
    """Return whether a command from a file of another user can only look.

    The command must show values, stacks or ``info``. Its expression must not assign and not call; a
    cast counts as a call, since it looks the same. Quoted text is checked as well.

    >>> [only_looks(each) for each in ("print/x u.a[3] == 4", "bt -args", "info locals")]
    [True, True, True]
    >>> [only_looks(each) for each in ("python 1", "print f(1)", "print x /= 1", "info line f();")]
    [False, False, False, False]
    """
    word, _, rest = command.partition(" ")
    is_looking = word.partition("/")[0] in _ONLY_LOOK
    assigns = _ASSIGNMENT.search(rest) or _DIFFERS in rest
    return is_looking and not _EFFECT.search(command) and not assigns


def _check_form(text: str) -> None:
    """Check that *text* can be one expression.

    :raises UsageError: if an unknown word follows the expression.
    """
    bare = _without_brackets(_QUOTED.sub(_blank_quoted, text))
    if match := _NO_RANGE.search(bare):
        raise UsageError(f"assert: 'in' needs two ends: '{text[: match.start()]} in 0..3'")
    match = _STRAY.search(bare)
    if match is not None and match["before"] not in _PREFIXES and not match["before"].isdigit():
        raise UsageError(
            f"assert: {match['word']!r} is unknown; an expression can be followed by same, true, "
            "increasing, decreasing, nondecreasing, nonincreasing, or in LOW..HIGH"
        )


def _stripped(text: str) -> str:
    """Return *text* without surrounding blanks and brackets."""
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
    """Blank quoted text, bracketed text, and operators that only look like comparisons."""
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
    """Replace template arguments by blanks; they can contain angle and round brackets."""
    text = match[0]
    begin = _TEMPLATE_BEGIN.search(text)
    found = _TEMPLATE.match(text, begin.start()) if begin is not None else None
    if found is None:
        return text
    # Keep the text that the pattern matched behind the arguments.
    return f"{text[: found.start()]}{_blank(found)}{text[found.end() :]}"


def closing(text: str) -> int:
    """Return the position of the parenthesis that closes the first one of *text*, -1 without it."""
    depth = 0
    for at, each in enumerate(text):
        depth += (each == "(") - (each == ")")
        if not depth:
            return at
    return -1
