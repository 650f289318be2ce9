"""What the MPI launcher starts beside the job: the aggregators and their GDB sessions."""
