"""Arrays of character arrays, such as ``char names[3][16]``, in a text of GDB.

GDB prints the parts of a string and the strings of an array with the same commas between them:
``{"one", '\\000' <repeats 12 times>, "two", '\\000' <repeats 12 times>}``. All rows have the same
width, which shows where each of them ends.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from pgdb.patterns import pattern

_PIECE = pattern(
    r"(?P<before>(?:,\s+)?)"
    r"(?:(?:u8|[LuU])?(?P<quote>[\"'])(?P<text>(?:\\.|(?!(?P=quote))[^\\])*)(?P=quote)"
    r"(?P<repeats>,? <repeats (?P<count>\d{1,9}) times>)?"
    r"|<repeats (?P<rows>\d{1,9}) times>)"
)
_CHARACTER = pattern(r"\\(?:[0-7]{1,3}|.)|.")
_MOST_WIDTHS = 64
_MOST_PIECES = 4000


class TextRow(msgspec.Struct, frozen=True):
    """One row, or a run of equal ones."""

    before: str
    text: str
    after: str = ""
    count: int = 1


class _Piece(msgspec.Struct, frozen=True):
    before: str
    text: str
    length: int
    """Number of characters; 0 for the mark of repeated rows."""
    is_run: bool
    rows: int = 0


def rows_of_text(text: str, *, is_fortran: bool) -> list[TextRow] | None:
    """Return the rows in the text between the brackets of an array of characters.

    Return None if it is no such text, or nothing shows where rows end. GDB leaves out the last
    character of a row in C if it is a NUL.

    >>> found = rows_of_text("'one', ' ' <repeats 12 times>, 'a name of 15 ch'", is_fortran=True)
    >>> [row.text for row in found]
    ["'one', ' ' <repeats 12 times>", "'a name of 15 ch'"]
    """
    pieces = _pieces_of(text, is_fortran)
    if pieces is None or len(pieces) > _MOST_PIECES:
        return None
    widths = []
    width = 0
    for piece in pieces[:_MOST_WIDTHS]:
        if not piece.length:
            break
        width += piece.length
        widths += [width] if is_fortran else [width, width + 1]
    for width in sorted(set(widths)):
        rows = _split(pieces, width, is_fortran)
        if rows is not None:
            return rows if sum(row.count for row in rows) > 1 else None
    return None


def _pieces_of(text: str, is_fortran: bool) -> list[_Piece] | None:
    found: list[_Piece] = []
    at = 0
    while at < len(text):
        match = _PIECE.match(text, at)
        if match is None or bool(match["before"]) != bool(at):
            return None
        if match["rows"]:
            piece = _Piece(
                match["before"], match[0][len(match["before"]) :], 0, True, int(match["rows"])
            )
        else:
            length = len(_CHARACTER.findall(match["text"]))
            is_quoted = is_fortran or match["quote"] == '"'
            if not length or (match["count"] and length != 1) or not (is_quoted or match["count"]):
                return None
            is_run = match["count"] is not None
            length = int(match["count"]) if is_run else length
            piece = _Piece(match["before"], match[0][len(match["before"]) :], length, is_run)
        found.append(piece)
        at = match.end()
    return found


def _split(pieces: Sequence[_Piece], width: int, is_fortran: bool) -> list[TextRow] | None:
    """Return the rows of one width; None if the pieces are no such rows."""
    rows: list[TextRow] = []
    part: list[_Piece] = []
    length = 0
    for number, piece in enumerate(pieces):
        if piece.rows:
            if part or not rows or rows[-1].count > 1:
                return None
            rows[-1] = msgspec.structs.replace(
                rows[-1], after=piece.before + piece.text, count=piece.rows
            )
            continue
        if part and not (piece.is_run or part[-1].is_run):
            return None  # GDB would have printed two quoted parts of a row as one
        part.append(piece)
        length += piece.length
        following = pieces[number + 1] if number + 1 < len(pieces) else None
        ends = length == width or (
            not is_fortran
            and length == width - 1
            and not (following is not None and following.length == 1 and piece.is_run)
        )
        if length > width:
            return None
        if ends:
            text = part[0].text + "".join(each.before + each.text for each in part[1:])
            rows.append(TextRow(part[0].before, text))
            part, length = [], 0
    return None if part else rows
