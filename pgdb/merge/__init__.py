"""Merging: the answers of many ranks become one, without loss and without any input or output."""
