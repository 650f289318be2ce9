"""Lines of several texts that correspond: their common part, and the parts that differ. No I/O."""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Iterator, Sequence

import msgspec

from pgdb.frontend.analysis.diff import NONE, Place, compare
from pgdb.frontend.analysis.paths import place_of
from pgdb.frontend.analysis.values import Group, Leaf, parse
from pgdb.merge.normalize import DIFFERENT, join_slots
from pgdb.patterns import pattern
from pgdb.ranks import RankSet
from pgdb.records import SLOT

_LABEL_WIDTH = 24
_UNKNOWN_BOUNDS = "?"
_LABEL_WORDS = 2
_WORD = pattern(r'(?:"(?:[^"\\]|\\.)*"|<[^<>\n]*>|\[ [^\[\]\n]*\]|\S)+')
_NUMBER = pattern(r"[-+]?(?:0x)?[0-9][0-9a-fA-F.]*(?:e[-+]?[0-9]+)?\Z")
_MARKS = frozenset({"*", "=>", ">", "="})
# "1: x = 5", "$1 = 5" and "x = 5"; a word of prose before "=" would be no name.
_NAMED = pattern(r"(\s*(?:[0-9]+: (?:/\w+ )?)?(\S(?:[^={\n]*[^\s={])?) = )(?=\S)")
ANY_HISTORY = f"${DIFFERENT}"
"""The name of a value of GDB's history, whose number differs between the ranks."""
# "=> 0x401136 <main+4>:\tmov %eax,%edi"; addresses of data have no such blanks before them.
_INSTRUCTION = pattern(rf"(?:=> |   )(?:{SLOT}|0x[0-9a-f]+)(?P<place>(?: <[^<>\n]*>)?):\t")
# "  name = a, value = {1, 2}": a line of GDB's machine interface.
_FIELDS = pattern(r"\s*[a-z][\w-]* = [^\s{][^=]*, [a-z][\w-]* = ")
_NAMES = ("name", "id")
# "zmm0           {v8_float = {0x0 …": the value of a register.
_REGISTER = pattern(r"((\w+) {2,})(?=\{)")
_BEFORE_VALUE = "=(:<[,@"
_BEHIND_VALUE = "),;:>]"


class Said(msgspec.Struct, frozen=True):
    """A text, or a line of it, of some ranks."""

    ranks: RankSet
    text: str
    slots: tuple[str, ...] = ()


