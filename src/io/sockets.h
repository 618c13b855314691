// sockets.h - the socket calls of drivers that talk to the real kernel.
//
// Two tables that differ in one flag. io_uring answers -EAGAIN at once on a non-blocking descriptor
// instead of waiting, so its sockets block; epoll needs them not to. All are closed on exec.
#ifndef WEFT_IO_SOCKETS_H
#define WEFT_IO_SOCKETS_H

#include "sched/driver.h"

extern const struct weft__sockets weft__sockets_blocking;
extern const struct weft__sockets weft__sockets_nonblocking;

#endif
