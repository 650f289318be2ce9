"""The commands that are typed, one module for each group of the help."""
