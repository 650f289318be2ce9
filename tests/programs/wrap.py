"""Run the program of the command line as a child and exit with its status."""

import subprocess
import sys

sys.exit(subprocess.run(sys.argv[1:], check=False).returncode)
