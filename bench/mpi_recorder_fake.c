/* An MPI whose functions return at once, with the header of MPICH: what is left is the recorder. */
#include <mpi.h>
#include <string.h>

#define FUNCTION(name, parameters, ...) \
  int P##name parameters { __VA_ARGS__ return MPI_SUCCESS; } \
  int name parameters __attribute__((weak, alias("P" #name)));

static int made;

FUNCTION(MPI_Init, (int *argc, char ***argv), )
FUNCTION(MPI_Send, (const void *b, int n, MPI_Datatype t, int to, int tag, MPI_Comm c), )
FUNCTION(MPI_Recv, (void *b, int n, MPI_Datatype t, int of, int tag, MPI_Comm c, MPI_Status *s), )
FUNCTION(MPI_Isend, (const void *b, int n, MPI_Datatype t, int to, int tag, MPI_Comm c, MPI_Request *r),
         *r = (MPI_Request)(0x98000000 + (made++ & 1));)
FUNCTION(MPI_Irecv, (void *b, int n, MPI_Datatype t, int of, int tag, MPI_Comm c, MPI_Request *r),
         *r = (MPI_Request)(0x98000000 + (made++ & 1));)
FUNCTION(MPI_Waitall, (int n, MPI_Request r[], MPI_Status *s),
         for (int i = 0; i < n; i++) r[i] = MPI_REQUEST_NULL;)
FUNCTION(MPI_Allreduce, (const void *a, void *b, int n, MPI_Datatype t, MPI_Op o, MPI_Comm c), )
FUNCTION(MPI_Comm_group, (MPI_Comm c, MPI_Group *g), *g = 1;)
FUNCTION(MPI_Comm_remote_group, (MPI_Comm c, MPI_Group *g), *g = 1;)
FUNCTION(MPI_Comm_test_inter, (MPI_Comm c, int *flag), *flag = 0;)
FUNCTION(MPI_Comm_rank, (MPI_Comm c, int *rank), *rank = 0;)
FUNCTION(MPI_Comm_get_name, (MPI_Comm c, char *name, int *length), *name = 0; *length = 0;)
FUNCTION(MPI_Win_get_name, (MPI_Win w, char *name, int *length), *name = 0; *length = 0;)
FUNCTION(MPI_Win_get_group, (MPI_Win w, MPI_Group *g), *g = 1;)
FUNCTION(MPI_File_get_group, (MPI_File f, MPI_Group *g), *g = 1;)
FUNCTION(MPI_Group_size, (MPI_Group g, int *size), *size = 2;)
FUNCTION(MPI_Group_free, (MPI_Group *g), )
FUNCTION(MPI_Group_translate_ranks, (MPI_Group g, int n, const int a[], MPI_Group h, int b[]),
         memcpy(b, a, sizeof(int) * n);)
