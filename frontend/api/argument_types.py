"""Wrong types of arguments of the synchronous API: refused in words, before anything is sent."""

from __future__ import annotations

import functools
import inspect
import numbers
import types
import typing
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar, Union

from pgdb.errors import UsageError
from pgdb.ranks import RankSet

C = TypeVar("C", bound=type)

_WORDS: dict[Any, str] = {
    str: "a text",
    int: "a whole number",
    float: "a number",
    bool: "True or False",
    type(None): "None",
    RankSet: "a RankSet",
    Path: "a Path",
}
_ACCEPTED: dict[Any, tuple[type, ...]] = {int: (numbers.Integral,), float: (numbers.Real,)}
_TEXTS = "a sequence of texts"


def checks_arguments(cls: C) -> C:
    """Let the public methods of a class refuse arguments whose types are not those declared.

    The methods raise :class:`UsageError`, which names the argument. Types of parameters other than
    texts, numbers, sets of ranks, paths and sequences of texts are left to the methods.
    """
    for name, function in list(vars(cls).items()):
        if inspect.isfunction(function) and not name.startswith("_"):
            setattr(cls, name, _checked(function))
    return cls


def _checked(function: Callable[..., Any]) -> Callable[..., Any]:
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
        return {name: tuple(_members(hint)) for name, hint in hints.items()}

    @functools.wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        try:
            bound = signature.bind(*arguments, **named)
        except TypeError:
            return function(*arguments, **named)  # Python names the argument that is missing
        kinds = expected()
        for name, value in bound.arguments.items():
            if wanted := kinds.get(name):
                is_many = signature.parameters[name].kind is inspect.Parameter.VAR_POSITIONAL
                for each in value if is_many else (value,):
                    _check(f"{function.__name__}: {name}", each, wanted)
        return function(*arguments, **named)

    return call


def _check(title: str, value: Any, wanted: Sequence[Any]) -> None:
    if any(_is_of(value, each) for each in wanted):
        return
    words = [_words(each) for each in wanted]
    if len(words) == 1:
        raise UsageError(f"{title} is {value!r}, and not {words[0]}")
    raise UsageError(f"{title} is {value!r}, and neither {' nor '.join(words)}")


def _members(hint: Any) -> Iterator[Any]:
    """Yield the types of a union one by one; of a literal, the types of its values."""
    origin = typing.get_origin(hint)
    if origin in (Union, types.UnionType):
        for each in typing.get_args(hint):
            yield from _members(each)
    elif origin is Literal:
        yield from dict.fromkeys(map(type, typing.get_args(hint)))
    else:
        yield hint


def _is_of(value: Any, wanted: Any) -> bool:
    if typing.get_origin(wanted) is Sequence and typing.get_args(wanted) == (str,):
        is_sequence = isinstance(value, Sequence) and not isinstance(value, bytes | bytearray)
        return is_sequence and all(isinstance(each, str) for each in value)
    if wanted not in _WORDS:
        return True
    if wanted is bool:  # NumPy has a type of its own
        return isinstance(value, int) or type(value).__name__ in ("bool", "bool_")
    return isinstance(value, _ACCEPTED.get(wanted, wanted))


def _words(wanted: Any) -> str:
    return _WORDS.get(wanted, _TEXTS)
