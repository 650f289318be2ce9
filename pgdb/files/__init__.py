"""Delivery of programs and libraries to every node (``--sbd``); never reads a process."""
