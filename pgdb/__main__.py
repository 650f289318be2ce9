"""``python -m pgdb``."""

from pgdb.frontend.main import run

if __name__ == "__main__":
    run()
