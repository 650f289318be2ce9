"""The Python interpreter in a rank: its frames, threads and objects; never talks to GDB itself."""
