#!/usr/bin/env python3
"""Run the agent of PGDB without a debugger: SOURCE FOLDER [walk], orders as JSON on standard input.

The first orders hold from the start; each hit takes the next ones. The hits are printed as JSON.
With "walk" the functions of python_walk.py run in place of those here.
"""

import atexit
import gc
import json
import os
import sys
import threading

SOURCE, FOLDER = sys.argv[1:3]
KEY = 1 << 20
orders = json.load(sys.stdin)
hits = []


class Thing:
    def twice(self, value):
        doubled = value * 2
        return doubled


def leaf(value):
    first = value + 1
    second = first * 2
    return second


def outer(count):
    total = 0
    for each in range(count):
        total += leaf(each)
    squares = [each * each for each in range(count)]
    total += Thing().twice(total)
    return total + len(squares)


def numbers(count):
    left = count
    while left:
        yield left
        left -= 1


def counted(function):
    def inner(*values):
        return function(*values)

    return inner


def marked(text):
    def mark(function):
        function.text = text
        return function

    return mark


class Later(Thing):
    level = 1

    @property
    @marked(
        "a height",
    )
    def height(self):
        return self.level


@counted
def wrapped(value):
    return value


def fails():
    raise ValueError("no value")


def give_order():
    if orders:
        wanted = orders.pop(0)
        wanted["points"] = {int(slot): each for slot, each in wanted["points"].items()}
        with open(FOLDER + "/commands", "w") as file:
            file.write(repr(wanted))


def call(page, bits):
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename == "<pgdb>":
        frame = frame.f_back
    with open(FOLDER + "/report") as file:
        report = eval(file.read())
    name, line = (frame.f_code.co_name, frame.f_lineno) if frame else ("", 0)
    slots = [bit + 31 * (page - KEY) for bit in range(31) if bits >> bit & 1]
    hits.append({"slots": slots, "function": name, "line": line, "report": repr(report)})
    give_order()
    raise OSError("refused")


thread_hook = threading.excepthook
scope = {"__name__": "<pgdb>"}
with open(SOURCE) as source:
    exec(compile(source.read(), "<pgdb>", "exec"), scope)
scope["_call"] = call
scope["Agent"].is_traced = lambda self: True
give_order()
scope["install"](FOLDER, KEY)
if sys.argv[3:] == ["walk"]:
    import python_walk

    result = python_walk.run()
else:
    result = outer(3)
    leaf(5)
    list(numbers(2))
    wrapped(Later().height)
    worker = threading.Thread(target=leaf, args=(7,))
    worker.start()
    worker.join()
if any(each.get("catch") for each in orders) or sys.excepthook is not sys.__excepthook__:
    try:
        fails()
    except ValueError as error:
        sys.excepthook(type(error), error, error.__traceback__)
    for target in (fails, sys.exit):
        worker = threading.Thread(target=target)
        worker.start()
        worker.join()
    atexit.register(fails)
    try:
        atexit._run_exitfuncs()
    except ValueError:
        pass  # Python 3.8 and 3.9 raise the last exception
agent = getattr(sys, "_pgdb_agent", None)
traced = [sys.gettrace(), threading._trace_hook]
is_traced = any(each is not None for each in traced)
reported = {"hits": hits, "result": result, "report": None, "left": [], "is_traced": is_traced}
if agent is not None:
    with open(FOLDER + "/report") as file:
        reported["report"] = file.read()
    agent.remove()
monitoring = getattr(sys, "monitoring", None)
left = [sys.gettrace(), getattr(sys, "_pgdb_agent", None), threading._trace_hook]
left += gc.callbacks
left += [monitoring.get_tool(each) for each in range(6)] if monitoring else []
left += [] if sys.excepthook is sys.__excepthook__ else [sys.excepthook]
left += [] if sys.unraisablehook is sys.__unraisablehook__ else [sys.unraisablehook]
left += [] if threading.excepthook is thread_hook else [threading.excepthook]
left += os.listdir(FOLDER) if os.path.isdir(FOLDER) else []
reported["left"] = [str(each) for each in left if each is not None]
print(json.dumps(reported))
