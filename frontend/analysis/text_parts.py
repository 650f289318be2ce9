"""Texts of several lines compared part by part: equal lines once, and the parts that differ.

GDB answers most commands with lines: a register, a thread, a library on each. The lines of all
classes are aligned with those of the largest class. Lines that correspond are compared word by
word, and values after `` = `` field by field, as :mod:`pgdb.frontend.analysis.diff` does.
"""

from __future__ import annotations

import difflib
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

MOST_LINES = 4000
"""Most lines of a text that is compared."""
_MOST_CHARACTERS = 1 << 21
"""Most characters of all texts that are compared with one another."""
_MOST_UNLIKE_LINES = 400
"""Most lines that are aligned where two texts have different numbers of lines."""
_MOST_EFFORT = 200_000
"""Most comparisons of lines, so that texts that are not alike are shown without a delay."""
_LABEL_WIDTH = 24
_UNKNOWN_BOUNDS = "?"
_LABEL_WORDS = 2
_ABSENT_SHARE = 3
"""Texts are not merged if more than one of so many lines has nothing in common."""

_WORD = pattern(r'(?:"(?:[^"\\]|\\.)*"|<[^<>\n]*>|\[ [^\[\]\n]*\]|\S)+')
_NUMBER = pattern(r"[-+]?(?:0x)?[0-9][0-9a-fA-F.]*(?:e[-+]?[0-9]+)?\Z")
_NUMBERS = pattern(r"(?:0x)?[0-9][0-9a-fA-F]*")
_FRAME = pattern(r"#[0-9]+ +(?:\S+ in )?(.+?) \(")
# Marks of a selected line are not part of its first word.
_START = pattern(rf"(?:[\s*>{SLOT}]|=>)*(\S*)")
_MARKS = frozenset({"*", "=>", ">", "="})
# "1: x = 5", "$1 = 5" and "x = 5"; a word of prose before "=" would be no name.
_NAMED = pattern(r"(\s*(?:[0-9]+: (?:/\w+ )?)?(\S(?:[^={\n]*[^\s={])?) = )(?=\S)")
HISTORY = pattern(r"^\$[0-9]+(?= = )", re.M)
"""The name of a value of GDB's history at the beginning of a line."""
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


class Merged(msgspec.Struct, frozen=True):
    """Texts whose lines correspond."""

    members: tuple[int, ...]
    """Indices of the texts."""
    common: str
    """The lines, with ``…`` for each part that differs."""
    places: tuple[Place, ...]
    has_fields: bool = False
    """Whether a line is a structure or an array, compared field by field."""


def merge_texts(texts: Sequence[Said]) -> list[Merged]:
    """Return groups of texts whose lines correspond; a text that is like no other is alone.

    A text alone has no places, and an empty common part.
    """
    texts = _without_history(texts)
    left = list(range(len(texts)))
    groups: list[Merged] = []
    lines = [_lines(each) for each in texts]
    too_much = sum(len(each.text) for each in texts) > _MOST_CHARACTERS
    effort = _MOST_EFFORT
    while left:
        reference = max(left, key=lambda number: len(texts[number].ranks))
        alike = {reference: list(range(len(lines[reference])))}
        if not too_much and len(lines[reference]) <= MOST_LINES:
            for number in left:
                if number != reference and effort > 0:
                    effort -= _effort(lines[reference], lines[number])
                    pairs = _aligned(lines[reference], lines[number])
                    if pairs is not None:
                        alike[number] = pairs
        merged = _merged(texts, lines, alike) if len(alike) > 1 else None
        if merged is None and len(alike) > 2:
            # Texts that are like it must not stay apart because of one that is hardly like it.
            masks = [_mask(each.text) for each in lines[reference]]
            alike = {
                number: pairs
                for number, pairs in alike.items()
                if [_mask(each.text) for each in lines[number]] == masks
            }
            merged = _merged(texts, lines, alike) if len(alike) > 1 else None
        if merged is None:
            alike = {reference: []}
            merged = Merged((reference,), "", ())
        groups.append(merged)
        left = [number for number in left if number not in alike]
    return groups


def _without_history(texts: Sequence[Said]) -> Sequence[Said]:
    """Return texts without the numbers of GDB's history of values, where these differ.

    A rank that has printed more than others counts further, so that all its lines would differ.
    Lists that begin with the same number keep them, also if one has more values than another.
    """
    rows = zip(*(HISTORY.findall(each.text) for each in texts), strict=False)
    if all(len({*row}) == 1 for row in rows):
        return texts
    return [
        msgspec.structs.replace(each, text=HISTORY.sub(ANY_HISTORY, each.text)) for each in texts
    ]


def _effort(one: Sequence[Said], other: Sequence[Said]) -> int:
    """Return about the number of comparisons that an alignment takes."""
    return len(one) if len(one) == len(other) else len(one) * len(other)


