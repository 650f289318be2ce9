"""Facts about a debugged process; imported by PGDB, and inside GDB, in its Python."""


def auxiliary_vector(pid: int) -> bytes:
    """Return the auxiliary vector of a process (proc_pid_auxv(5)); nothing if it has ended.

    The kernel gives each program that the process executes a vector of its own (random bytes, its
    entry), which a fork copies.
    """
    try:
        with open(f"/proc/{pid}/auxv", "rb") as file:
            return file.read()
    except OSError:
        return b""
