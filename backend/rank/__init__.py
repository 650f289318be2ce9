"""The debugger of one rank as its aggregator sees it, and the states of a rank; no GDB in here."""
