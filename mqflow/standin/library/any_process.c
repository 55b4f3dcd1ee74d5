/* The stand-in library for programs that are not Python: it starts Python in the process, which fills the table of calls. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <wchar.h>

static void *table[$count];
static int (*enter_python)(void);
static void (*leave_python)(int);
static void *(*let_go)(void);
static int (*run)(const char *);
static int is_program_python;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static __thread int has_state;

static void *found(void *library, const char *name) {
    void *function = library ? dlsym(library, name) : NULL;
    if (!function) {
        fprintf(stderr, "mqflow standin: %s\n", dlerror());
        _Exit(1);
    }
    return function;
}

static void end(void) {
    int state = enter_python();
    run("from mqflow.cli.standin import installation; installation.end()");
    leave_python(state);
}

static void begin(void) {
    char code[200];
    int (*is_started)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "Py_IsInitialized");
    void *python = RTLD_DEFAULT;
    is_program_python = is_started && is_started();
    if (!is_program_python) {
        python = dlopen("$libpython", RTLD_NOW | RTLD_GLOBAL);
        ((void (*)(const wchar_t *))found(python, "Py_SetProgramName"))(L"$executable");
        setenv("$embedded", "1", 1); /* Python's own start must install nothing here */
        ((void (*)(int))found(python, "Py_InitializeEx"))(0);
        unsetenv("$embedded");
    }
    enter_python = (int (*)(void))dlsym(python, "PyGILState_Ensure");
    leave_python = (void (*)(int))dlsym(python, "PyGILState_Release");
    let_go = (void *(*)(void))dlsym(python, "PyEval_SaveThread");
    run = (int (*)(const char *))dlsym(python, "PyRun_SimpleString");
    snprintf(code, sizeof code, "from mqflow.cli.standin import installation; installation.begin(%llu, '$soname', '$calls')",
             (unsigned long long)table);
    int state = enter_python();
    if (run(code))
        _Exit(1);
    leave_python(state);
    if (!is_program_python)
        let_go();
    atexit(end);
}

static void *call(int number) {
    pthread_once(&once, begin);
    if (!has_state && !is_program_python) { /* Python keeps its state of this thread: MQ's handles belong to threads */
        has_state = 1;
        enter_python();
        let_go();
    }
    return table[number];
}

$functions
