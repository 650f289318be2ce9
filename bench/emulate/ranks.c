/* Processes that stand for the ranks of a job: `ranks COUNT`.

   Each one sleeps until its parent ends, which it does when its standard input ends. Their pids
   are printed, those of rank 0 first, one on each line. */

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    const int count = argc > 1 ? atoi(argv[1]) : 1;
    const pid_t parent = getpid();
    for (int rank = 0; rank < count; rank++) {
        fflush(stdout);
        const pid_t child = fork();
        if (child < 0) {
            perror("fork");
            return 1;
        }
        if (!child) {
            char name[24]; /* the kernel keeps 15 characters */
            snprintf(name, sizeof name, "rank %d", rank);
            prctl(PR_SET_NAME, name);
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            if (getppid() != parent)
                _exit(0);
            for (;;)
                pause();
        }
        printf("%ld\n", (long)child);
    }
    puts("end");
    fflush(stdout);
    for (char byte; read(0, &byte, 1) > 0;) {
    }
    return 0;
}
