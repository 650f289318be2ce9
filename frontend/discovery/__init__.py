"""Search for the ranks of a running job; no module here changes the job."""
