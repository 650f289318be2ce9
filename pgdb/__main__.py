"""``python -m pgdb``."""

import sys
from importlib.util import find_spec

if __name__ == "__main__":
    if find_spec("pgdb.frontend") is None:
        sys.exit(
            "pgdb: this checkout has no symbolic link pgdb/frontend; in its folder run: "
            "rm -f pgdb/frontend pgdb/backend; ln -s ../frontend ../backend pgdb/"
        )
    from pgdb.frontend.ui.main import run

    run()
