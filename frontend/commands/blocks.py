"""Multi-line commands and user-defined commands: GDB carries them out, or the front end does.

The front end goes through a body line by line. Each line is merged and waited for as a typed one.
The ranks of an ``if`` or ``while`` whose condition is true carry out its body together; a rank on
which a line fails leaves the body, as a GDB would leave it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from msgspec.structs import replace

from pgdb.errors import CommandError, PgdbError, UsageError
from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.analysis.element_checks import text_of
from pgdb.frontend.api import gdb_commands, gdb_words
from pgdb.frontend.api.gdb_blocks import Block, Line, Node, parse, reads_lines
from pgdb.frontend.commands import block_values, bodies
from pgdb.frontend.commands.bodies import Checker, executed, needs_front_end
from pgdb.frontend.commands.breakpoint_words import not_there, ranks_with, read_numbers
from pgdb.frontend.commands.options import Option, Rest, Syntax, split_words
from pgdb.frontend.commands.table import COMMANDS, Call, Outcome
from pgdb.frontend.commands.user_commands import (
    UserCommand,
    UserCommands,
    check_name,
    read_alias,
    with_arguments,
)
from pgdb.frontend.system import deadline
from pgdb.overlay.messages import Console
from pgdb.overlay.query_options import QueryOptions
from pgdb.patterns import pattern
from pgdb.ranks import RankSet
from pgdb.records import Failure, Text

if TYPE_CHECKING:
    from pgdb.frontend.commands.dispatch import Dispatcher

MOST_CALLS = 1024
"""Maximum number of user-defined commands that are open, one inside the other; GDB's own limit."""
MOST_NESTED = 32
"""Maximum number of files and bodies that are open, one inside the other."""
_NO_NAME = pattern(r"[^\w.-]")
_STOP_HOOKS = ("hook-stop", "hookpost-stop")


async def carry_out(call: Call) -> Outcome:
    """Carry out a multi-line command, whose lines are read here."""
    word = gdb_commands.resolve(gdb_commands.innermost(call.line))
    if word in ("define", "document", "if", "while") and word == call.word and not call.argument:
        what = "a condition" if word in ("if", "while") else "the name of a command"
        raise UsageError(f"'{word}' needs {what}")
    if word == call.word == "document" and (wrong := await _not_documented(call)) is not None:
        return wrong
    if word == call.word == "define":
        _check_defined(call)
    view = call.view
    if word == call.word == "actions":
        # A GDB without the tracepoint would take the lines for commands of their own.
        number = await _tracepoint(call)
        ranks = await ranks_with(call, [number], "tracepoint")
        if not ranks:
            return not_there(call, [number], "tracepoint")
        view = call.session.ranks(ranks)
    lines = await call.dispatcher.read_block(call.line)
    if word == call.word == "document":
        if call.workspace.user.document(call.argument, "\n".join(lines)):
            return None
    elif word == call.word == "define":
        return await _define(call, parse(call.line, lines))
    elif word == call.word and word in ("if", "while"):
        block = parse(call.line, lines)
        if Checker(call.workspace.user, word, for_gdb=False).check([block]):
            await Body(call.dispatcher, word).run([block], call.ranks)
            return None
    elif word in ("python", "guile"):
        bodies.check_code(call.workspace.user, word, lines)
    answer = await view.script([call.line, *lines, "end"])
    if word == "python":
        await learn(call, "\n".join(lines))
    return answer


async def _tracepoint(call: Call) -> str:
    """Return the number of the tracepoint of ``actions``.

    :raises UsageError: if there is none.
    """
    numbers = await read_numbers(call, call.argument)
    if not numbers and not (last := call.session.breakpoint_numbers.last_traced):
        raise UsageError("No previous tracepoint: 'trace LOCATION' makes one")
    return numbers[0] if numbers else str(last)


def _check_defined(call: Call) -> None:
    """Check the name of a new command as GDB does, before its lines are read.

    :raises UsageError: if it cannot be one.
    """
    *before, last = call.argument.split()
    if (junk := _NO_NAME.search(last)) is not None:
        raise UsageError(f'Junk in argument list: "{last[junk.start() :]}"')
    if not before:
        return
    user = call.workspace.user
    prefix, first = " ".join(before), before[0]
    if user.get(prefix) is not None and prefix not in user.prefixes:
        raise UsageError(f'"{prefix}" is not a prefix command.')
    if not bodies.is_command(first, user.names) and first not in {*user.prefixes, *user.known}:
        raise UsageError(
            f'Undefined command: "{first}".  Try "help"; \'define-prefix {first}\' makes it one'
        )


