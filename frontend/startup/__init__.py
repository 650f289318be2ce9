"""Bring-up of a session: job, aggregators, hosts without PGDB; no module here runs a command."""
