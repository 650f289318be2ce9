"""Processes of GDB, one per rank, spoken to through GDB/MI; no MI string exists outside of it."""
