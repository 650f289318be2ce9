"""Everything that knows GDB: MI text, decoding, processes, quirks."""
