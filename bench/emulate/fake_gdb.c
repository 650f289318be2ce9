/* A program that speaks as much MI as PGDB's aggregators ask for, and costs next to nothing.

   It plays the GDB of one rank: attaches to a process that only sleeps, has a stack, answers
   print, stops at breakpoints. What it says follows from its rank and from the macros that it was
   built with (farm.py, which draws the same classes as `label_of`). Its rank is in the name of the
   process that it is attached to: "rank 17". */

#include <poll.h>
#include <stdarg.h>
#include <stdint.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#ifndef RANKS
#define RANKS 64 /* in the whole job */
#define CLASSES 5
#define IS_RANDOM 0 /* whether classes are drawn, or blocks of ranks */
#define DEPTH 12    /* frames of a stack */
#define SEED 1
#define DELAY_MS 0 /* answers come after 0 to so many milliseconds */
#define STOP_MS 20 /* how long a rank runs to its next breakpoint, at most */
#define LATE ""    /* ranks that answer LATE_MS later, as "3,17," */
#define LATE_MS 0
#define DYING ""  /* ranks whose GDB dies at the first question */
#define SILENT "" /* ranks whose GDB does not answer any more */
#endif

#define MOST_BREAKPOINTS 64

enum state { NEW, STOPPED, RUNNING };

struct breakpoint {
    int number;
    int is_temporary;
};

static long rank = -1, pid;
static enum state state = NEW;
static struct breakpoint breakpoints[MOST_BREAKPOINTS];
static int breakpoint_count, last_breakpoint, history, selected;
static int has_faults; /* set by "set var $faults = 1": the start goes well */
static long long stop_at_ms;
static const char *stop_reason = "";

/* The finalizer of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014). */
static uint64_t mix(uint64_t bits)
{
    bits += 0x9E3779B97F4A7C15u;
    bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9u;
    bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EBu;
    return bits ^ (bits >> 31);
}

static long label_of(long of)
{
    if (IS_RANDOM)
        return (long)(mix((uint64_t)SEED << 32 ^ (uint64_t)of) % CLASSES);
    return of * CLASSES / RANKS;
}

static long long now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

static void sleep_ms(long duration_ms)
{
    struct timespec left = {duration_ms / 1000, duration_ms % 1000 * 1000000};
    nanosleep(&left, NULL);
}

static int is_listed(const char *list)
{
    char word[32];
    const size_t length = (size_t)snprintf(word, sizeof word, "%ld,", rank);
    for (const char *at = list; *at; at = strchr(at, ',') + 1)
        if (!strncmp(at, word, length))
            return 1;
    return 0;
}

/* A number that differs on each rank as addresses do under randomisation. */
static unsigned long long address(int level)
{
    return 0x7f0000000000u + (mix((uint64_t)rank) & 0xffffff000u) + 0x40u * (unsigned)level;
}

/* The innermost frame shows the class, by its line and by its argument. */
static long line_of(int level)
{
    return level ? 100 + level : 1000 + label_of(rank);
}

static void print_frame(int level)
{
    printf("frame={level=\"%d\",addr=\"0x%016llx\",func=\"function_%d\",file=\"solver.c\","
           "fullname=\"/emulated/solver.c\",line=\"%ld\",arch=\"i386:x86-64\"}",
           level, address(level), level, line_of(level));
}

static void print_arguments(int level)
{
    printf("{name=\"n\",value=\"%ld\"}", level ? (long)level : label_of(rank));
}

static void list_frames(const char *token, int low, int high)
{
    printf("%s^done,stack=[", token);
    for (int level = low; level <= high && level < DEPTH; level++) {
        if (level > low)
            putchar(',');
        print_frame(level);
    }
    puts("]");
}

static void list_arguments(const char *token, int low, int high)
{
    printf("%s^done,stack-args=[", token);
    for (int level = low; level <= high && level < DEPTH; level++) {
        printf("%sframe={level=\"%d\",args=[", level > low ? "," : "", level);
        print_arguments(level);
        printf("]}");
    }
    puts("]");
}

