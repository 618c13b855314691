// dial.c - connecting.
#include <errno.h>
#include <sys/socket.h>

#include "io/call.h"
#include "net/conn.h"
#include "net/socket.h"
#include "sched/guest.h"

static int connect_to(int fd, const struct weft_addr *addr, weft_time deadline)
{
    uint32_t size;
    const struct sockaddr *name = weft_addr_sockaddr(addr, &size);
    struct weft__call call = {
        .op = { .fd = fd,
                .data = (void *)(uintptr_t)name, // NOLINT(performance-no-int-to-ptr): only read
                .size = size,
                .code = WEFT__OP_CONNECT,
                .mode = WEFT__OP_MANAGED },
    };
    return (int)weft__call(&call, "connect", deadline);
}

int weft_dial(weft_conn **conn, const char *address, const struct weft_socket_options *options,
              weft_time deadline)
{
    struct weft_addr addr;
    struct weft__task *task = weft__thread_self();
    int fd = -1;
    *conn = NULL;
    if (task == NULL) {
        return weft__no_task();
    }
    weft__task_leave_spare(task);
    weft__task_tie(task); // before anything parks: what is made here belongs to this carrier
    struct weft__carrier *carrier = task->home;
    int rc = weft__task_is_at(task, carrier) ? weft__conn_address(&addr, address) : -EXDEV;
    if (rc == 0) {
        rc = weft__socket_open(&fd, carrier, &addr, options);
    }
    if (rc < 0) {
        return rc;
    }
    rc = connect_to(fd, &addr, deadline);
    if (rc == 0) {
        rc = weft__conn_make(conn, carrier, fd, (uint8_t)weft_addr_kind(&addr));
    }
    if (rc < 0) {
        weft__socket_close(fd, NULL, carrier);
    }
    return rc;
}
