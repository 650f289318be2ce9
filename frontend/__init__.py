"""What the user runs: the session, its commands, rendering, and the user interfaces over them."""