async def _not_documented(call: Call) -> Answer | None:
    """Return GDB's error about a command that nobody has defined, before its text is read.

    :raises UsageError: if it is a command of GDB's.
    """
    name = call.argument
    if call.workspace.user.get(name) is not None:
        return None
    answer = await call.view.execute_plain(f"show user {name}")
    messages = {text_of(each.filled) for each in answer.errors}
    if not _failed_everywhere(answer) or len(messages) != 1:
        return None
    message = messages.pop()
    if message.startswith("Not a user command"):
        raise UsageError(f'Command "{name}" is built-in.')
    return replace(answer, command=call.line) if message.startswith("Undefined") else None


async def _define(call: Call, block: Block) -> Outcome:
    user = call.workspace.user
    name = " ".join(call.argument.split())
    is_hook = name.startswith(("hook-", "hookpost-")) and name not in _STOP_HOOKS
    for_gdb = name in _STOP_HOOKS
    needs = Checker(user, name, for_gdb=for_gdb).check(block.body)
    command = UserCommand(name, block, is_ours=(needs or is_hook) and not for_gdb)
    if command.is_ours:
        # The GDBs do not run the hooks of commands that PGDB carries out.
        check_name(name, {*user.prefixes, *gdb_words.KINDS})
        user.define(command)
        if is_hook and not _exists(user, name.partition("-")[2]):
            call.session.note(
                f"warning: Your new `{name}' command does not hook any existing command."
            )
        return None
    answer = await call.view.script(block.raw)
    if not _failed_everywhere(answer):
        user.define(command)
    return answer


def _exists(user: UserCommands, name: str) -> bool:
    """Return whether *name* is a command's full name: a hook of an abbreviation never runs."""
    if any(
        name in words for words in (gdb_words.KINDS, gdb_words.NEWER, user.prefixes, user.known)
    ):
        return True
    ours = COMMANDS.find(name)
    return user.get(name) is not None or (ours is not None and ours.word == name)


def check_inner(word: str, line: str) -> None:
    """Check the command that a command of GDB carries out: ``with``, ``thread apply`` …

    :raises UsageError: if it is one that GDB does not have.
    """
    innermost = gdb_commands.innermost(line)
    inner = gdb_words.first_word(innermost)
    if word == "eval" and reads_lines(innermost) and "\\n" in line:
        raise UsageError(
            f"'eval' gives GDB one line: the lines of '{inner}' and their 'end' follow below it"
        )
    if inner == gdb_words.first_word(line) or COMMANDS.find(inner) is None:
        return
    if inner not in gdb_words.KINDS and inner not in gdb_words.ALIASES:
        raise UsageError(
            f"'{inner}' is a command of PGDB's, and the command of '{word}' is carried out by the "
            f"ranks' GDBs; give '{inner}' alone"
        )


async def _define_prefix(call: Call) -> Outcome:
    """Carry out ``define-prefix``."""
    answer = await call.view.execute_plain(call.line)
    if not _failed_everywhere(answer) and call.argument:
        call.workspace.user.prefixes.add(" ".join(call.argument.split()))
    return answer


async def _alias(call: Call) -> Outcome:
    """Carry out ``alias``: GDB holds an alias of its own commands, the front end the others."""
    name, command = read_alias(call.argument)
    user = call.workspace.user
    is_ours = Checker(user, f"alias {name}", for_gdb=False).check([Line(0, command)])
    if (is_ours and COMMANDS.find(gdb_words.first_word(command)) is not None) or user.get(command):
        word = gdb_words.first_word(name)
        if name != word:
            raise UsageError(f"alias: {name!r} cannot name a command of PGDB's; use one word")
        if word in gdb_words.KINDS or word in gdb_words.ALIASES or COMMANDS.find(word):
            raise CommandError(f"alias: '{name}' is a command already")
        user.set_alias(name, command, in_gdb=False)
        return None
    answer = await call.view.execute_plain(call.line)
    if not _failed_everywhere(answer):
        first, *behind = name.split()
        word = gdb_words.resolve(first) if behind else first
        user.set_alias(" ".join((word, *behind)), command, in_gdb=True)
    return answer


def _failed_everywhere(answer: Answer) -> bool:
    return bool(answer.errors) and len(answer.errors) == len(answer.classes)


async def carry_out_in_gdb(dispatcher: Dispatcher, line: str, ranks: RankSet) -> Answer:
    """Carry out a user-defined command that the GDBs hold."""
    operation = Console(command=line, is_user_defined=True)
    return await dispatcher.session.ask(line, operation, ranks, of_ended=True)


async def call_user(
    dispatcher: Dispatcher, command: UserCommand, argument: str, ranks: RankSet
) -> None:
    """Carry out a user-defined command of the front end's."""
    await Body(dispatcher, command.name).run(command.block.body, ranks, argument=argument)


