"""Sources of answers for a session: the overlay's root, or a recording; no user interface."""
