"""Answers as plain text; nothing here reads or writes a stream."""
