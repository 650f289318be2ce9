/* why: rank-left ranks=1 victims=0,2-3 */
#include "why.h"
#include <stdexcept>

static void step(int number)
{
    if (rank == 1 && number == 3)
        throw std::runtime_error("no convergence");
    MPI_Barrier(world);
}

BODY
{
    try {
        for (int number = 0; number < 5; number++)
            step(number);
    } catch (const std::runtime_error &) {
        one = 1;
    }
}
