"""``pgdb run``: a job that runs at full speed, watched for events. It never debugs by itself."""
