"""``python -m pgdb``."""

from pgdb.frontend.ui.main import run

if __name__ == "__main__":
    run()
