"""Sources of answers for a session: the overlay over processes or core files, or a recording; never
a user interface."""
