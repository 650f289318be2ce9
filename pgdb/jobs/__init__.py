"""MPI jobs as the system sees them: launchers, holding ranks before main, finding ranks.

The front end uses it and, on the job's hosts, the back end; it never imports either.
"""
