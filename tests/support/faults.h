// faults.h - lets the nth system call of one kind fail. The linker sends the static library's calls
// through the __wrap_ functions that WRAP makes (--wrap, see tests/meson.build).
#ifndef WEFT_TEST_FAULTS_H
#define WEFT_TEST_FAULTS_H

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>

static int fault; // what fails; each test has an enum of its own
static int fault_errno;
static _Atomic int countdown; // the call that takes it to 0 fails; at 0 nothing does
static atomic_bool reached;

static inline bool fails(int which)
{
    if (which != fault) {
        return false;
    }
    int left = atomic_load(&countdown);
    while (left > 0 && !atomic_compare_exchange_weak(&countdown, &left, left - 1)) {
    }
    if (left == 1) {
        atomic_store(&reached, true);
        errno = fault_errno;
    }
    return left == 1;
}

#define WRAP(which, result_type, name, parameters, arguments, failure)                             \
    result_type __real_##name parameters;                                                          \
    result_type __wrap_##name parameters;                                                          \
    result_type __wrap_##name parameters                                                           \
    {                                                                                              \
        return fails(which) ? (failure) : __real_##name arguments;                                 \
    }

#endif
