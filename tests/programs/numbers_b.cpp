/* The other one of two programs whose ranks have different functions, see numbers_a.cpp. */
#include <unistd.h>

static volatile int counter;

int both(int x) { return x + 1; }      /* @both */
int group_one(int x) { return x + 3; } /* @group-one */
int only_b(int x) { return x + 6; }    /* @only-b */

int main()
{
    for (;;) {
        counter = both(1) + group_one(3) + only_b(5);
        usleep(1000); /* @nap */
    }
}
