"""Waits in a second interpreter of the process, in two threads; needs Python 3.12 or newer."""

import threading

try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters

CODE = """
import time
def work(number):
    print("ready", flush=True)
    time.sleep(3600)
work(4)
"""


def in_another():
    interpreters.run_string(interpreters.create(), CODE)


thread = threading.Thread(target=in_another)
thread.start()
in_another()
