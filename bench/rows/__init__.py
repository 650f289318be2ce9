"""The rows of bench/targets.py; one module for rows that are measured together."""
