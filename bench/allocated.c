// allocated.c - malloc and its like, in front of glibc's: they count while they are told to, and cost
// one predictable branch while they are not.
#include "allocated.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#if defined(__has_feature)
#define HAS_FEATURE(name) __has_feature(name)
#else
#define HAS_FEATURE(name) 0
#endif

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) &&       \
    !HAS_FEATURE(address_sanitizer) && !HAS_FEATURE(thread_sanitizer)

static _Atomic bool counting;
static _Atomic uint64_t bytes;

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *memory, size_t size);
void *__libc_memalign(size_t align, size_t size);

static inline void count(size_t size)
{
    if (__builtin_expect(atomic_load_explicit(&counting, memory_order_relaxed), 0)) {
        atomic_fetch_add_explicit(&bytes, size, memory_order_relaxed);
    }
}

void *malloc(size_t size)
{
    count(size);
    return __libc_malloc(size);
}

void *calloc(size_t number, size_t size)
{
    count(number * size);
    return __libc_calloc(number, size);
}

void *realloc(void *memory, size_t size)
{
    count(size);
    return __libc_realloc(memory, size);
}

void *aligned_alloc(size_t align, size_t size)
{
    count(size);
    return __libc_memalign(align, size);
}

int posix_memalign(void **memory, size_t align, size_t size)
{
    count(size);
    void *made = __libc_memalign(align, size);
    if (made == NULL) {
        return ENOMEM;
    }
    *memory = made;
    return 0;
}

void allocated_begin(void)
{
    atomic_store(&bytes, 0);
    atomic_store(&counting, true);
}

double allocated_end(void)
{
    atomic_store(&counting, false);
    return (double)atomic_load(&bytes);
}

#else

void allocated_begin(void)
{
}

double allocated_end(void)
{
    return -1;
}

#endif
