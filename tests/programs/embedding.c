/* Loads the library of an interpreter, starts the interpreter and ends it again. It writes a word
   after each of these steps, and waits for a line of input. */
#include <dlfcn.h>
#include <stdio.h>

static void wait_after(const char *step)
{
    puts(step);
    fflush(stdout);
    getchar();
}

int main(int argc, char **argv)
{
    void *library = dlopen(argv[argc - 1], RTLD_NOW | RTLD_GLOBAL);
    if (!library) {
        puts(dlerror());
        return 1;
    }
    wait_after("loaded");
    ((void (*)(int))dlsym(library, "Py_InitializeEx"))(0);
    wait_after("initialized");
    ((void (*)(void))dlsym(library, "Py_Finalize"))();
    wait_after("finalized");
    return 0;
}
