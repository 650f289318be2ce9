"""Arguments of the MPI calls of a stopped rank, read from its machine code and its memory."""
