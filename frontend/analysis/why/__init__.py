"""The reasons why ranks wait: a graph of who waits for whom, and verdicts; pure functions."""
