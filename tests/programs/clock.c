/*
 * clock: preloaded, a clock that is set all the time.  PGDB_TEST_CLOCK names a file with a long N:
 * who looks at the time of day sees it N seconds back, then as it is, then N seconds on.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile long *step;

__attribute__((constructor)) static void map(void)
{
    const char *path = getenv("PGDB_TEST_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *found;

    if (file < 0)
        return;
    found = mmap(NULL, sizeof *step, PROT_READ, MAP_SHARED, file, 0);
    close(file);
    step = found == MAP_FAILED ? NULL : found;
}

static long set(void)
{
    static long looks;

    return step ? (__atomic_fetch_add(&looks, 1, __ATOMIC_RELAXED) % 3 - 1) * *step : 0;
}

int clock_gettime(clockid_t clock, struct timespec *at)
{
    int failed = syscall(SYS_clock_gettime, clock, at);

    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        at->tv_sec += set();
    return failed;
}

int gettimeofday(struct timeval *at, void *zone)
{
    struct timespec now;

    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    at->tv_sec = now.tv_sec;
    at->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *at)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    if (at)
        *at = now.tv_sec;
    return now.tv_sec;
}
