"""``python -m pgdb``, and the program ``pgdb``."""

import gc
import signal
import sys
from importlib.util import find_spec

from pgdb.closed_streams import open_closed_streams


def run() -> None:
    """Start the front end."""
    open_closed_streams()
    if find_spec("pgdb.frontend") is None:
        sys.exit(
            "pgdb: this checkout has no symbolic link pgdb/frontend; in its folder run: "
            "rm -f pgdb/frontend pgdb/backend; ln -s ../frontend ../backend pgdb/"
        )
    # Imports leave no garbage. To look for it is a twelfth of their CPU time, and slows every later
    # collection down.
    gc.disable()
    # Nothing has begun that Ctrl-C would have to end in order. A signal that is ignored stays so.
    has_handler = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if has_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from pgdb.frontend.ui.main import run as run_front_end

    if has_handler:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    gc.freeze()
    gc.enable()
    run_front_end()


if __name__ == "__main__":
    run()
