/*
 * small_numbers: arrays that GDB prints in words: of types of one byte that hold numbers, and of
 * enumerations. On rank 1 one element of each is out of the range of the others.
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>

static unsigned char flags[12];
static int8_t shifts[6];
static uint8_t levels[5];
static uint8_t rows[3][4];
static unsigned char many[5000];
static struct {
    unsigned char kinds[4];
    int size;
} cell;
enum access { NONE, READ, WRITE, EXECUTE = 4 };
static enum access modes[6];
static enum access grid[2][3];
static enum access all_modes[1000];
static char name[8] = "two";

int main(int argc, char **argv)
{
    int rank;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 0; i < 12; i++)
        flags[i] = (unsigned char)(i % 10);
    for (int i = 0; i < 6; i++)
        shifts[i] = (int8_t)(i - 3);
    for (int i = 0; i < 5; i++)
        levels[i] = (uint8_t)(200 + i);
    for (int i = 0; i < 5000; i++)
        many[i] = (unsigned char)(i % 7);
    for (int i = 0; i < 6; i++)
        modes[i] = grid[i / 3][i % 3] = (enum access)(i % 4);
    if (rank == 1) {
        flags[7] = 'M';
        shifts[2] = -100;
        levels[4] = 255;
        rows[2][1] = 6;
        many[4711] = 7;
        cell.kinds[3] = 9;
        modes[4] = (enum access)(EXECUTE | READ);
        grid[1][2] = (enum access)(8 | READ);
        all_modes[750] = WRITE;
    }
    MPI_Barrier(MPI_COMM_WORLD); /* @look */
    printf("%d%d%d%d%d%d%s\n", flags[0], shifts[0], levels[0], rows[0][0], many[0], cell.size, name);
    printf("%d%d%d\n", (int)modes[0], (int)grid[0][0], (int)all_modes[0]);
    MPI_Finalize();
    return 0;
}
