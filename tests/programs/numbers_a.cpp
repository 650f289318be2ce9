/* One of two programs whose ranks have different functions: breakpoints can be made on some ranks
 * only. Each round calls all of them. Two functions have one name. */
#include <unistd.h>

static volatile int counter;

int both(int x) { return x + 1; }          /* @both */
int over(int x) { return x + 2; }          /* @over-int */
double over(double x) { return x + 0.5; }  /* @over-double */
int group_one(int x) { return x + 3; }     /* @group-one */
int group_two(int x) { return x + 4; }     /* @group-two */
int only_a(int x) { return x + 5; }        /* @only-a */

int main()
{
    for (;;) {
        counter = both(1) + over(2) + (int)over(2.5) + group_one(3) + group_two(4) + only_a(5);
        usleep(1000); /* @nap */
    }
}