class _Open:
    """A body that is being carried out."""

    def __init__(
        self, title: str, nodes: Iterable[Node], ranks: RankSet, argument: str | None
    ) -> None:
        self.title = title
        self.nodes: Iterator[Node] = iter(nodes)
        self.ranks = ranks
        """The ranks that carry out its next line."""
        self.argument = argument
        """The arguments of the user-defined command; None outside of one."""
        self.loop: Block | None = None
        """The ``while`` whose condition comes next, if this is no body but the loop itself."""
        self.is_call = False
        """Whether a user-defined command begins here."""

    def filled(self, text: str) -> str:
        """Return a text with the arguments of the user-defined command."""
        return text if self.argument is None else with_arguments(text, self.argument)


class Body:
    """Executor of one body with all that it calls."""

    def __init__(self, dispatcher: Dispatcher, title: str) -> None:
        self._dispatcher = dispatcher
        self._title = title
        self._open: list[_Open] = []
        self._calls = 0

    async def run(
        self, nodes: Iterable[Node], ranks: RankSet, *, argument: str | None = None
    ) -> None:
        """Carry out the lines of a body.

        :raises CommandError: for a line that cannot be carried out, or that fails on all ranks.
        """
        dispatcher = self._dispatcher
        if dispatcher.files_open >= MOST_NESTED:
            raise CommandError(
                f"'{self._title}': {MOST_NESTED} files or commands are open already; does it carry "
                "out itself?"
            )
        self._open = [_Open(self._title, nodes, ranks, argument)]
        with dispatcher.reading_from(_no_line):
            while self._open:
                await self._step()

    async def _step(self) -> None:
        top = self._open[-1]
        node = next(top.nodes, None) if top.ranks else None
        if node is not None:
            self._dispatcher.check_interrupt(top.title, node.number)
            try:
                with deadline.renewed():
                    await self._node(top, node)
            except PgdbError as error:
                if self._dispatcher.was_interrupted or not node.number:
                    raise
                raise CommandError(f"line {node.number} of '{top.title}': {error}") from None
            return
        if top.loop is not None and top.ranks:
            with deadline.renewed():
                await self._again(top, top.loop)
            return
        self._open.pop()
        self._calls -= top.is_call

    async def _node(self, top: _Open, node: Node) -> None:
        if isinstance(node, Line):
            await self._line(top, node)
        elif node.word == "if":
            true = await self._true(top, node)
            false = top.ranks - true
            # The last one is carried out first.
            self._enter(top, node.otherwise, false)
            self._enter(top, node.body, true)
        elif node.word == "while":
            loop = _Open(top.title, (), top.ranks, top.argument)
            loop.loop = node
            self._open.append(loop)
        else:
            await self._carry_out(top, node.number, top.filled(node.text), node.raw[1:])

    def _enter(self, top: _Open, nodes: tuple[Node, ...], ranks: RankSet) -> None:
        if nodes and ranks:
            self._open.append(_Open(top.title, nodes, ranks, top.argument))

    async def _again(self, loop: _Open, block: Block) -> None:
        """Enter the body of a loop with the ranks whose condition is still true."""
        self._dispatcher.check_interrupt(loop.title, block.number)
        loop.ranks = await self._true(loop, block)
        self._enter(loop, block.body, loop.ranks)

    async def _line(self, top: _Open, line: Line) -> None:
        dispatcher, user = self._dispatcher, self._dispatcher.workspace.user
        if line.text in ("loop_break", "loop_continue"):
            self._leave_loop(top, is_over=line.text == "loop_break")
            return
        text = top.filled(line.text)
        if top.argument is not None and "$arg" in text and gdb_words.resolve(text) == "eval":
            await self._eval(top, line.number, text, top.argument)
            return
        found = user.find(user.expanded(text, dispatcher.has), dispatcher.has)
        if found is None or not needs_front_end(user, found[0]):
            await self._carry_out(top, line.number, text)
            return
        command, argument = found
        self._calls += 1
        if self._calls >= (most := dispatcher.session.settings.most_calls(MOST_CALLS)):
            raise CommandError(
                f"{most} user-defined commands are open; '{command.name}' calls itself without an "
                "end ('set max-user-call-depth' is the limit)"
            )
        called = _Open(command.name, command.block.body, top.ranks, argument)
        called.is_call = True
        self._open.append(called)

    async def _carry_out(
        self, top: _Open, number: int, line: str, more: Iterable[str] = ()
    ) -> None:
        rest, focus = iter(more), self._dispatcher.workspace.focus

        async def read(_: str) -> str | None:
            return next(rest, None)

        with self._dispatcher.reading_from(read, is_new=False):
            outcome = await self._dispatcher.run_on(line, top.ranks)
        if (now := self._dispatcher.workspace.focus) != focus:
            for each in self._open:
                each.ranks = now
        if isinstance(outcome, Answer):
            failed = (
                each.ranks
                for each in outcome.errors
                if not isinstance(each.filled, Failure)
                or gdb_commands.ends_body(outcome.command, each.filled.message)
            )
            self._leave(RankSet.union(failed), top, number, line)

    async def _eval(self, top: _Open, number: int, line: str, argument: str) -> None:
        """Carry out an ``eval`` whose text names arguments of the command when it is formatted."""
        texts, rest = await block_values.formatted(self._dispatcher.session, top.ranks, line)
        await self._show_rest(rest)
        self._leave(top.ranks - RankSet.union(ranks for ranks, _ in texts), top, number, line)
        # The last one is carried out first.
        for ranks, text in reversed(texts):
            filled = Line(number, with_arguments(text.rstrip("\n"), argument))
            self._open.append(_Open(top.title, (filled,), ranks & top.ranks, None))

    async def _true(self, top: _Open, block: Block) -> RankSet:
        """Return the ranks on which a condition is true; those without an answer leave."""
        condition = top.filled(block.argument)
        line = f"{block.word} {condition}"
        found = await block_values.condition(self._dispatcher.session, top.ranks, condition)
        await self._show_rest(replace(found.answer, command=line))
        self._leave(top.ranks - found.true - found.false, top, block.number, line)
        return found.true

    async def _show_rest(self, answer: Answer) -> None:
        if answer.errors or answer.missing:
            await self._dispatcher.show(answer)

    def _leave(self, ranks: RankSet, top: _Open, number: int, line: str) -> None:
        """Take ranks out of all bodies, since a line has failed on them."""
        ranks &= self._open[0].ranks
        if not ranks:
            return
        for each in self._open:
            each.ranks -= ranks
        if not self._open[0].ranks:
            raise CommandError(f"'{line}' has failed; the lines behind it are left out")
        at = f" (line {number} of '{top.title}')" if number else ""
        self._dispatcher.say(f"[{ranks}] left '{self._title}' after '{line}'{at}")

    def _leave_loop(self, top: _Open, *, is_over: bool) -> None:
        leaving = top.ranks
        for each in reversed(self._open):
            if each.loop is not None:
                if is_over:
                    each.ranks -= leaving
                return
            if each.is_call:
                break
            each.ranks -= leaving
        word = "loop_break" if is_over else "loop_continue"
        raise CommandError(f"'{word}' is in no loop")


