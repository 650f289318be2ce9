"""Arguments of MPI calls, from code and memory of a stopped rank; never writes there."""
