/* why: missing-from-collective|collective-order ranks=2 victims=0-1,3 */
#include "why.h"

BODY
{
    MPI_Group all, some;
    MPI_Comm made;
    int members[] = {0, 1, 2};
    MPI_Comm_group(world, &all);
    MPI_Group_incl(all, 3, members, &some);
    if (rank < 2)
        MPI_Comm_create_group(world, some, 9, &made);
    MPI_Barrier(world);
}
