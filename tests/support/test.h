// test.h - what a test sees of the test runner.
//
//     TEST(wheel_never_fires_early)
//     {
//         CHECK_EQ(wheel_next(&wheel), 64);
//     }
//
// Each test runs in a process of its own, so it may leak, crash, hang or exit as it likes. A failed
// CHECK prints what it saw and ends that process, from whatever thread or task it is called.
//
//     program           runs every test and prints TAP
//     program NAME      runs one test right here: no fork, no timeout, for gdb and valgrind
//     program --list    prints the names
//
// Environment: TEST_SEED replays, TEST_TIMEOUT is in seconds per test (0: none), TEST_SCALE is the
// percentage of the usual work that stress tests do, TEST_VERBOSE shows what passing tests print,
// TEST_DRIVER=uring or =epoll leaves out the tests of the other driver.
#ifndef WEFT_TEST_H
#define WEFT_TEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum test_driver {
    TEST_DRIVER_NONE,
    TEST_DRIVER_URING, // WEFT_IO=uring; skipped where the kernel refuses io_uring
    TEST_DRIVER_EPOLL, // WEFT_IO=epoll
    TEST_DRIVER_SIM,   // in the simulator, seeded with test_seed()
};

struct test_case {
    const char *name;
    void (*body)(void);
    enum test_driver driver;
    struct test_case *next;
};

void test_register(struct test_case *test);

#define TEST__ADD(id, title, the_body, the_driver)                                                 \
    __attribute__((constructor)) static void test__add_##id(void)                                  \
    {                                                                                              \
        static struct test_case test;                                                              \
        test.name = title;                                                                         \
        test.body = the_body;                                                                      \
        test.driver = the_driver;                                                                  \
        test_register(&test);                                                                      \
    }

