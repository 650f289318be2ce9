"""A loop of small calls; for each line of input it makes one round, and writes its CPU time as a
ratio to that of a loop without calls, so that a slower processor makes no difference."""

import sys
import time

CALLS = 100_000


def small(value):
    doubled = value * 2
    return doubled + 1


def never():
    return small(-1)


def rounds():
    for _ in sys.stdin:
        begun_s = time.thread_time()
        total = 0
        for value in range(CALLS):
            total += small(value)
        between_s = time.thread_time()
        for value in range(CALLS):
            total += value * 2 + 1
        end_s = time.thread_time()
        print((between_s - begun_s) / (end_s - between_s), flush=True)
    if not total:
        never()


print("ready", flush=True)
rounds()
