"""Keys of the prompt that prompt_toolkit and readline treat differently."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from prompt_toolkit.filters import is_searching
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.key_binding.bindings import search

from pgdb.frontend.commands.completion import Candidates

MOST_LISTED = 100
"""Limit for the candidates that are listed."""
_LEAVE_SEARCH = ("left", "right", "home", "end", "c-a", "c-b", "c-e", "c-f", "c-d", "c-k")
_PANE_KEYS = (
    (("c-x", "a"), "toggle"),
    (("c-x", "A"), "toggle"),
    (("c-x", "c-a"), "toggle"),
    (("c-x", "1"), "src"),
    (("c-x", "2"), "split"),
    (("pageup",), "up"),
    (("pagedown",), "down"),
)
_NO_SPACE = "/.>:=(@"
"""A candidate with one of these at its end goes on without a blank."""
_BREAKS = " \t.:>&*(),[]{}+-=<|\"'"


def prompt_keys(
    complete: Callable[[str], Awaitable[Candidates]],
    wait_for_late: Callable[[str], Awaitable[bool]],
    show: Callable[[list[str]], None],
    pane_key: Callable[[str], None],
) -> KeyBindings:
    """Return the keys of the prompt.

    Enter runs the line that an incremental search has found. A key that moves the cursor or edits
    ends the search, and then does its work on the line. TAB completes as far as all candidates of
    *complete* agree, and shows them with *show* where they do not. If there are none in time, it
    does so once *wait_for_late* returns, unless the user has typed on. *pane_key* is called
    with the action of GDB's keys for its screen: toggle, src, split, up, down.
    """
    last_tab = 0
    bindings = KeyBindings()
    bindings.add("enter")(search.accept_search_and_accept_input)

    def leave(event: KeyPressEvent) -> None:
        search.accept_search.call(event)
        for key in reversed(event.key_sequence):
            event.key_processor.feed(key, first=True)

    for key in _LEAVE_SEARCH:
        bindings.add(key, filter=is_searching)(leave)

    for keys, action in _PANE_KEYS:
        bindings.add(*keys)(lambda event, action=action: pane_key(action))

    @bindings.add("tab")
    def _tab(event: KeyPressEvent) -> None:
        # prompt_toolkit leaves the coroutine of a handler without an end where the line ends at
        # once, as with keys that were typed before the prompt was there. A task has one.
        event.app.create_background_task(_complete(event))

    async def _complete(event: KeyPressEvent) -> None:
        nonlocal last_tab
        last_tab = tab = last_tab + 1
        buffer = event.app.current_buffer
        document = buffer.document
        has_late = True
        while has_late:
            before = document.text_before_cursor
            candidates = await complete(before)
            if buffer.document != document or event.app.is_done or tab != last_tab:
                return  # the user has typed on: these candidates are of another line
            text, more = finished(before, candidates)
            buffer.insert_text(text)
            if more:
                show(more)
            has_late = not candidates.lines and await wait_for_late(before)

    return bindings


def finished(text: str, candidates: Candidates) -> tuple[str, list[str]]:
    """Return the text to insert behind *text*, and the words to be listed if there is none."""
    lines = candidates.lines
    if not lines:
        return "", []
    new = candidates.common(text)[len(text) :]
    if len(lines) == 1 and not candidates.is_cut:
        return new + " " * (lines[0][-1:] not in _NO_SPACE), []
    if new:
        return new, []
    start = text.rfind(" ") + 1
    if not text.startswith("-", start):
        start = max(text.rfind(each) for each in _BREAKS) + 1
    words = [each[start:] for each in lines[:MOST_LISTED]]
    if len(lines) > MOST_LISTED or candidates.is_cut:
        words.append("…")
    return "", words


def in_columns(words: list[str], width: int, height: int = MOST_LISTED) -> str:
    """Return words in columns, down and then across, as readline lists them.

    The last words are left out where there are more than *height* lines.

    >>> in_columns(["a", "bb", "c"], 8), in_columns(["a", "bb", "c"], 4, 2)
    ('a   c\\nbb', 'a\\n…')
    """
    widest = max(map(len, words)) + 2
    columns = max(1, width // widest)
    if len(words) > columns * height:
        words = [*words[: columns * height - 1], "…"]
    count = -(-len(words) // columns)
    lines = ("".join(f"{each:<{widest}}" for each in words[row::count]) for row in range(count))
    return "\n".join(line.rstrip() for line in lines)