async def _code(call: Call) -> Outcome:
    """Carry out one line of Python or Guile, unless it gives a refused command to GDB."""
    Checker(call.workspace.user, call.line, for_gdb=True).check([Line(0, call.line)])
    answer = await call.view.execute_plain(call.line)
    await learn(call, call.line)
    return answer


async def learn(call: Call, code: str) -> None:
    """Ask a GDB for its commands after code that can have made some."""
    if "gdb.Command" not in code and not any("define" in line for _, line in executed(code)):
        return
    one = call.session[call.ranks.first]
    for each in (await one.execute_plain("complete ")).classes:
        if isinstance(each.record, Text):
            call.workspace.user.learn(each.record.text)


# GDB's own command, whose help stays GDB's: the command table has no entry for it.
_PATH = Syntax(
    (Option(name="-r", help="begin with the directories of the start", argument="resets"),),
    Rest.BEHIND,
)


async def _path(call: Call) -> Outcome:
    """Carry out ``path``, which has an effect on programs that GDB starts only.

    ``path -r`` of the PGDB of 2014 removes what an earlier one has added.
    """
    parsed = _PATH.parse("path", call.argument)
    if parsed.values["resets"]:
        answer = await call.view.machine_query(
            "path", split_words(parsed.rest), options=QueryOptions(resets=True)
        )
    else:
        answer = await call.view.execute_plain(call.line)
    call.session.note("'path' has no effect on the job: its launcher finds the program")
    return answer


OWN = {
    "path": _path,
    "alias": _alias,
    "define-prefix": _define_prefix,
    "python": _code,
    "python-interactive": _code,
    "guile": _code,
}
"""The commands of GDB that the front end takes note of."""


async def _no_line(_: str) -> str | None:
    return None


async def run_hook(dispatcher: Dispatcher, word: str, ranks: RankSet, *, after: bool) -> None:
    """Carry out the hook of a command; a hook inside itself does not run again, as in GDB."""
    user = dispatcher.workspace.user
    hook = user.hook(word, after=after)
    if hook is None:
        return
    user.hooks_open.add(hook.name)
    try:
        await call_user(dispatcher, hook, "", ranks)
    except PgdbError as error:
        raise CommandError(f"{hook.name}: {error}") from None
    finally:
        user.hooks_open.discard(hook.name)
