// dgrams.h - message sockets for tests.
#ifndef WEFT_TEST_DGRAMS_H
#define WEFT_TEST_DGRAMS_H

#include "support/test.h"

#include <weft.h>

/// The body is a task, on both real drivers: it uses system calls as well.
#define TEST_SOCKETS(id)                                                                           \
    static void id##_body(void);                                                                   \
    TEST_DRIVERS(id)                                                                               \
    {                                                                                              \
        test_run_as_task(id##_body);                                                               \
    }                                                                                              \
    static void id##_body(void)

static inline weft_time soon(void)
{
    return weft_after(20 * WEFT_S);
}

static inline weft_dgram *bind_to(const char *address, struct weft_addr *local)
{
    weft_dgram *dgram;
    CHECK_OK(weft_dgram_bind(&dgram, address, NULL));
    if (local != NULL) {
        CHECK_OK(weft_dgram_local(dgram, local));
    }
    return dgram;
}

static inline weft_dgram *dial(const struct weft_addr *to)
{
    char text[WEFT_ADDR_TEXT_BYTES];
    weft_dgram *dgram;
    (void)weft_addr_format(to, text, sizeof text);
    CHECK_OK(weft_dgram_dial(&dgram, text, NULL, soon()));
    return dgram;
}

#endif