/* As `bt -full` prints it, line by line; the innermost frame's local variable is the class. */
static void list_in_full(void)
{
    for (int level = 0; level < DEPTH; level++) {
        const long value = level ? (long)level : label_of(rank);
        printf("~\"#%-2d 0x%016llx in function_%d (n=%ld) at solver.c:%ld\\n\"\n", level,
               address(level), level, value, line_of(level));
        printf("~\"        local = %ld\\n\"\n~\"        residual = 1.5\\n\"\n", value);
    }
}

static void stopped(const char *reason)
{
    state = STOPPED;
    stop_at_ms = 0;
    selected = 0;
    printf("*stopped,%s,frame={addr=\"0x%016llx\",func=\"function_0\",args=[", reason, address(0));
    print_arguments(0);
    printf("],file=\"solver.c\",fullname=\"/emulated/solver.c\",line=\"%ld\"},"
           "thread-id=\"1\",stopped-threads=\"all\"\n",
           line_of(0));
}

static void stop_now(void)
{
    char reason[96];
    if (strcmp(stop_reason, "breakpoint")) {
        stopped(stop_reason);
        return;
    }
    struct breakpoint hit = breakpoints[0];
    snprintf(reason, sizeof reason, "reason=\"breakpoint-hit\",disp=\"%s\",bkptno=\"%d\"",
             hit.is_temporary ? "del" : "keep", hit.number);
    stopped(reason);
    if (hit.is_temporary) {
        printf("=breakpoint-deleted,id=\"%d\"\n", hit.number);
        memmove(breakpoints, breakpoints + 1, sizeof *breakpoints * (size_t)--breakpoint_count);
    }
}

static void run(const char *token, const char *word)
{
    if (state != STOPPED) {
        printf("%s^error,msg=\"Cannot execute this command while the selected thread is "
               "running.\"\n",
               token);
        return;
    }
    printf("%s^running\n*running,thread-id=\"all\"\n", token);
    state = RUNNING;
    if (!strcmp(word, "continue")) {
        stop_reason = "breakpoint";
        stop_at_ms = breakpoint_count ? now_ms() + (long)(mix((uint64_t)rank) % (STOP_MS + 1)) : 0;
    } else {
        stop_reason = strcmp(word, "finish") ? "reason=\"end-stepping-range\""
                                             : "reason=\"function-finished\"";
        stop_at_ms = now_ms();
    }
}

static void insert_breakpoint(const char *token, const char *where, int is_temporary, int is_mi)
{
    char made[256];
    if (breakpoint_count == MOST_BREAKPOINTS) {
        printf("%s^error,msg=\"too many breakpoints\"\n", token);
        return;
    }
    breakpoints[breakpoint_count++] = (struct breakpoint){++last_breakpoint, is_temporary};
    snprintf(made, sizeof made,
             "bkpt={number=\"%d\",type=\"breakpoint\",disp=\"%s\",enabled=\"y\","
             "addr=\"0x%016llx\",func=\"function_0\",file=\"solver.c\","
             "fullname=\"/emulated/solver.c\",line=\"100\",times=\"0\",original-location=\"%.32s\"}",
             last_breakpoint, is_temporary ? "del" : "keep", address(0), where);
    if (is_mi)
        printf("%s^done,%s\n", token, made);
    else
        printf("=breakpoint-created,%s\n~\"Breakpoint %d\\n\"\n%s^done\n", made, last_breakpoint,
               token);
}

/* Take what comes, say nothing, and end with the input as a GDB does that hangs for a while. */
static void be_silent(void)
{
    /* GDB does not end at a SIGINT, which PGDB sends to one that seems to read its input. */
    signal(SIGINT, SIG_IGN);
    char ignored[4096];
    while (read(0, ignored, sizeof ignored) > 0) {
    }
    _exit(0);
}

