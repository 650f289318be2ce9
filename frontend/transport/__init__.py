"""Sources of answers: the overlay's root node, a recording; no module here starts a process."""
