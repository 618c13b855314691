// copies.c - memcpy, memmove and memset touch whole ranges.
//
// The linker sends calls of these functions here (--wrap); clang calls __tsan_* itself. The
// engine's own copies must not come back here: the build gives its objects __real_* directly.
//
// abort() comes here too, so that a failed assertion of the library ends the execution.
//
// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming): the names are given.
#include "engine.h"

void *__real_memcpy(void *to, const void *from, size_t size_bytes);
void *__real_memmove(void *to, const void *from, size_t size_bytes);
void *__real_memset(void *to, int byte, size_t size_bytes);

void *__wrap_memcpy(void *to, const void *from, size_t size_bytes);
void *__wrap_memmove(void *to, const void *from, size_t size_bytes);
void *__wrap_memset(void *to, int byte, size_t size_bytes);
void *__tsan_memcpy(void *to, const void *from, size_t size_bytes);
void *__tsan_memmove(void *to, const void *from, size_t size_bytes);
void *__tsan_memset(void *to, int byte, size_t size_bytes);
_Noreturn void __wrap_abort(void);

#define CALLED() mc__called_from(__builtin_return_address(0))

static void note_copy(void *to, const void *from, size_t size_bytes)
{
    mc__plain(from, size_bytes, false);
    mc__plain(to, size_bytes, true);
}

void *__wrap_memcpy(void *to, const void *from, size_t size_bytes)
{
    CALLED();
    note_copy(to, from, size_bytes);
    return __real_memcpy(to, from, size_bytes);
}

void *__wrap_memmove(void *to, const void *from, size_t size_bytes)
{
    CALLED();
    note_copy(to, from, size_bytes);
    return __real_memmove(to, from, size_bytes);
}

void *__wrap_memset(void *to, int byte, size_t size_bytes)
{
    CALLED();
    mc__plain(to, size_bytes, true);
    return __real_memset(to, byte, size_bytes);
}

void *__tsan_memcpy(void *to, const void *from, size_t size_bytes)
{
    CALLED();
    note_copy(to, from, size_bytes);
    return __real_memcpy(to, from, size_bytes);
}

void *__tsan_memmove(void *to, const void *from, size_t size_bytes)
{
    CALLED();
    note_copy(to, from, size_bytes);
    return __real_memmove(to, from, size_bytes);
}

void *__tsan_memset(void *to, int byte, size_t size_bytes)
{
    CALLED();
    mc__plain(to, size_bytes, true);
    return __real_memset(to, byte, size_bytes);
}

void __wrap_abort(void)
{
    mc_fail("abort() called");
}
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)
