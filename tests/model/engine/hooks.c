// hooks.c - the functions that code compiled with -fsanitize=thread calls.
//
// gcc and clang agree on names and arguments. They differ in two places: clang turns copies into
// __tsan_memcpy and friends (copies.c), and it expresses both kinds of compare-and-swap through
// `compare_exchange_val`, which cannot report a spurious failure. Models that depend on spurious
// failures say that they need gcc.
//
// 128-bit atomics are not there: a source that uses them does not link.
//
// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming): the names are given.
#include "engine.h"

#define CALLED() mc__called_from(__builtin_return_address(0))

#define PLAIN(name, size, is_write)                                                                \
    void __tsan_##name(void *address);                                                             \
    void __tsan_##name(void *address)                                                              \
    {                                                                                              \
        CALLED();                                                                                  \
        mc__plain(address, size, is_write);                                                        \
    }

#define PLAIN_OF_SIZE(size)                                                                        \
    PLAIN(read##size, size, false)                                                                 \
    PLAIN(write##size, size, true)                                                                 \
    PLAIN(read_write##size, size, true)                                                            \
    PLAIN(unaligned_read##size, size, false)                                                       \
    PLAIN(unaligned_write##size, size, true)                                                       \
    PLAIN(unaligned_read_write##size, size, true)                                                  \
    PLAIN(volatile_read##size, size, false)                                                        \
    PLAIN(volatile_write##size, size, true)                                                        \
    PLAIN(unaligned_volatile_read##size, size, false)                                              \
    PLAIN(unaligned_volatile_write##size, size, true)

PLAIN_OF_SIZE(1)
PLAIN_OF_SIZE(2)
PLAIN_OF_SIZE(4)
PLAIN_OF_SIZE(8)
PLAIN_OF_SIZE(16)

#define RMW(bits, type, name, kind)                                                                \
    type mc__hook##bits##_##name(volatile type *address, type operand, int order);                 \
    type mc__hook##bits##_##name(volatile type *address, type operand, int order)                  \
    {                                                                                              \
        CALLED();                                                                                  \
        return (type)mc__rmw(address, sizeof(type), operand, order, kind);                         \
    }

#define CAS(bits, type, name, is_weak)                                                             \
    int mc__hook##bits##_cas_##name(volatile type *address, type *expected, type desired,          \
                                    int success, int failure);                                     \
    int mc__hook##bits##_cas_##name(volatile type *address, type *expected, type desired,          \
                                    int success, int failure)                                      \
    {                                                                                              \
        CALLED();                                                                                  \
        return mc__cas(address, sizeof(type), expected, desired, success, failure, is_weak);       \
    }

#define LOAD_AND_STORE(bits, type)                                                                 \
    type mc__hook##bits##_load(const volatile type *address, int order);                           \
    type mc__hook##bits##_load(const volatile type *address, int order)                            \
    {                                                                                              \
        CALLED();                                                                                  \
        return (type)mc__load(address, sizeof(type), order);                                       \
    }                                                                                              \
    void mc__hook##bits##_store(volatile type *address, type value, int order);                    \
    void mc__hook##bits##_store(volatile type *address, type value, int order)                     \
    {                                                                                              \
        CALLED();                                                                                  \
        mc__store(address, sizeof(type), value, order);                                            \
    }                                                                                              \
    type mc__hook##bits##_cas_val(volatile type *address, type expected, type desired,             \
                                  int success, int failure);                                       \
    type mc__hook##bits##_cas_val(volatile type *address, type expected, type desired,             \
                                  int success, int failure)                                        \
    {                                                                                              \
        CALLED();                                                                                  \
        mc__cas(address, sizeof(type), &expected, desired, success, failure, false);               \
        return expected;                                                                           \
    }

#define ATOMIC(bits, type)                                                                         \
    LOAD_AND_STORE(bits, type)                                                                     \
    RMW(bits, type, exchange, MC__XCHG)                                                            \
    RMW(bits, type, fetch_add, MC__ADD)                                                            \
    RMW(bits, type, fetch_sub, MC__SUB)                                                            \
    RMW(bits, type, fetch_and, MC__AND)                                                            \
    RMW(bits, type, fetch_or, MC__OR)                                                              \
    RMW(bits, type, fetch_xor, MC__XOR)                                                            \
    RMW(bits, type, fetch_nand, MC__NAND)                                                          \
    CAS(bits, type, strong, false)                                                                 \
    CAS(bits, type, weak, true)

ATOMIC(8, uint8_t)
ATOMIC(16, uint16_t)
ATOMIC(32, uint32_t)
ATOMIC(64, uint64_t)

void mc__hook_fence(int order);
void mc__hook_fence(int order)
{
    CALLED();
    mc__fence(order);
}

// Orders a thread against its own signal handlers; models have none.
void __tsan_atomic_signal_fence(int order);
void __tsan_atomic_signal_fence(int order)
{
    (void)order;
}

void __tsan_read_range(void *start, size_t size_bytes);
void __tsan_read_range(void *start, size_t size_bytes)
{
    CALLED();
    mc__plain(start, size_bytes, false);
}

void __tsan_write_range(void *start, size_t size_bytes);
void __tsan_write_range(void *start, size_t size_bytes)
{
    CALLED();
    mc__plain(start, size_bytes, true);
}

void __tsan_init(void);
void __tsan_init(void)
{
}

// The caller's frame ends above our return address and its saved frame pointer.
void __tsan_func_entry(void *caller);
void __tsan_func_entry(void *caller)
{
    (void)caller;
    mc__frame_begins((uintptr_t)__builtin_frame_address(0) + 2 * sizeof(void *));
}

void __tsan_func_exit(void);
void __tsan_func_exit(void)
{
    CALLED();
    mc__frame_ends();
}
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)
