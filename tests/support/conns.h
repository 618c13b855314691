// conns.h - both ends of a connection, for tests.
#ifndef WEFT_TEST_CONNS_H
#define WEFT_TEST_CONNS_H

#include "support/test.h"

#include <string.h>
#include <weft.h>

struct pair {
    weft_conn *near, *far;
};

/// Two ends of one connection, both on this carrier.
static inline struct pair make_pair(const char *address)
{
    struct pair pair;
    weft_listener *listener;
    struct weft_addr addr;
    char text[WEFT_ADDR_TEXT_BYTES];
    CHECK_OK(weft_listen(&listener, address, NULL));
    CHECK_OK(weft_listener_addr(listener, &addr));
    CHECK(weft_addr_format(&addr, text, sizeof text) > 0);
    CHECK_OK(weft_dial(&pair.near, text, NULL, WEFT_FOREVER));
    CHECK_OK(weft_accept(&pair.far, listener, WEFT_FOREVER));
    CHECK_OK(weft_listener_close(listener));
    return pair;
}

static inline struct pair tcp(void)
{
    return make_pair("tcp://127.0.0.1:0");
}

static inline void close_pair(struct pair pair)
{
    CHECK_OK(weft_conn_close(pair.near));
    CHECK_OK(weft_conn_close(pair.far));
}

static inline void put(weft_conn *conn, const char *text)
{
    CHECK_OK(weft_conn_write(conn, text, strlen(text), WEFT_FOREVER));
}

#endif
