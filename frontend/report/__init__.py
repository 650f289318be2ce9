"""Reports on a job for people who were not there: one model, written in several forms.

Nothing here starts a job, and nothing here prints.
"""