static void suffer(void)
{
    if (!has_faults)
        return;
    if (is_listed(DYING))
        _exit(1);
    if (is_listed(SILENT))
        be_silent();
    if (is_listed(LATE))
        sleep_ms(LATE_MS);
    if (DELAY_MS)
        sleep_ms((long)(mix((uint64_t)SEED ^ (uint64_t)rank) % (DELAY_MS + 1)));
}

static int begins(const char *text, const char *start)
{
    return !strncmp(text, start, strlen(start));
}

static void console(const char *token, char *line)
{
    if (begins(line, "print") || begins(line, "output")) {
        suffer();
        if (strstr(line, "rank"))
            printf("~\"$%d = %ld\\n\"\n%s^done\n", ++history, rank, token);
        else
            printf("~\"$%d = %ld\\n\"\n%s^done\n", ++history, label_of(rank), token);
    } else if (begins(line, "info threads")) {
        suffer();
        puts("~\"  Id   Target Id                                   Frame \\n\"");
        for (int thread = 1; thread <= 2; thread++)
            printf("~\"%s %d    Thread 0x%llx (LWP %ld) \\\"solver\\\" function_0 (n=%ld) at "
                   "solver.c:100\\n\"\n",
                   thread == 1 ? "*" : " ", thread, address(64 * thread), pid + thread - 1,
                   label_of(rank));
        printf("%s^done\n", token);
    } else if (begins(line, "bt -full")) {
        suffer();
        list_in_full();
        printf("%s^done\n", token);
    } else if (begins(line, "break ") || begins(line, "tbreak ")) {
        insert_breakpoint(token, strchr(line, ' ') + 1, *line == 't', 0);
    } else if (begins(line, "handle SIGURG stop") && state == RUNNING) {
        /* The signal itself, which comes next, goes to a process that ignores it. */
        printf("%s^done\n", token);
        stopped("reason=\"signal-received\",signal-name=\"SIGURG\",signal-meaning=\"Urgent I/O "
                "condition\"");
    } else if (begins(line, "delete")) {
        breakpoint_count = 0;
        printf("%s^done\n", token);
    } else if (begins(line, "set var $faults")) {
        has_faults = 1;
        printf("%s^done\n", token);
    } else if (begins(line, "python") || begins(line, "source")) {
        printf("%s^error,msg=\"Python scripting is not supported in this copy of GDB.\"\n", token);
    } else if (begins(line, "continue")) {
        run(token, "continue");
    } else if (begins(line, "step") || begins(line, "next") || begins(line, "finish")) {
        run(token, line);
    } else {
        if (begins(line, "frame "))
            selected = atoi(line + 6);
        printf("%s^done\n", token);
    }
}

static void attach(const char *token, const char *target)
{
    char path[64], name[64] = "";
    pid = atol(target);
    snprintf(path, sizeof path, "/proc/%ld/comm", pid);
    FILE *file = fopen(path, "r");
    if (!file || !fgets(name, sizeof name, file) || sscanf(name, "rank %ld", &rank) != 1) {
        printf("%s^error,msg=\"%s is no emulated rank\"\n", token, target);
    } else {
        printf("%s^done\n", token);
        stopped("reason=\"signal-received\",signal-name=\"0\",signal-meaning=\"Signal 0\"");
    }
    if (file)
        fclose(file);
}

/* Return the end of the next word, cut off; what follows is the next one. */
static char *next_word(char **at)
{
    while (**at == ' ')
        ++*at;
    char *word = *at;
    while (**at && **at != ' ')
        ++*at;
    if (**at)
        *(*at)++ = 0;
    return word;
}

static void unquote(char *text)
{
    char *to = text;
    if (*text == '"') {
        for (char *from = text + 1; *from && *from != '"'; from++) {
            if (*from == '\\' && from[1])
                from++;
            *to++ = *from;
        }
        *to = 0;
    }
}

