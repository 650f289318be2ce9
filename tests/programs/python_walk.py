"""Functions with the constructs of Python that leave a line otherwise than at its end."""

import asyncio
import contextlib
import functools


def wrapped(function):
    @functools.wraps(function)
    def wrapper(*args):
        before = len(args)
        result = function(*args)
        return result + before - 1

    return wrapper


@wrapped
def decorated(value):
    more = value + 1
    return more


def inlined(count):
    squares = [each * each for each in range(count)]
    for each in range(count): squares.append(each)  # fmt: skip  # noqa: E701
    return len(squares)


def numbers(count):
    left = count
    while left:
        yield left
        left -= 1
    return "no number is left"


def consumes():
    total = 0
    for each in numbers(2):
        total += each
    return total


def drains():
    for _ in numbers(1):
        pass


async def waits(value):
    first = await asyncio.sleep(0, value)
    second = await inner(first)
    return second


async def inner(value):
    await asyncio.sleep(0.001)
    return value * 2


def fails(value):
    if value:
        raise ValueError(value)
    return value


def catches(value=1):
    try:
        fails(value)
    except ValueError as error:
        text = str(error)
    finally:
        done = [value]
    return text, done


@contextlib.contextmanager
def context():
    opened = True
    yield opened
    opened = False


def uses():
    with context() as opened:
        seen = opened
    return seen


async def streams(count):
    for each in range(count):
        await asyncio.sleep(0)
        yield each


async def reads():
    found = []
    async for each in streams(2):
        found.append(each)
    return found


def run():
    found = [decorated(3), inlined(2), consumes(), drains()]
    found += [asyncio.run(waits(5)), asyncio.run(waits(6)), catches(), uses()]
    found.append(asyncio.run(reads()))
    return found
