"""Wrong types of arguments of the API: refused in words, before anything is sent."""

from __future__ import annotations

import contextlib
import functools
import inspect
import numbers
import os
import types
import typing
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar, Union

from pgdb.errors import UsageError
from pgdb.frontend.system import durations
from pgdb.ranks import RankSet

C = TypeVar("C", bound=type)
F = TypeVar("F", bound=Callable[..., Any])

_WORDS: dict[Any, str] = {
    str: "a text",
    bytes: "bytes",
    int: "a whole number",
    float: "a number",
    bool: "True or False",
    type(None): "None",
    RankSet: "a RankSet",
    Path: "a Path",
    os.PathLike: "a path",
    Callable: "a function",
}
_SEQUENCE = "a sequence of texts, such as ['a', 'b']"
_ACCEPTED: dict[Any, tuple[type, ...]] = {
    int: (numbers.Integral,),
    float: (numbers.Real,),
    bytes: (bytes, bytearray, memoryview),
}
_TIME = "_s"
"""The end of the names of times in seconds."""


def checks_arguments(cls: C) -> C:
    """Let the public methods of a class refuse arguments whose types are not those declared.

    The methods raise :class:`UsageError`, which names the argument. Checked are texts, bytes,
    numbers, words of a list, sets of ranks and other classes of PGDB, paths, functions, sequences
    of texts and protocols with ``runtime_checkable``. Parameters of other types are left to the
    methods.
    """
    for name, function in list(vars(cls).items()):
        if inspect.isfunction(function) and not name.startswith("_"):
            setattr(cls, name, checks_call(function))
    return cls


def checks_call(function: F) -> F:
    """Let a function refuse arguments as :func:`checks_arguments` does for methods."""
    signature = inspect.signature(function)

    @functools.cache
    def expected() -> dict[str, tuple[Any, ...]]:
        # The type of a result may be one that only a type checker imports.
        declared = types.SimpleNamespace(
            __annotations__={
                name: each.annotation
                for name, each in signature.parameters.items()
                if each.annotation is not inspect.Parameter.empty
            }
        )
        hints = typing.get_type_hints(declared, function.__globals__)
        return {name: kinds_in(hint) for name, hint in hints.items()}

    def check(arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
        bound = None
        with contextlib.suppress(TypeError):
            bound = signature.bind(*arguments, **named)
        if bound is None:
            return  # Python names the argument that is missing
        kinds = expected()
        for name, value in bound.arguments.items():
            if wanted := kinds.get(name):
                is_many = signature.parameters[name].kind is inspect.Parameter.VAR_POSITIONAL
                for each in value if is_many else (value,):
                    check_kind(f"{function.__name__}: {name}", each, wanted)
                    _check_range(f"{function.__name__}: {name}", each, wanted)

    @functools.wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        check(arguments, named)
        return function(*arguments, **named)

    @functools.wraps(function)
    async def call_later(*arguments: Any, **named: Any) -> Any:
        check(arguments, named)
        return await function(*arguments, **named)

    return typing.cast(F, call_later if inspect.iscoroutinefunction(function) else call)


def check_kind(title: str, value: Any, wanted: Sequence[Any]) -> None:
    """Check that a value is of one of the *wanted* types.

    :raises UsageError: if it is of none; the error begins with *title*.
    """
    if not any(_is_of(value, each) for each in wanted):
        words = [_words(each) for each in wanted]
        if len(words) == 1:
            raise UsageError(f"{title} is {value!r}, and not {words[0]}")
        raise UsageError(f"{title} is {value!r}, and neither {' nor '.join(words)}")


def _check_range(title: str, value: Any, wanted: Sequence[Any]) -> None:
    """Check that a time is one, by the unit at the end of its name.

    A script may compute the rest of a time, so that shorter ones than a user can type are right.
    """
    if title.endswith(_TIME) and float in wanted and value is not None:
        if not 0 <= value <= durations.MOST_S:  # NaN is in no range
            most = f"{durations.MOST_S:.0e}".replace("e+0", "e")
            raise UsageError(f"{title} is {value!r}, and not a time from 0 to {most} seconds")


def kinds_in(hint: Any) -> tuple[Any, ...]:
    """Return the types of a union one by one, and any other type as the only one."""
    if typing.get_origin(hint) in (Union, types.UnionType):
        return tuple(kind for each in typing.get_args(hint) for kind in kinds_in(each))
    return (hint,)


def _is_of(value: Any, wanted: Any) -> bool:
    origin = typing.get_origin(wanted)
    if origin in (Sequence, tuple):  # a list stands for a tuple, too
        # A text is a sequence of texts too, of its characters.
        is_sequence = isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray)
        kinds = kinds_in(typing.get_args(wanted)[0])
        return is_sequence and all(any(_is_of(each, kind) for kind in kinds) for each in value)
    if origin is Literal:
        return isinstance(value, str) and value in typing.get_args(wanted)
    wanted = origin or wanted
    if wanted not in _WORDS and not _is_protocol(wanted) and not _is_ours(wanted):
        return True
    is_bool = isinstance(value, bool) or type(value).__name__ in ("bool", "bool_")  # NumPy's own
    if wanted is bool or is_bool:
        return wanted is bool and is_bool  # True is no count, no rank and no time
    return isinstance(value, _ACCEPTED.get(wanted, wanted))


def _is_protocol(wanted: Any) -> bool:
    """Return whether a type is a protocol that a value can be checked against."""
    return getattr(wanted, "_is_runtime_protocol", False)


def _is_ours(wanted: Any) -> bool:
    """Return whether a type is a class of PGDB."""
    return isinstance(wanted, type) and wanted.__module__.partition(".")[0] == "pgdb"


def _words(wanted: Any) -> str:
    if _is_protocol(wanted):
        text: str = (wanted.__doc__ or wanted.__name__).splitlines()[0].rstrip(".")
        return text[:1].lower() + text[1:]
    if typing.get_origin(wanted) is Literal:
        names = [repr(each) for each in typing.get_args(wanted)]
        return names[0] if len(names) == 1 else f"one of {', '.join(names)}"
    if _is_ours(wanted) and wanted not in _WORDS:
        article = "an" if wanted.__name__[0] in "AEIOU" else "a"
        return f"{article} {wanted.__name__}"
    return _WORDS.get(typing.get_origin(wanted) or wanted, _SEQUENCE)
