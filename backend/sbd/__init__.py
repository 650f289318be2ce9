"""Delivered files as a host's GDB sees them (``--sbd``); no module here speaks to GDB."""
