// cxx.c - C++ exceptions in virtual threads.
#include "task/cxx.h"

// Weak: NULL unless the program has a C++ runtime when it starts. C code that loads a C++ library
// later has to be linked with the runtime itself (-lstdc++) to park inside a catch block.
extern struct weft__cxx *__cxa_get_globals(void) __attribute__((weak));

struct weft__cxx *weft__cxx_of_thread(void)
{
    static _Thread_local struct weft__cxx none;
    return __cxa_get_globals != NULL ? __cxa_get_globals() : &none;
}
