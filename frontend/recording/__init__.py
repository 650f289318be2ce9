"""What outlives a session: its log, its recording, the history of what was typed."""
