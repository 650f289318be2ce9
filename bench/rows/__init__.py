"""The rows of bench/targets.py, a module for what is measured together."""
