"""Defaults of the commands that watch ranks while these run: numbers and times of looks."""

WHY_S = 1.0
"""Time for which ``why`` lets ranks run, in seconds."""
PROGRESS_SAMPLES = 20
"""Number of samples of ``progress``."""
PROGRESS_EVERY_S = 0.5
"""Time between two samples of ``progress``, in seconds."""
