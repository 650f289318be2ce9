/* Carries out the lines of a script that name this rank; bench/why_patterns.py writes it. */
#include "why.h"
#include <string.h>

enum { MOST = 256 };

struct step {
    char word[16];
    int peer, tag;
};

static struct step steps[MOST];
static int count;

static void read_steps(const char *name)
{
    char line[128];
    FILE *file = fopen(name, "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL && count < MOST) {
        struct step step = {"", 0, 0};
        int whose = -1;
        if (sscanf(line, "%d %15s %d %d", &whose, step.word, &step.peer, &step.tag) >= 2
            && whose == rank) {
            if (step.peer < 0)
                step.peer = MPI_ANY_SOURCE;
            steps[count++] = step;
        }
    }
}

static int is(const struct step *step, const char *word)
{
    return strcmp(step->word, word) == 0;
}

static int perform(const struct step *step)
{
    if (is(step, "send"))
        MPI_Ssend(&one, 1, MPI_INT, step->peer, step->tag, world);
    else if (is(step, "recv"))
        MPI_Recv(&one, 1, MPI_INT, step->peer, step->tag, world, IGNORE);
    else if (is(step, "barrier"))
        MPI_Barrier(world);
    else if (is(step, "bcast"))
        MPI_Bcast(&one, 1, MPI_INT, step->peer, world);
    else if (is(step, "reduce"))
        MPI_Reduce(&one, &other, 1, MPI_INT, MPI_SUM, step->peer, world);
    else if (is(step, "allreduce"))
        MPI_Allreduce(&one, &other, 1, MPI_INT, MPI_SUM, world);
    else if (is(step, "loop"))
        for (;;)
            work(1000);
    return !is(step, "leave") && !is(step, "end");
}

int main(int argc, char **argv)
{
    begin(&argc, &argv, MPI_THREAD_SINGLE);
    read_steps(argv[1]);
    int at = 0;
    while (perform(&steps[at]))
        at = strcmp(steps[at].word, "again") == 0 ? 0 : at + 1;
    MPI_Finalize();
    return 0;
}
