"""User interfaces: the program ``pgdb``, its arguments, prompt and batch mode."""
