#!/usr/bin/env python3
"""Variables of enclosing functions that hide globals; a test reads them from outside."""

import os

hidden = "global"
plain = "global"


def wait():
    os.write(1, b"ready\n")
    os.read(0, 1)


def outer(taken):
    hidden = "outer"
    later = [taken]

    def inner(own):
        def innermost():
            wait()
            return own

        unset_before = innermost()
        return hidden, later, taken, unset_before

    return inner("argument")


class Body:
    hidden = "class"
    made = outer("taken")
