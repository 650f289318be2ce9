#!/usr/bin/env python3
"""A program that names its interpreter: it ends with the status that it is given."""

import sys

print("the script runs", flush=True)
sys.exit(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
