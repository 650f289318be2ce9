"""Merging of the answers of many ranks into one that loses nothing."""
