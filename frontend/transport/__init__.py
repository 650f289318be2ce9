"""Sources of answers for a session: the overlay, or a recording; never a user interface."""
