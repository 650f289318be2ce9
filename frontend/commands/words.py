"""Commands that find words: ``apropos`` and ``complete``."""

from __future__ import annotations

import re

from pgdb.errors import UsageError
from pgdb.frontend.commands.completion import ANSWER_LIMIT_S, LineCompleter
from pgdb.frontend.commands.options import Option, Rest
from pgdb.frontend.commands.table import COMMANDS, Call, Completes, Group, Outcome
from pgdb.records import Text


def _of_python(expression: str) -> str:
    r"""Return a regular expression of GDB's, a basic one of POSIX, as one of Python's.

    >>> _of_python("f("), _of_python(r"x\(a\|b\)"), _of_python("a|b")
    ('f\\(', 'x(a|b)', 'a\\|b')
    """
    return re.sub(
        r"\\?[(){}|+?]",
        lambda match: match[0][1:] if match[0][1:] else f"\\{match[0]}",
        expression,
    )


@COMMANDS.command(
    "apropos",
    group=Group.SESSION,
    usage="apropos REGEXP",
    summary="search the help of all commands",
    needs="a regular expression",
    rest=Rest.BEHIND,
    options=(
        Option(
            name="-v", help="show the whole help of GDB's commands", argument="whole", is_gdbs=True
        ),
    ),
)
async def _apropos(call: Call, text: str, *, whole: bool) -> Outcome:
    """Show the commands of PGDB and GDB whose name or help matches a regular expression."""
    del whole  # the GDBs read the line
    try:
        expression = re.compile(_of_python(text), re.IGNORECASE)
    except re.error as error:
        raise UsageError(f"apropos {text}: {error}") from None
    ranks = (call.ranks & call.session.state.live) or call.ranks
    answer = await call.session[ranks.first].execute_plain(call.line)
    # GDB lists its commands by its help, which lacks the options that PGDB gives some of them.
    listed = {
        word
        for each in answer.classes
        if isinstance(record := each.filled, Text)
        for line in record.text.split("\n")
        for word in line.partition(" -- ")[0].split(", ")
    }
    own = [
        f"{each.word} -- {each.summary}"
        for each in COMMANDS.commands
        if each.word not in listed and expression.search(f"{each.word} {each.help}")
    ]
    user = call.workspace.user
    own += [each for each in user.described if expression.search(each)]
    own += [each for each in user.alias_summaries.split("\n") if each and expression.search(each)]
    if own:
        call.dispatcher.say("\n".join(own))
    return answer


@COMMANDS.command(
    "complete",
    group=Group.SESSION,
    usage="complete LINE",
    summary="list the ways in which a command line can go on",
    completes=Completes.COMMAND,
)
async def _complete(call: Call) -> Outcome:
    """List how LINE can go on, as TAB does at the prompt: commands of PGDB and of the user first.

    Each line of the list is a whole command line.
    """
    line = call.argument
    completer = LineCompleter(call.workspace, limit_s=ANSWER_LIMIT_S)
    if not completer.is_gdbs(line):
        if lines := (await completer(line)).lines:
            call.dispatcher.say("\n".join(lines))
        return None
    answer = await call.view.execute_plain(call.line)
    texts = [each.record.text for each in answer.classes if isinstance(each.record, Text)]
    known = {each for text in texts for each in text.split("\n")}
    if found := [each for each in await completer.own(line) if each not in known]:
        call.dispatcher.say("\n".join(found))
    return answer
