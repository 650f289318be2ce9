"""Pure functions over answers: values, differences, checks, arrays, call trees; never any I/O."""
