// Tests that go wrong in every way the runner has to report; selftest.py looks at the reports.
#include "support/test.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

TEST(passes)
{
    unsigned char byte = 255;
    CHECK(1 + 1 == 2);
    CHECK_EQ(byte, 255);
    CHECK_LT(-1, 0u);
    CHECK_NE(1.5, 1);
    CHECK_GE(SIZE_MAX, -1);
    CHECK_EQ((void *)0, NULL);
    CHECK_STR("weft", "weft");
    CHECK_OK(0);
}

TEST(fails_check)
{
    CHECK(1 + 1 == 3);
}

TEST(fails_values)
{
    int left = -7;
    CHECK_EQ(left, 42u);
}

TEST(fails_string)
{
    CHECK_STR("warp", "weft");
}

TEST(fails_errno)
{
    CHECK_OK(-ETIMEDOUT);
}

TEST(skips)
{
    SKIP("there is a reason");
}

TEST(crashes)
{
    raise(SIGSEGV);
}

TEST(exits)
{
    puts("last words");
    exit(3);
}

TEST(hangs)
{
    if (fork() == 0) {
        pause(); // a grandchild: must not survive the test, nor keep the runner waiting
    }
    pause();
}

TEST(leaves_a_process_behind)
{
    pid_t pid = fork();
    if (pid == 0) {
        pause();
    }
    printf("orphan %d\n", (int)pid);
}

TEST(prints_seed)
{
    uint64_t state = test_seed();
    printf("seed %llu random %llu\n", (unsigned long long)test_seed(),
           (unsigned long long)test_random(&state));
}

TEST(prints_much)
{
    for (int i = 0; i < 100000; i++) {
        printf("line %d\n", i);
    }
    FAIL("after %d lines", 100000);
}

TEST_DRIVERS(driver)
{
    const char *io = getenv("WEFT_IO");
    CHECK_STR(io, test_driver() == TEST_DRIVER_URING ? "uring" : "epoll");
}