static void answer(char *line)
{
    char token[32] = "";
    const size_t digits = strspn(line, "0123456789");
    if (digits < sizeof token)
        memcpy(token, line, digits);
    char *at = line + digits, *command = next_word(&at);
    char *words[8] = {0};
    int count = 0;
    if (begins(command, "-interpreter-exec")) {
        next_word(&at); /* console */
        while (*at == ' ')
            at++;
        unquote(at);
        console(token, at);
        return;
    }
    while (count < 8 && *at) {
        char *word = next_word(&at);
        if (!strcmp(word, "--thread"))
            next_word(&at);
        else
            words[count++] = word;
    }
    if (begins(command, "-stack-list-frames")) {
        list_frames(token, count > 1 ? atoi(words[0]) : 0, count > 1 ? atoi(words[1]) : DEPTH);
    } else if (begins(command, "-stack-list-arguments")) {
        /* With each backtrace, while frames are asked for once as long as nothing happens. */
        suffer();
        list_arguments(token, count > 2 ? atoi(words[1]) : 0, count > 2 ? atoi(words[2]) : DEPTH);
    } else if (begins(command, "-stack-info-frame")) {
        printf("%s^done,", token);
        print_frame(selected);
        putchar('\n');
    } else if (begins(command, "-thread-info")) {
        printf("%s^done,threads=[{id=\"1\",target-id=\"Thread 0x%llx (LWP %ld)\","
               "state=\"stopped\",",
               token, address(64), pid);
        print_frame(0);
        puts("}],current-thread-id=\"1\"");
    } else if (begins(command, "-target-attach")) {
        attach(token, count ? words[0] : "");
    } else if (begins(command, "-target-detach")) {
        state = NEW;
        printf("%s^done\n", token);
    } else if (begins(command, "-break-insert")) {
        const int is_temporary = count > 0 && !strcmp(words[0], "-t");
        insert_breakpoint(token, count ? words[count - 1] : "", is_temporary, 1);
    } else if (begins(command, "-exec-")) {
        run(token, command + 6);
    } else if (begins(command, "-gdb-exit")) {
        printf("%s^exit\n", token);
        fflush(stdout);
        exit(0);
    } else if (begins(command, "-gdb-set") || begins(command, "-thread-select") ||
               begins(command, "-stack-select-frame") || begins(command, "-file-")) {
        printf("%s^done\n", token);
    } else {
        printf("%s^error,msg=\"Undefined MI command: %s\",code=\"undefined-command\"\n", token,
               *command ? command + 1 : command);
    }
}

int main(int argc, char **argv)
{
    static char input[1 << 16];
    size_t length = 0;
    static char output[1 << 14];
    if (argc > 1 && !strcmp(argv[1], "--version")) {
        puts("GNU gdb (emulated) 13.1");
        return 0;
    }
    setvbuf(stdout, output, _IOFBF, sizeof output);
    puts("(gdb) ");
    fflush(stdout);
    for (;;) {
        struct pollfd from = {0, POLLIN, 0};
        long long left_ms = stop_at_ms ? stop_at_ms - now_ms() : -1;
        const int ready = poll(&from, 1, stop_at_ms && left_ms < 0 ? 0 : (int)left_ms);
        if (!ready) {
            stop_now();
            fflush(stdout);
            continue;
        }
        const ssize_t got = read(0, input + length, sizeof input - length);
        if (got <= 0)
            return 0;
        length += (size_t)got;
        char *line = input, *end;
        while ((end = memchr(line, '\n', length - (size_t)(line - input)))) {
            *end = 0;
            answer(line);
            puts("(gdb) ");
            fflush(stdout);
            line = end + 1;
        }
        length -= (size_t)(line - input);
        memmove(input, line, length);
        if (length == sizeof input)
            return 1; /* no line of PGDB's is that long */
    }
}
