// uring_old_test.c - all tests of operations once more, with io_uring as it was in Linux 5.15: no
// buffer ring, no multishot, no zero copy, no cancel by descriptor.
#include "support/test.h"

#undef TEST_DRIVERS
#define TEST_DRIVERS(id)                                                                           \
    static void id(void);                                                                          \
    TEST__ADD(id##_uring, #id "/uring", id, TEST_DRIVER_URING)                                     \
    static void id(void)

#ifdef WEFT_HAVE_URING

#include "io/uring.h"

__attribute__((constructor)) static void go_back_in_time(void)
{
    weft__uring_without = ~WEFT__URING_LEAST;
}

#define WITHOUT_HINTS       // a kernel may keep to itself that a socket is empty
#include "op_buffer_test.c" // NOLINT(bugprone-suspicious-include)
#include "op_cancel_test.c" // NOLINT(bugprone-suspicious-include)
#include "op_limit_test.c"  // NOLINT(bugprone-suspicious-include)
#include "op_test.c"        // NOLINT(bugprone-suspicious-include)

#else

TEST(there_is_no_uring_here)
{
    SKIP("built without io_uring");
}

#endif
