"""User interfaces: the program ``pgdb``, arguments, prompt, batch; no other folder imports it."""
