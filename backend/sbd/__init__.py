"""The view of delivered files that a host's GDBs get (``--sbd``); no module here speaks to GDB."""
