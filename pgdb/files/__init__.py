"""Delivery of executables, libraries and debug files to every node (``--sbd``)."""
