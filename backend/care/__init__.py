"""Protection of ranks: leftover breakpoints, signals, hanging GDBs; nothing here answers a user."""
