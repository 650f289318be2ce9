"""MPI jobs as the system sees them: launchers, holding ranks before main, finding ranks.

Used by the front end and, on the job's hosts, by the back end; it knows neither of the two.
"""
