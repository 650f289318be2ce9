#!/usr/bin/env python3
"""Threads that wait for each other in the way that the argument names."""

import os
import sys
import threading

OUTER = threading.Lock()
INNER = threading.RLock()
SILENT, _WRITING = os.pipe()


class Store:
    def __init__(self):
        self.guard = threading.Lock()
        self.taken = threading.Event()

    def keep(self):
        with OUTER, self.guard:
            self.taken.set()
            os.read(SILENT, 1)

    def keep_until_released(self):
        self.guard.acquire()
        try:
            self.taken.set()
            os.read(SILENT, 1)
        finally:
            self.guard.release()

    def own(self):
        with INNER:
            self.taken.set()
            os.read(SILENT, 1)

    def release_inside(self):
        with self.guard:
            self.guard.release()
            self.taken.set()
            os.read(SILENT, 1)
            self.guard.acquire()


STORE = Store()


def started(target):
    thread = threading.Thread(target=target, name="holder", daemon=True)
    thread.start()
    STORE.taken.wait()
    return thread


def main(way):
    if way == "with":
        started(STORE.keep)
        say()
        with STORE.guard:
            pass
    elif way == "acquire":
        started(STORE.keep_until_released)
        say()
        STORE.guard.acquire()
    elif way == "owned":
        started(STORE.own)
        say()
        with INNER:
            pass
    elif way == "join":
        holder = started(STORE.keep)
        say()
        holder.join()
    elif way == "itself":
        with OUTER:
            say()
            OUTER.acquire()
    elif way == "released":
        started(STORE.release_inside)
        STORE.guard.acquire()
        say()
        STORE.guard.acquire()


def say():
    os.write(1, b"ready\n")


main(sys.argv[1])
