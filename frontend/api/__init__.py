"""The session as a program sees it: requests to ranks and their answers; it never prints."""
