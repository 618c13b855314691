// fdcalls.h - every call that moves bytes, behind one signature.
#ifndef WEFT_TEST_FDCALLS_H
#define WEFT_TEST_FDCALLS_H

#include "support/fds.h"

#include <stdatomic.h>

/// The deadline of all of them: WEFT_FOREVER unless a test says otherwise.
static _Atomic weft_time fdcalls_until = WEFT_FOREVER;

static inline weft_time fdcalls_deadline(void)
{
    return atomic_load(&fdcalls_until);
}

static inline ssize_t use_write(int fd, const void *data, size_t size)
{
    return weft_write(fd, data, size, fdcalls_deadline());
}

static inline ssize_t use_writev(int fd, const void *data, size_t size)
{
    char *bytes = (char *)(uintptr_t)data;
    struct iovec parts[3] = { { bytes, size / 2 },
                              { NULL, 0 },
                              { bytes + size / 2, size - size / 2 } };
    return weft_writev(fd, parts, 3, fdcalls_deadline());
}

static inline ssize_t use_write_full(int fd, const void *data, size_t size)
{
    return weft_write_full(NULL, fd, data, size, fdcalls_deadline());
}

static inline ssize_t use_send(int fd, const void *data, size_t size)
{
    return weft_send(fd, data, size, 0, fdcalls_deadline());
}

static inline ssize_t use_sendto(int fd, const void *data, size_t size)
{
    return weft_sendto(fd, data, size, 0, NULL, 0, fdcalls_deadline());
}

static inline ssize_t use_sendmsg(int fd, const void *data, size_t size)
{
    struct iovec part = { (void *)(uintptr_t)data, size };
    struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
    return weft_sendmsg(fd, &message, 0, fdcalls_deadline());
}

static inline ssize_t use_read(int fd, void *data, size_t size)
{
    return weft_read(fd, data, size, fdcalls_deadline());
}

static inline ssize_t use_readv(int fd, void *data, size_t size)
{
    struct iovec parts[2] = { { data, 1 }, { (char *)data + 1, size - 1 } };
    return weft_readv(fd, parts, 2, fdcalls_deadline());
}

static inline ssize_t use_poll_and_read(int fd, void *data, size_t size)
{
    int events = weft_poll(fd, POLLIN, fdcalls_deadline());
    return events < 0 ? events : weft_read(fd, data, size, fdcalls_deadline());
}

static inline ssize_t use_recv(int fd, void *data, size_t size)
{
    return weft_recv(fd, data, size, 0, fdcalls_deadline());
}

static inline ssize_t use_recvfrom(int fd, void *data, size_t size)
{
    struct sockaddr_storage addr;
    uint32_t addr_size = sizeof addr;
    return weft_recvfrom(fd, data, size, 0, (struct sockaddr *)&addr, &addr_size,
                         fdcalls_deadline());
}

static inline ssize_t use_recvmsg(int fd, void *data, size_t size)
{
    struct iovec part = { data, size };
    struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
    return weft_recvmsg(fd, &message, 0, fdcalls_deadline());
}

typedef ssize_t (*writer_fn)(int fd, const void *data, size_t size);
typedef ssize_t (*reader_fn)(int fd, void *data, size_t size);
static const writer_fn writers[] = { use_write, use_writev, use_write_full,
                                     use_send,  use_sendto, use_sendmsg };
static const reader_fn readers[] = { use_read, use_readv,    use_poll_and_read,
                                     use_recv, use_recvfrom, use_recvmsg };
enum { FOR_SOCKETS = 3 }; // from here on in both tables

struct reading {
    int fd;
    reader_fn read;
    ssize_t result;
    char data[64];
};

static inline int read_something(void *arg)
{
    struct reading *reading = arg;
    reading->result = reading->read(reading->fd, reading->data, sizeof reading->data);
    return 0;
}

static inline void move_bytes(struct channel channel, reader_fn reader, writer_fn writer)
{
    struct reading reading = { .fd = channel.from, .read = reader };
    weft_task *task;
    CHECK_EQ(writer(channel.to, "there already", 13), 13); // waits for nobody
    CHECK_EQ(read_something(&reading), 0);
    CHECK_EQ(reading.result, 13);
    CHECK_EQ(memcmp(reading.data, "there already", 13), 0);
    CHECK_OK(weft_spawn(&task, read_something, &reading, NULL)); // waits for us
    let_others_park();
    CHECK_EQ(writer(channel.to, "later", 5), 5);
    CHECK_OK(weft_join(NULL, task, WEFT_FOREVER));
    CHECK_EQ(reading.result, 5);
    CHECK_EQ(memcmp(reading.data, "later", 5), 0);
}

#endif