/// One test.
#define TEST(id)                                                                                   \
    static void id(void);                                                                          \
    TEST__ADD(id, #id, id, TEST_DRIVER_NONE)                                                       \
    static void id(void)

/// A test that calls weft_run() itself, registered once per driver as id/uring and id/epoll.
#define TEST_DRIVERS(id)                                                                           \
    static void id(void);                                                                          \
    TEST__ADD(id##_uring, #id "/uring", id, TEST_DRIVER_URING)                                     \
    TEST__ADD(id##_epoll, #id "/epoll", id, TEST_DRIVER_EPOLL)                                     \
    static void id(void)

/// One of them that is about epoll alone: id/epoll.
#define TEST_EPOLL(id)                                                                             \
    static void id(void);                                                                          \
    TEST__ADD(id##_epoll, #id "/epoll", id, TEST_DRIVER_EPOLL)                                     \
    static void id(void)

/// A test whose body is the first task of a runtime with TEST_CARRIERS carriers: id/uring and
/// id/epoll under weft_run(), id/sim under weft_sim_run().
#define TEST_EVERYWHERE(id)                                                                        \
    static void id(void);                                                                          \
    static void id##_task(void)                                                                    \
    {                                                                                              \
        test_run_as_task(id);                                                                      \
    }                                                                                              \
    TEST__ADD(id##_uring, #id "/uring", id##_task, TEST_DRIVER_URING)                              \
    TEST__ADD(id##_epoll, #id "/epoll", id##_task, TEST_DRIVER_EPOLL)                              \
    TEST__ADD(id##_sim, #id "/sim", id##_task, TEST_DRIVER_SIM)                                    \
    static void id(void)

enum { TEST_CARRIERS = 3 };
void test_run_as_task(void (*body)(void));

/// The driver that the running test was registered for.
enum test_driver test_driver(void);

/// The seed of this run: from TEST_SEED, otherwise random. The runner prints it.
uint64_t test_seed(void);

/// Next number of a small generator; start it with `state = test_seed()` or anything else.
uint64_t test_random(uint64_t *state);

/// `full` scaled by TEST_SCALE percent and cut to a quarter under sanitizers; at least 1.
uint64_t test_scaled(uint64_t full);

/// True when built with a sanitizer or running under valgrind.
bool test_is_slow(void);

/// True when run by qemu-user, which says so by TEST_EMULATED: it cannot make threads in a forked
/// child, nor execute a program of the foreign kind.
bool test_is_emulated(void);

bool test_uring_available(void);

/// True when the environment lets carriers take each other's tasks: then a task starts anywhere unless
/// it was placed (stay_here() in waiting.h), and the order of turns is nobody's promise.
bool test_steals(void);

__attribute__((noreturn, format(printf, 3, 4))) void test_fail(const char *file, int line,
                                                               const char *format, ...);
__attribute__((noreturn)) void test_skip(const char *reason);

/// Values of any scalar type, compared as mathematics has it: -1 is less than 0u.
struct test_value {
    enum { TEST_SIGNED, TEST_UNSIGNED, TEST_FLOAT, TEST_POINTER } type;
    long long i;
    unsigned long long u;
    double d;
};

void test_compare(const char *file, int line, const char *text, const char *op, struct test_value a,
                  struct test_value b);
void test_compare_str(const char *file, int line, const char *text, const char *a, const char *b);
void test_check_ok(const char *file, int line, const char *text, long long result);

struct test_value test_value_signed(long long value);
struct test_value test_value_unsigned(unsigned long long value);
struct test_value test_value_float(double value);
struct test_value test_value_pointer(const volatile void *value);

#ifdef __cplusplus
} // extern "C"

template <typename T> struct test_value test_value_of(T value)
{
    if constexpr (__is_enum(T)) {
        return test_value_signed(static_cast<long long>(value));
    } else if constexpr (static_cast<T>(0.5) != static_cast<T>(0)) {
        return test_value_float(static_cast<double>(value));
    } else if constexpr (static_cast<T>(-1) < static_cast<T>(0)) {
        return test_value_signed(static_cast<long long>(value));
    } else {
        return test_value_unsigned(static_cast<unsigned long long>(value));
    }
}
template <typename T> struct test_value test_value_of(T *value)
{
    return test_value_pointer(value);
}
#define TEST__VALUE(x) test_value_of(x)
#else
// clang-format off
#define TEST__VALUE(x) _Generic((x), \
    bool: test_value_unsigned, \
    char: test_value_signed, signed char: test_value_signed, unsigned char: test_value_unsigned, \
    short: test_value_signed, unsigned short: test_value_unsigned, \
    int: test_value_signed, unsigned: test_value_unsigned, \
    long: test_value_signed, unsigned long: test_value_unsigned, \
    long long: test_value_signed, unsigned long long: test_value_unsigned, \
    float: test_value_float, double: test_value_float, \
    default: test_value_pointer)(x)
// clang-format on
#endif

#define TEST__COMPARE(a, op, b)                                                                    \
    test_compare(__FILE__, __LINE__, #a " " #op " " #b, #op, TEST__VALUE(a), TEST__VALUE(b))

#define CHECK(condition)                                                                           \
    ((condition) ? (void)0 : test_fail(__FILE__, __LINE__, "CHECK(%s)", #condition))
#define CHECK_EQ(a, b) TEST__COMPARE(a, ==, b)
#define CHECK_NE(a, b) TEST__COMPARE(a, !=, b)
#define CHECK_LT(a, b) TEST__COMPARE(a, <, b)
#define CHECK_LE(a, b) TEST__COMPARE(a, <=, b)
#define CHECK_GT(a, b) TEST__COMPARE(a, >, b)
#define CHECK_GE(a, b) TEST__COMPARE(a, >=, b)
#define CHECK_STR(a, b) test_compare_str(__FILE__, __LINE__, #a " is " #b, a, b)
/// For calls that return 0 or more, or a negative errno.
#define CHECK_OK(call) test_check_ok(__FILE__, __LINE__, #call, call)
#define FAIL(...) test_fail(__FILE__, __LINE__, __VA_ARGS__)
#define SKIP(reason) test_skip(reason)

#endif
