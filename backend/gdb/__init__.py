"""Everything that knows GDB: MI text, decoding, processes, quirks; never a link of the overlay."""