def _lines(said: Said) -> list[Said]:
    used = 0
    found = []
    for text in said.text.rstrip("\n").split("\n"):
        count = text.count(SLOT)
        found.append(Said(said.ranks, text, said.slots[used : used + count]))
        used += count
    return found


@functools.lru_cache(maxsize=1 << 14)
def _mask(line: str) -> str:
    """Return a line without its numbers, for the alignment; its first word stays as it is."""
    start = _START.match(line)
    assert start is not None
    return start[1] + _NUMBERS.sub("#", line[start.end() :])


def _aligned(reference: Sequence[Said], other: Sequence[Said]) -> list[int] | None:
    """Return for each line of *other* the number of its line in *reference*, -1 for none.

    Return None if most lines do not correspond.
    """
    if _frames(reference) != _frames(other):
        return None
    mine = [_mask(each.text) for each in reference]
    theirs = [_mask(each.text) for each in other]
    if len(mine) == len(theirs):
        pairs = list(range(len(theirs)))
    elif max(len(mine), len(theirs)) > _MOST_UNLIKE_LINES:
        return None
    else:
        pairs = _paired(mine, theirs)
    alike = sum(at >= 0 and _are_alike(mine[at], theirs[i]) for i, at in enumerate(pairs))
    return pairs if 2 * alike >= max(len(mine), len(theirs)) else None


def _frames(lines: Sequence[Said]) -> list[str]:
    """Return the functions of the frames in a text.

    The variables below a frame are those of that frame, so other stacks are not alike.
    """
    return [match[1] for each in lines if (match := _FRAME.match(each.text)) is not None]


def _paired(mine: Sequence[str], theirs: Sequence[str]) -> list[int]:
    pairs = [-1] * len(theirs)
    matcher = difflib.SequenceMatcher(None, mine, theirs, autojunk=False)
    for kind, i1, i2, j1, j2 in matcher.get_opcodes():
        if kind == "equal" or (kind == "replace" and i2 - i1 == j2 - j1):
            pairs[j1:j2] = range(i1, i2)
        elif kind == "replace":
            at = i1
            for j in range(j1, j2):
                found = next((i for i in range(at, i2) if _key(mine[i]) == _key(theirs[j])), None)
                if found is not None:
                    pairs[j] = found
                    at = found + 1
    return pairs


def _key(masked: str) -> str:
    return masked.partition(" ")[0]


def _are_alike(one: str, other: str) -> bool:
    """Return whether two masked lines correspond: they have a half of their words in common."""
    if one == other:
        return True
    mine, theirs = one.split(), other.split()
    same = sum(a == b for a, b in zip(mine, theirs, strict=False))
    if mine and theirs and len(mine) != len(theirs):
        behind = zip(reversed(mine), reversed(theirs), strict=False)
        same += sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], behind))
    return 2 * same >= min(len(mine), len(theirs)) and bool(same)


def _merged(
    texts: Sequence[Said], lines: Sequence[Sequence[Said]], alike: dict[int, list[int]]
) -> Merged | None:
    members = sorted(alike)
    common: list[str] = []
    places: list[Place] = []
    all_ranks = RankSet.union(texts[number].ranks for number in members)
    has_fields = False
    unlike = 0
    for number, row in enumerate(_rows(lines, alike), 1):
        here = RankSet.union(each.ranks for each in row)
        line = _Line(row, all_ranks - here, number)
        unlike += line.common == DIFFERENT
        if 2 * len(here) >= len(all_ranks):
            common.append(line.common)
        places += line.places
        has_fields = has_fields or line.has_fields
    if _ABSENT_SHARE * unlike > len(common):
        return None
    return Merged(tuple(members), "\n".join(common), tuple(places), has_fields)


def _rows(lines: Sequence[Sequence[Said]], alike: dict[int, list[int]]) -> Iterator[list[Said]]:
    """Yield the lines that correspond, in the order of the reference, which *alike* has first."""
    reference = next(iter(alike))
    rows: list[list[Said]] = [[each] for each in lines[reference]]
    # Lines before line N of the reference that it does not have, by their masked text.
    further: list[dict[tuple[str, int], list[Said]]] = [{} for _ in range(len(rows) + 1)]
    for number, pairs in alike.items():
        if number == reference:
            continue
        at = 0
        seen: dict[str, int] = {}
        for line, pair in zip(lines[number], pairs, strict=True):
            if pair >= 0:
                rows[pair].append(line)
                at = pair + 1
                seen = {}
            else:
                mask = _mask(line.text)
                seen[mask] = seen.get(mask, 0) + 1
                further[at].setdefault((mask, seen[mask]), []).append(line)
    for at, row in enumerate((*rows, None)):
        yield from further[at].values()
        if row is not None:
            yield row


class _Line:
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
