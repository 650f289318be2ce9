"""Text that GDB prints while its rank runs: of ``dprintf``, ``hook-stop``, signals not to stop at.

GDB mixes it with its own announcements, and MI does not mark either. Announcements of a stop come
together with the ``*stopped``, so text is kept until GDB answers a question: GDB answers between
two events, never within one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from pgdb.patterns import pattern

_NOTICE = pattern(
    r"\[(?:New (?:Thread|LWP|process|inferior) |Thread .* exited\]|LWP \d+ exited\]"
    r"|(?:Switching|Attaching|Detaching) |Inferior \d+ |Thread debugging using libthread_db)"
    r"|Using host libthread_db library |process \d+ is executing new program: "
    r"|Reading symbols from |Run till exit from |Continuing(?:\.| with signal )|Couldn't get regist"
    r"|\(no debugging symbols found\)|(?:Program|Thread .*) stopped\.\Z"
)
"""Lines about threads, processes and files, which differ from rank to rank."""
_HIT = pattern(
    r'(?:Thread [\d.]+ (?:"[^\n]*" )?hit )?'
    r"(?:Temporary |Hardware |Hardware read |Hardware access \(read/write\) |Masked )?"
    r"(?:[Bb]reak|[Cc]atch|[Ww]atch)point \d+(?:[,:]| \(|$| deleted because the program has left)"
)
_HALF_HIT = pattern(r"(?:Temporary c|C)atchpoint \d+ \([^\n]*\), \Z")
"""GDB 13.1 begins the line for a caught signal twice."""
_SIGNAL = pattern(
    r'(?:Thread [\d.]+ (?:"[^\n]*" )?|Program )(?:received signal |terminated with signal )'
)
_NO_LONGER = "The program no longer exists."
_PLACE = pattern(
    r"(?:0x[0-9a-f]+\t)?\d+\t"
    # The array in a display of Fortran has parentheses, too: "2: a = (1, 2)".
    r"|(?!\d+: )(?:#0 +)?(?:0x[0-9a-f]+ in |0x[0-9a-f]+\t)?[^\s(][^\n]* \(.*\)"
    r"(?: at [^\n]*:\d+| from [^\n]*)?\Z|0x[0-9a-f]+ in "
)
"""A frame, or a line of source."""
_DISPLAY = pattern(r"(\d+): (?:x/\w+ \S|[^\n]*\S = )")
"""The first line of a ``display``."""
_USUAL = pattern(
    r'\n?(?:Thread [\d.]+ (?:"[^\n]*" )?hit )?Breakpoint \d+, [^\n]* at [^\n]*:\d+\n'
    r"\d+\t[^\n]*\n\Z"
)
"""All that GDB prints at a breakpoint, where nobody else prints."""
_LONGEST = 1 << 20
"""Number of characters of a line from which it is passed on in pieces."""


class RunOutput:
    """The text of one rank's present run."""

    def __init__(self, ask: Callable[[Callable[[], None]], None], show: Callable[[str], None]):
        """Make one for a GDB.

        :param ask: asks GDB a question, and calls its argument once that is answered.
        :param show: takes each line.
        """
        self._ask = ask
        self._show = show
        self._pieces: list[str] = []
        self._size = 0
        self._has_lines = False
        self._is_asked = False

    def take(self, text: str) -> None:
        """Take text that GDB has printed while the rank runs, as much as came at once."""
        self._pieces.append(text)
        self._size += len(text)
        if not self._has_lines:
            self._has_lines = "\n" in text or self._size > _LONGEST
        if self._has_lines and not self._is_asked:
            self._is_asked = True
            self._ask(self._on_answer)

    @property
    def has_lines(self) -> bool:
        """Whether lines wait for an answer to the question."""
        return self._has_lines

    def _take_all(self) -> str:
        pieces, self._pieces, self._size, self._has_lines = self._pieces, [], 0, False
        return "".join(pieces)

    def _on_answer(self) -> None:
        self._is_asked = False
        *lines, part = self._take_all().split("\n")
        if len(part) > _LONGEST:
            lines.append(part)
        elif part:
            self._pieces, self._size = [part], len(part)
        self._show_all(lines)

    def stop(self, *, is_signal: bool, shows_displays: bool) -> None:
        """Show what was printed before the announcement of a stop, which has come now.

        :param is_signal: a signal has stopped or ended the rank.
        :param shows_displays: values of ``display`` follow the announcement.
        """
        text = self._take_all()
        if not text or _USUAL.match(text):
            return
        lines = text.split("\n")
        if not lines[-1]:
            lines.pop()
        self._show_all(without_announcement(lines, is_signal, shows_displays=shows_displays))

    def _show_all(self, lines: Sequence[str]) -> None:
        for line in lines:
            if line.strip() and not _NOTICE.match(line):
                self._show(line)


def own_text(text: str) -> str:
    """Return text that was printed around a stop without GDB's notices and its announcement.

    >>> own_text("[New Thread 0x7f71114c16c0 (LWP 16086)]\\nmine\\n12\\treturn sum;\\n")
    'mine'
    """
    lines = [each for each in text.split("\n") if each.strip() and not _NOTICE.match(each)]
    return "\n".join(without_announcement(lines, is_signal=True, shows_displays=False))


def without_announcement(
    lines: Sequence[str], is_signal: bool, *, shows_displays: bool
) -> list[str]:
    """Return the lines without those by which GDB announces a stop.

    >>> lines = ["mine", "", "Thread 1 hit Breakpoint 2, f () at a.c:3", "3\\t  return 0;", "his"]
    >>> without_announcement(lines, False, shows_displays=False)
    ['mine', '', 'his']
    """
    kept = [each for each in lines if not _HALF_HIT.match(each)]
    if is_signal and (at := _last(_SIGNAL, kept)) is not None:
        del kept[at]
        if kept[at : at + 1] == [_NO_LONGER]:
            del kept[at]
    # The last ones: a program's own text may look like an announcement.
    begin = _last(_HIT, kept)
    end = _last(_PLACE, kept, at_least=begin or 0)
    if end is None:
        end = begin
    elif begin is None:
        begin = end
        if end and kept[end][:1].isdigit() and "\t" in kept[end] and _is_frame(kept[end - 1]):
            begin = end - 1
    if begin is None or end is None:
        # A step of MI has its place in the "*stopped" only; its displays are printed all the same.
        return kept[: _begin_of_displays(kept)] if shows_displays else kept
    return kept[:begin] + ([] if shows_displays else kept[end + 1 :])


def _begin_of_displays(lines: Sequence[str]) -> int:
    """Return the index of the first of the displays at the end; without any, the number of lines.

    GDB prints displays by ascending number. Lines between two of them belong to a value.

    >>> _begin_of_displays(["3: mine = 1", "1: i = 5", "2: /x point = {", "  x = 0x1", "}"])
    1
    """
    begin = len(lines)
    number: int | None = None
    for at in reversed(range(len(lines))):
        match = _DISPLAY.match(lines[at])
        if match is None:
            continue
        if number is not None and int(match[1]) >= number:
            break
        begin, number = at, int(match[1])
    return begin


def _is_frame(line: str) -> bool:
    return _PLACE.match(line) is not None and "\t" not in line


def _last(searched: re.Pattern[str], lines: Sequence[str], *, at_least: int = 0) -> int | None:
    for at in range(len(lines) - 1, at_least - 1, -1):
        if searched.match(lines[at]):
            return at
    return None
