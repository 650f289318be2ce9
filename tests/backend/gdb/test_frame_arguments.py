"""The arguments of frames as GDB's settings ask for; the answers are of GDB 13.1."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import pytest

from pgdb.backend.gdb import decode
from pgdb.backend.gdb import frame_arguments as module
from pgdb.backend.gdb.frame_arguments import PRESENCE, FrameArguments
from pgdb.backend.gdb.mi import Result, cut
from pgdb.errors import GdbError
from pgdb.records import Frame

SCALARS, RESTORED = "-gdb-set print max-depth 0", "-gdb-set print max-depth 20"
# A Fortran procedure at its entry, and a C++ function, at a depth of 0.
FORTRAN = (
    r'^done,stack-args=[frame={level="0",args=[{name="x_max",value="10"},'
    r'{name="density",value="(...)"},{name="label",value="'
    r"'hello'"
    r'"}]},frame={level="1",args=[]}]'
)
CXX = (
    r'^done,stack-args=[frame={level="0",args=[{name="domain",value="{...}"},'
    r'{name="p",value="0x7fffffffd670"},'
    r'{name="v",value="std::vector of length 3, capacity 3 = {...}"}]}]'
)
NAMES = '^done,stack-args=[frame={level="0",args=[name="n",name="a"]},frame={level="1",args=[]}]'

FRAMES = (Frame(level=0, function="sweep"), Frame(level=1, function="main"))


class Gdb:
    """A GDB that answers from a table, else with ``^done``."""

    def __init__(self, answers: Mapping[str, str] | None = None) -> None:
        self.answers = dict(answers or {})
        self.sent: list[str] = []

    def send(self, *commands: str) -> list[asyncio.Future[Result]]:
        return [self._answer(command) for command in commands]

    def _answer(self, command: str) -> asyncio.Future[Result]:
        self.sent.append(command)
        line = cut(self.answers.get(command, "^done"))
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        future.set_result(Result(kind=line.name, payload=line.payload))
        return future


def ask(gdb: Gdb, *changed: tuple[str, str]) -> Callable[[str], decode.Variable | None]:
    """Return the arguments of level 0 by name after settings were changed."""

    async def carry_out() -> dict[str, decode.Variable]:
        arguments = FrameArguments()
        for name, value in changed:
            arguments.on_notice("cmd-param-changed", {"param": name, "value": value})
        _, asked = arguments.ask(gdb.send, "-stack-list-frames", where="@")
        values = arguments.shown(FRAMES, await arguments.result(asked))
        await asyncio.sleep(0)
        return {each.name: each for each in values[0]}

    return asyncio.run(carry_out()).get


def value(found: Callable[[str], decode.Variable | None], name: str) -> str:
    variable = found(name)
    assert variable is not None, name
    return variable.value


def test_by_default_whole_objects_are_left_out() -> None:
    gdb = Gdb({"-stack-list-arguments 1": FORTRAN})
    found = ask(gdb)
    assert gdb.sent == ["-stack-list-frames", SCALARS, "-stack-list-arguments 1", RESTORED]
    assert value(found, "x_max") == "10" and value(found, "label") == "'hello'"
    assert value(found, "density") == "..."


def test_what_a_printer_says_of_an_object_stays() -> None:
    found = ask(Gdb({"-stack-list-arguments 1": CXX}))
    assert value(found, "domain") == "..." and value(found, "p") == "0x7fffffffd670"
    assert value(found, "v") == "std::vector of length 3, capacity 3 = {...}"


def test_all_is_asked_as_the_user_has_set_it() -> None:
    gdb = Gdb({"-stack-list-arguments 1": FORTRAN})
    ask(gdb, ("print frame-arguments", "all"), ("print max-depth", "3"))
    assert gdb.sent == ["-stack-list-frames", "-stack-list-arguments 1"]


def test_the_users_own_depth_is_restored() -> None:
    gdb = Gdb({"-stack-list-arguments 1": FORTRAN})
    ask(gdb, ("print max-depth", "-1"), ("print elements", "4"))
    assert gdb.sent[-1] == "-gdb-set print max-depth -1"


@pytest.mark.parametrize("mode", ["none", "presence"])
def test_without_values_only_names_are_asked_for(mode: str) -> None:
    gdb = Gdb({"-stack-list-arguments 0": NAMES})
    found = ask(gdb, ("print frame-arguments", mode))
    assert gdb.sent == ["-stack-list-frames", "-stack-list-arguments 0"]
    if mode == "none":
        assert value(found, "n") == value(found, "a") == "..."
    else:
        assert found("...") == PRESENCE[0] and found("n") is None


def test_an_interrupt_that_hits_the_restoring_command_leaves_no_other_depth() -> None:
    gdb = Gdb({"-stack-list-arguments 1": CXX, RESTORED: '^error,msg="Quit"'})
    ask(gdb)
    assert gdb.sent.count(RESTORED) == 2


def test_a_gdb_without_that_setting_is_asked_once() -> None:
    unknown = '^error,msg="No symbol \\"max\\" in current context."'
    gdb = Gdb({"-stack-list-arguments 1": CXX, SCALARS: unknown, RESTORED: unknown})
    ask(gdb)
    assert gdb.sent.count(RESTORED) == 1


TEXT = '0x4a2b "' + "a" * 180 + '"'


@pytest.mark.parametrize(
    ("changed", "length"),
    [
        ((), 100),
        ((("print elements", "4"),), 104),
        ((("print elements", "150"),), len(TEXT)),
        ((("print elements", "0"),), len(TEXT)),
        ((("print frame-arguments", "all"),), len(TEXT)),
    ],
)
def test_a_long_string_takes_a_line_unless_the_user_asks_for_more(
    changed: tuple[tuple[str, str], ...], length: int
) -> None:
    listed = (
        '^done,stack-args=[frame={level="0",args=[{name="t",value="%s"},{name="n",value="1"}]}]'
    )
    quoted = TEXT.replace('"', '\\"')
    found = ask(Gdb({"-stack-list-arguments 1": listed % quoted}), *changed)
    text = value(found, "t")
    assert len(text) == length and value(found, "n") == "1"
    assert text == (TEXT if length == len(TEXT) else TEXT[: length - 4] + '"...')


@pytest.mark.parametrize("is_alive", [True, False])
def test_frames_are_shown_without_arguments_that_gdb_does_not_print_in_time(
    monkeypatch: pytest.MonkeyPatch, is_alive: bool
) -> None:
    monkeypatch.setattr(module, "LIMIT_S", 0.0)

    async def carry_out() -> None:
        asked: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        arguments = FrameArguments(
            lambda: is_alive, lambda: asked.set_exception(GdbError("it computes"))
        )
        if not is_alive:
            with pytest.raises(GdbError, match="it computes"):
                await arguments.result(asked)
            return
        listed = await arguments.result(asked)
        assert arguments.shown(FRAMES, listed) == {0: PRESENCE, 1: PRESENCE}

    asyncio.run(carry_out())
