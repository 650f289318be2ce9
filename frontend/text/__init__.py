"""Records, classes and comparisons as text: no session, no input or output."""
