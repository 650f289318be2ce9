"""The panes above the prompt: layout, tui, winheight, refresh, and the words that scroll."""

from __future__ import annotations

from pgdb.errors import CommandError, UsageError
from pgdb.frontend.commands.options import is_number
from pgdb.frontend.commands.table import COMMANDS, Call, Group, Outcome, no_argument
from pgdb.frontend.commands.workspace import PANES

_LEAST, _MOST = 3, 200
_WINDOWS = ("src", "asm", "regs")
"""GDB's names of windows that are panes here."""
_SCROLLS = {
    "+": (1, 0, "scroll the pane above the prompt down, by N rows"),
    "-": (-1, 0, "scroll the pane above the prompt up, by N rows"),
    ">": (0, 1, "scroll the text of the pane above the prompt, to its right part"),
    "<": (0, -1, "scroll the text of the pane above the prompt back to the left"),
}
_MOST_SCROLLED = 1_000_000
"""Limit for one step, in rows or columns."""


@COMMANDS.command(
    "layout",
    group=Group.STACK,
    usage="layout src|asm|split|regs|next|prev",
    summary="show source, instructions or registers above the prompt",
)
async def _layout(call: Call) -> Outcome:
    """Show a pane above the prompt, which follows stops, frames and the focus.

    src     the source around the selected frame of the lowest stopped rank of the focus; the margin
            has all ranks whose selected frames are in this file (▶ at the line of this rank), and
            breakpoints (b where they are disabled, else B)
    asm     the instructions around its program counter, with the same margin
    split   the source, and below it the instructions
    regs    its registers

    'tui disable' and Ctrl-X A remove the pane, Ctrl-X A shows it again; 'winheight N' sets its
    height. Ctrl-X 1 is 'layout src', Ctrl-X 2 is 'layout split'. Page up, page down,
    '+ N', '- N', '> N' and '< N' scroll the pane, until another place is selected.
    """
    words = [each for each in (*PANES, "next", "prev") if each.startswith(call.argument)]
    if not call.argument or len(words) != 1:
        listed = ", ".join(PANES)
        raise UsageError(
            f"layout: one of {listed}, next, prev is needed; 'tui disable' removes the pane"
        )
    pane = call.workspace.pane
    _check(call)
    if words[0] in PANES:
        pane.show(words[0])
    else:
        step = 1 if words[0] == "next" else -1
        pane.show(PANES[(PANES.index(pane.last) + step) % len(PANES)])
    return None


@COMMANDS.command(
    "tui",
    group=Group.STACK,
    usage="tui enable|disable",
    summary="show or remove the pane above the prompt",
)
async def _tui(call: Call) -> Outcome:
    """Show the pane of 'layout', or remove it. The terminal stays as it was."""
    word, _, rest = call.argument.partition(" ")
    if len(word) > 1 and "enable".startswith(word):
        _check(call)
        call.workspace.pane.show(call.workspace.pane.last)
    elif len(word) > 1 and "disable".startswith(word):
        call.workspace.pane.hide()
    elif len(word) > 1 and "layout".startswith(word):
        return await call.dispatcher.dispatch(f"layout {rest}".rstrip(), call.ranks)
    elif len(word) > 1 and "reg".startswith(word):
        return await call.dispatcher.dispatch("layout regs", call.ranks)
    else:
        raise UsageError(f"tui {call.argument}".rstrip() + ": enable or disable is needed")
    return None


@COMMANDS.command(
    "winheight",
    group=Group.STACK,
    usage="winheight [src|asm|regs] [+|-]LINES",
    summary="set the height of the pane above the prompt",
    aliases=("wh",),
)
async def _winheight(call: Call) -> Outcome:
    """Set the height of the pane of 'layout', or change it by '+N' or '-N' lines."""
    words = call.argument.split()
    if len(words) == 2 and not any(each.startswith(words[0]) for each in _WINDOWS):
        raise UsageError(
            f"winheight: {words[0]!r} is no pane; there are {', '.join(_WINDOWS)}, of one height"
        )
    text = words[-1] if len(words) in (1, 2) else ""
    number = text.lstrip("+-")
    if not is_number(number) or len(text) - len(number) > 1:
        raise UsageError(f"winheight: {call.argument!r} is no number of lines")
    pane = call.workspace.pane
    change = int(number) if text[0] != "-" else -int(number)
    height = pane.height + change if text != number else change
    if not _LEAST <= height <= _MOST:
        raise UsageError(f"winheight: {height} lines; {_LEAST} to {_MOST} are possible")
    pane.height = height
    return None


@COMMANDS.command("refresh", group=Group.STACK, summary="draw the pane above the prompt again")
async def _refresh(call: Call) -> Outcome:
    """Ask for the pane's content anew; it follows by itself otherwise."""
    no_argument(call)
    return None


async def _scroll(call: Call) -> Outcome:
    """Scroll the pane of 'layout' by N, or by one, until another place is selected."""
    text = call.argument or "1"
    if not is_number(text) or int(text) > _MOST_SCROLLED:
        raise UsageError(f"{call.word}: {text!r} is no number of rows or columns")
    pane = call.workspace.pane
    if not pane.kind:
        raise CommandError(f"'{call.word}' scrolls the pane; 'layout src' shows one")
    down, right, _ = _SCROLLS[call.word]
    pane.scroll(down * int(text), right * int(text))
    return None


for _word, (_, _, _summary) in _SCROLLS.items():
    COMMANDS.command(_word, group=Group.STACK, usage=f"{_word} [N]", summary=_summary)(_scroll)


def info_win(call: Call) -> str:
    """Return the answer to ``info win``."""
    pane = call.workspace.pane
    if not pane.kind:
        return "No pane is shown; 'layout src' shows one above the prompt."
    return f"The pane above the prompt is {pane.kind}, with {pane.height} rows."


def _check(call: Call) -> None:
    """Check that the user interface can show a pane.

    :raises CommandError: if it cannot.
    """
    if not call.workspace.pane.is_possible:
        raise CommandError(
            f"'{call.word}' needs a terminal that can move its cursor; 'list' shows the source"
        )
