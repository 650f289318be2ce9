/* The ground of the language test: values of all kinds, none of which depends on the number of
   ranks; rank_value alone differs by rank. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum colour { RED, GREEN = 5, BLUE };
enum flags { READ = 1, WRITE = 2, EXECUTE = 4 };
union word { int i; float f; unsigned char bytes[4]; };
struct point { int x, y; };
struct node { int value; struct node *next; };
struct record {
    char name[16];
    struct point at, corners[3];
    double weights[4];
    enum colour colour;
    enum flags flags;
    union word word;
    unsigned narrow : 3, wide : 12;
    struct node *head;
    int (*call)(int);
    const char *text;
};

int rank_value, counter, hits;
static int file_local = 77;
double table[3][4];
int numbers[300];
char letters[] = "abcdefghijklmnopqrstuvwxyz";
const char *words[] = {"one", "two", "three", NULL};
float small = 1.5f;
long long big = 1234567890123LL;
unsigned char byte = 200;
_Bool yes = 1;
void *nothing;
volatile sig_atomic_t handled;
struct node third = {3, NULL}, second = {2, &third}, first = {1, &second};
struct record record;

static void handler(int number)
{
    handled = number;
}

int twice(int value)
{
    int result = 2 * value; /* @twice */
    return result;
}

static struct point mirror(struct point from)
{
    struct point to = {from.y, from.x};
    return to; /* @mirror */
}

int factorial(int n)
{
    if (n <= 1)
        return 1; /* @bottom */
    return n * factorial(n - 1);
}

static int work(int round, const char *label)
{
    int local = round * 10; /* @work */
    int array[5] = {1, 2, 3, 4, 5};
    struct point here = {round, -round};
    counter += 1;
    array[round % 5] = local;
    local = twice(local);
    here = mirror(here);
    for (int i = 0; i < 5; i++) {
        int inner = array[i];
        hits += inner > 2;
    }
    return local + here.x + (label != NULL); /* @end */
}

static void fill(void)
{
    strcpy(record.name, "sample");
    record.at = (struct point){3, 4};
    for (int i = 0; i < 3; i++)
        record.corners[i] = (struct point){i, i * i};
    for (int i = 0; i < 4; i++)
        record.weights[i] = i / 4.0;
    record.colour = BLUE;
    record.flags = READ | EXECUTE;
    record.word.f = 1.0f;
    record.narrow = 5;
    record.wide = 1000;
    record.head = &first;
    record.call = twice;
    record.text = words[1];
    for (int i = 0; i < 300; i++)
        numbers[i] = i < 250 ? i % 50 / 10 : i;
    for (int i = 0; i < 12; i++)
        table[i / 4][i % 4] = i * 0.5;
}

int main(int argc, char **argv)
{
    int total = file_local - 77;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_value);
    signal(SIGUSR1, handler);
    fill();
    for (int round = 0; round < 6; round++) {
        total += work(round, "round"); /* @round */
    }
    total += factorial(5); /* @factorial */
    raise(SIGUSR1); /* @raise */
    total += twice(total); /* @last */
    printf("total %d\n", total);
    MPI_Finalize();
    return 0;
}