class Line:
    """The common part of lines that correspond, and the places that differ."""

    def __init__(self, row: Sequence[Said], absent: RankSet, number: int) -> None:
        self.places: list[Place] = []
        self.has_fields = False
        self._number = number
        distinct = _joined(row)
        if absent:
            texts = [(each.ranks, _filled(each).strip()) for each in distinct]
            words = [_words(each) for each in distinct]
            label = self._label(words[0], len(words[0]))
            self.places.append(Place(label, _ordered([*texts, (absent, NONE)])))
            self.common = DIFFERENT
        elif len(distinct) == 1:
            self.common = _filled(distinct[0])
        else:
            self.common = (
                self._instructions(distinct)
                or self._fields(distinct)
                or self._values(distinct)
                or self._words_of(distinct)
            )

    def _instructions(self, distinct: Sequence[Said]) -> str:
        """Compare instructions as a whole; return nothing for other lines.

        The words of two instructions at different places have nothing to do with one another.
        """
        matches = [_INSTRUCTION.match(each.text) for each in distinct]
        texts = []
        for each, match in zip(distinct, matches, strict=True):
            if match is None:
                return ""
            at = match.start("place")
            count = each.text.count(SLOT, 0, at)
            rest = Leaf(each.text[at:], each.slots[count:]).filled
            texts.append((each.ranks, re.sub(r"\s+", " ", rest.strip())))
        start = distinct[0].text[:3]
        label = "=>" if start == "=> " else f"line {self._number}"
        self.places.append(Place(label, _ordered(texts)))
        return f"{start}{DIFFERENT}"

    def _fields(self, distinct: Sequence[Said]) -> str:
        """Compare lines of fields, ``name = a, value = {1, 2}``; return nothing for others."""
        if any(_FIELDS.match(each.text) is None for each in distinct):
            return ""
        nodes = []
        for each in distinct:
            node = parse(f"{{{each.text.strip()}}}", (*each.slots, _UNKNOWN_BOUNDS))
            if not isinstance(node, Group):
                return ""
            nodes.append((each.ranks, node))
        self.has_fields = True
        comparison = compare(nodes)
        text = distinct[0].text
        key, _, value = text.strip().partition(", ")[0].partition(" = ")
        is_same = all(each.text.strip().startswith(f"{key} = {value}, ") for each in distinct)
        label = "" if not is_same else value if key in _NAMES else f"{key} {value}"
        for place in comparison.places:
            path = f"{label} {place.path.removeprefix('.')}".strip()
            self.places.append(Place(path, place.texts))
        return f"{text[: len(text) - len(text.lstrip())]}{comparison.common[1:-1]}"

    def _values(self, distinct: Sequence[Said]) -> str:
        """Compare structures and arrays behind an equal name; return nothing for others."""
        named = [_NAMED.match(each.text) or _REGISTER.match(each.text) for each in distinct]
        names = {(match[1], match[2]) if match is not None else ("", "") for match in named}
        if len(names) > 1:
            return ""
        start, name = names.pop()
        if SLOT in start:
            return ""
        name = "" if name == ANY_HISTORY else name
        nodes = []
        for each in distinct:
            value = each.text[len(start) :]
            # Most lines are no structures, and parsing all of them would take long.
            # The text does not have the lower bounds of arrays of Fortran.
            slots = (*each.slots, _UNKNOWN_BOUNDS)
            node = parse(value, slots) if "{" in value or value.startswith("(") else None
            if not isinstance(node, Group):
                return ""
            nodes.append((each.ranks, node))
        self.has_fields = True
        comparison = compare(nodes)
        for place in comparison.places:
            path = place_of(name, place.path) if name and place.path else f"{name}{place.path}"
            self.places.append(Place(path, place.texts))
        return f"{start}{comparison.common}"

    def _words_of(self, distinct: Sequence[Said]) -> str:
        words = [_words(each) for each in distinct]
        first = words[0]
        counts = {len(each) for each in words}
        if len(counts) == 1:
            differs = [len({each[at].text for each in words}) > 1 for at in range(len(first))]
            runs = list(_runs(differs))
        else:
            before = _common_length([[word.text for word in each] for each in words])
            behind = _common_length(
                [[word.text for word in reversed(each[before:])] for each in words]
            )
            runs = [(before, behind)]
        parts: list[str] = []
        at = 0
        for begin, end in runs:
            if len(counts) == 1:
                spans = [each[begin:end] for each in words]
            else:
                spans = [each[begin : len(each) - end] for each in words]
                end = len(first) - end
            parts += (_joined_word([each[i] for each in words]) for i in range(at, begin))
            texts = [_span(each) for each in spans]
            before_value, behind_value = _trimmed(texts)
            cut = [text[before_value : len(text) - behind_value].strip() for text in texts]
            label = self._label(first, begin, texts[0][:before_value])
            pairs = zip(distinct, cut, strict=True)
            self.places.append(
                Place(label, _ordered([(each.ranks, text or NONE) for each, text in pairs]))
            )
            gap = first[begin].gap if begin < len(first) else " "
            behind_text = texts[0][len(texts[0]) - behind_value :] if behind_value else ""
            parts.append(f"{gap}{texts[0][:before_value]}{DIFFERENT}{behind_text}")
            at = end
        # The words behind the last run are equal, and counted from the end.
        rest = len(first) - at
        ends = [each[len(each) - rest :] for each in words]
        parts += (_joined_word([each[i] for each in ends]) for i in range(rest))
        return "".join(parts)

    def _label(self, words: Sequence[_Word], end: int, before: str = "") -> str:
        """Return the label of the part behind word *end*: the first words of its line."""
        is_of_numbers = end < len(words) and _NUMBER.match(words[end].text) is not None
        named = _NAMED.match("".join(word.gap + word.text for word in words[:end]) + " x")
        name = before[:-1].rpartition("(")[2] if before.endswith("=") else ""
        if named is not None and SLOT not in named[2] and len(named[2]) <= _LABEL_WIDTH:
            return f"{named[2]} {name}".strip()
        found: list[str] = []
        is_word = False
        for word in words[:end]:
            text = word.text.strip(":,=")
            is_no_name = not text or text in _MARKS or SLOT in text
            is_number = _NUMBER.match(text) is not None
            if is_word and is_number and not name and is_of_numbers:
                name = f"word {end + 1}"
            if found and (is_no_name or len(" ".join((*found, text))) > _LABEL_WIDTH):
                break
            if is_word and is_number:
                break
            if not is_no_name:
                found.append(text)
                is_word = is_word or not is_number
            if len(found) == _LABEL_WORDS:
                break
        if is_word:
            return " ".join((*found, name)).strip()
        return f"line {self._number} {name or (f'word {end + 1}' if end else '')}".strip()


