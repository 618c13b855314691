// direct.h - the calls of the hot path, straight to the kernel.
//
// In a process with threads glibc's recv and send are cancellation points, which costs two atomic
// exchanges and 60 instructions a call. Nobody may cancel a carrier, so nothing is lost without them.
// The sanitizers want to see the calls, so they get libc's.
#ifndef WEFT_IO_DIRECT_H
#define WEFT_IO_DIRECT_H

#include <errno.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/base.h"
#include "base/sanitizer.h"

#if WEFT__ASAN || WEFT__TSAN || !defined(SYS_recvfrom)
#define WEFT__DIRECT 0
#else
#define WEFT__DIRECT 1
#endif

static inline int64_t weft__recv(int fd, void *data, size_t size, uint32_t flags)
{
#if WEFT__DIRECT
    int64_t n = syscall(SYS_recvfrom, fd, data, size, flags | MSG_DONTWAIT, NULL, NULL);
#else
    int64_t n = recv(fd, data, size, (int)flags | MSG_DONTWAIT);
#endif
    return weft__unlikely(n < 0) ? -errno : n;
}

static inline int64_t weft__recvmsg(int fd, struct msghdr *message, uint32_t flags)
{
#if WEFT__DIRECT
    int64_t n = syscall(SYS_recvmsg, fd, message, flags | MSG_DONTWAIT);
#else
    int64_t n = recvmsg(fd, message, (int)flags | MSG_DONTWAIT);
#endif
    return weft__unlikely(n < 0) ? -errno : n;
}

static inline int64_t weft__send(int fd, const void *data, size_t size, uint32_t flags)
{
    flags |= MSG_DONTWAIT | MSG_NOSIGNAL;
#if WEFT__DIRECT
    int64_t n = syscall(SYS_sendto, fd, data, size, flags, NULL, 0);
#else
    int64_t n = send(fd, data, size, (int)flags);
#endif
    return weft__unlikely(n < 0) ? -errno : n;
}

static inline int64_t weft__sendmsg(int fd, const struct msghdr *message, uint32_t flags)
{
    flags |= MSG_DONTWAIT | MSG_NOSIGNAL;
#if WEFT__DIRECT
    int64_t n = syscall(SYS_sendmsg, fd, message, flags);
#else
    int64_t n = sendmsg(fd, message, (int)flags);
#endif
    return weft__unlikely(n < 0) ? -errno : n;
}

#endif
