"""How a session comes about: finding or starting the job, and the overlay beside it."""