class _Word(msgspec.Struct, frozen=True):
    gap: str
    """The blanks before the word."""
    text: str
    slots: tuple[str, ...]


def _words(line: Said) -> list[_Word]:
    found = []
    used = at = 0
    for match in _WORD.finditer(line.text):
        count = match[0].count(SLOT)
        slots = line.slots[used : used + count]
        found.append(_Word(line.text[at : match.start()], match[0], slots))
        used += count
        at = match.end()
    return found


def _runs(differs: Sequence[bool]) -> Iterator[tuple[int, int]]:
    at = 0
    for is_different, members in itertools.groupby(differs):
        count = len(list(members))
        if is_different:
            yield at, at + count
        at += count


def _common_length(rows: Sequence[Sequence[str]]) -> int:
    count = 0
    for column in zip(*rows, strict=False):
        if len(set(column)) > 1:
            break
        count += 1
    return count


def _joined(row: Sequence[Said]) -> list[Said]:
    """Return the different texts of a row, the most common first."""
    members: dict[str, list[Said]] = {}
    for each in row:
        members.setdefault(each.text, []).append(each)
    found = [
        Said(
            RankSet.union(each.ranks for each in same),
            text,
            functools.reduce(join_slots, (each.slots for each in same)),
        )
        for text, same in members.items()
    ]
    return sorted(found, key=lambda each: (-len(each.ranks), each.ranks.first))


def _joined_word(same: Sequence[_Word]) -> str:
    slots = functools.reduce(join_slots, (each.slots for each in same))
    return same[0].gap + Leaf(same[0].text, slots).filled


def _span(words: Sequence[_Word]) -> str:
    """Return words as a text; many blanks, which align columns, become two."""
    text = "".join(f"{each.gap}{Leaf(each.text, each.slots).filled}" for each in words)
    return re.sub(r"\s{2,}|\t", "  ", text.strip())


def _trimmed(texts: Sequence[str]) -> tuple[int, int]:
    """Return the lengths of what all texts begin and end with: ``rank=`` and ``)``."""
    shortest = min(map(len, texts))
    equal = 0
    while equal < shortest and len({text[equal] for text in texts}) == 1:
        equal += 1
    before = max((texts[0].rfind(each, 0, equal) + 1 for each in _BEFORE_VALUE), default=0)
    behind = 0
    while (
        behind < shortest - before
        and len({text[-behind - 1] for text in texts}) == 1
        and texts[0][-behind - 1] in _BEHIND_VALUE
    ):
        behind += 1
    # An opening bracket that closes inside of the value belongs to it.
    while behind:
        value = texts[0][before : len(texts[0]) - behind]
        if all(value.count(a) == value.count(b) for a, b in ("()", "[]", "<>")):
            break
        behind -= 1
    return before, behind


def _ordered(texts: Sequence[tuple[RankSet, str]]) -> tuple[tuple[RankSet, str], ...]:
    """Return texts with equal ones joined, the most common first."""
    members: dict[str, list[RankSet]] = {}
    for ranks, text in texts:
        members.setdefault(text, []).append(ranks)
    pairs = [(RankSet.union(sets), text) for text, sets in members.items()]
    return tuple(sorted(pairs, key=lambda pair: (-len(pair[0]), pair[0].first)))


def _filled(said: Said) -> str:
    return Leaf(said.text, said.slots).filled
