"""Answers and notifications as JSON lines, and their schema; nothing here asks a rank."""
