// io_message.c - recvfrom and sendto as futures: an operation whose header is kept beside it.
//
// Until its first poll a future may be moved. So the header, which points into the future itself, is laid
// out when the op is begun.
#include <errno.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "future/io_future.h"
#include "io/fd_api.h"

struct message {
    struct weft__io_future io;
    struct msghdr header; // the driver's while in flight
    struct iovec part;    // likewise
    void *addr;           // from here on fixed
    uint32_t room;        // for the address, or its length
    uint32_t *addr_size;  // where to say how long the sender's is; NULL: it is sent
};
_Static_assert(sizeof(struct message) <= sizeof(struct weft_message_future), "public size");

static enum weft_poll poll(struct weft_future *future, weft_waker *waker)
{
    struct message *message = weft__container_of(future, struct message, io.future);
    if (weft__io_future_fresh(&message->io)) {
        message->header = (struct msghdr){
            .msg_name = message->addr,
            .msg_namelen = message->room,
            .msg_iov = &message->part,
            .msg_iovlen = 1,
        };
        message->io.op.data = &message->header;
    }
    enum weft_poll rc = weft__io_future_poll(future, waker);
    if (rc == WEFT_READY && future->result >= 0 && message->addr_size != NULL) {
        *message->addr_size = message->header.msg_namelen;
    }
    return rc;
}

static struct message *init(struct weft_message_future *public_message, enum weft__op_code code,
                            int fd, int flags, int error)
{
    struct message *message = (struct message *)(void *)public_message;
    struct weft__op op = { .code = (uint8_t)code,
                           .fd = fd,
                           .flags = (uint32_t)(flags & ~MSG_WAITALL) };
    weft__io_future_init(&message->io, op, error);
    message->io.future.poll = poll;
    return message;
}

static size_t capped(size_t size)
{
    return size < WEFT__TRANSFER_MOST ? size : WEFT__TRANSFER_MOST;
}

void weft_recvfrom_future(struct weft_message_future *public_message, int fd, void *data,
                          size_t size, int flags, struct sockaddr *addr, uint32_t *addr_size)
{
    bool incomplete = addr != NULL && addr_size == NULL;
    struct message *message = init(public_message, WEFT__OP_RECVMSG, fd, flags,
                                   incomplete ? -EFAULT : 0);
    message->part = (struct iovec){ data, capped(size) };
    message->addr = addr;
    message->addr_size = addr != NULL ? addr_size : NULL;
    message->room = message->addr_size != NULL ? *addr_size : 0;
}

/// Nothing is written through these pointers.
static void *writable(const void *data)
{
    return (void *)(uintptr_t)data;
}

void weft_sendto_future(struct weft_message_future *public_message, int fd, const void *data,
                        size_t size, int flags, const struct sockaddr *addr, uint32_t addr_size)
{
    struct message *message = init(public_message, WEFT__OP_SENDMSG, fd, flags, 0);
    message->part = (struct iovec){ writable(data), capped(size) };
    message->addr = writable(addr);
    message->addr_size = NULL;
    message->room = addr != NULL ? addr_size : 0;
}
