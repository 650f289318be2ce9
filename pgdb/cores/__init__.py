"""Core files: their contents, where the kernel leaves them, their ranks; never GDB, no session."""
