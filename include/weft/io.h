// weft/io.h - plain descriptors: the calls of POSIX, which park the virtual thread and nobody else.
//
//     ssize_t n = weft_read(fd, buffer, sizeof buffer, weft_after(2 * WEFT_S));
//
// They take any descriptor that the kernel knows: sockets, pipes, terminals, files, eventfds; made by
// weft or not, blocking or O_NONBLOCK, which makes no difference here: a call that has nothing to do
// yet waits. They return what POSIX says, except that an error is returned as a negative errno. None
// returns -EAGAIN (but see MSG_DONTWAIT) or -EINTR.
//
// All of them
//   Call from:  a virtual thread. Any number of them may use a descriptor at the same time.
//   Errors:     -ETIMEDOUT  `deadline` passed and nothing had been transferred. A deadline in the past
//                           makes the call take what is there already. Regular files are always
//                           ready: there a deadline may come late.
//               -ECANCELED  the task or a scope around it was cancelled, nothing was transferred
//               -EBADF      not an open descriptor, or weft_close() closed it meanwhile
//               -EPERM      not called from a virtual thread: it never blocks an OS thread
//               and what the system call itself says.
// Bytes that were transferred win over deadline, cancel and close: the call returns their number.
// Buffers are the caller's again when the call returns, whatever it returns. One call transfers at
// most 0x7ffff000 bytes, as everywhere on Linux.
//
// Most of them exist as futures, too: weft/async_io.h.
//
// Nothing here raises SIGPIPE: carriers block it, so writing to a pipe or socket that nobody reads is
// -EPIPE. See docs/living-with-weft.md, "Descriptors".
#ifndef WEFT_IO_H
#define WEFT_IO_H

#include <sys/types.h>

#include <weft/base.h>
#include <weft/time.h>

WEFT_BEGIN_DECLS

struct iovec;
struct msghdr;
struct sockaddr;

// ---------------------------------------------------------------------------------------------
// Reading and writing.

/// Reads up to `size` bytes, waiting until there is at least one. 0 at the end of file.
WEFT_API WEFT_MUST_CHECK ssize_t weft_read(int fd, void *data, size_t size, weft_time deadline);

/// Writes up to `size` bytes, waiting until at least one can be written. It may be fewer than
/// `size`: use weft_write_full() to have all of them written.
WEFT_API WEFT_MUST_CHECK ssize_t weft_write(int fd, const void *data, size_t size,
                                            weft_time deadline);

/// The same with `count` pieces of memory, 1024 at most.
WEFT_API WEFT_MUST_CHECK ssize_t weft_readv(int fd, const struct iovec *parts, int count,
                                            weft_time deadline);
WEFT_API WEFT_MUST_CHECK ssize_t weft_writev(int fd, const struct iovec *parts, int count,
                                             weft_time deadline);

/// The same at a position of a file; the descriptor's own position stays. -ESPIPE where there is none.
WEFT_API WEFT_MUST_CHECK ssize_t weft_pread(int fd, void *data, size_t size, int64_t offset,
                                            weft_time deadline);
WEFT_API WEFT_MUST_CHECK ssize_t weft_pwrite(int fd, const void *data, size_t size, int64_t offset,
                                             weft_time deadline);
WEFT_API WEFT_MUST_CHECK ssize_t weft_preadv(int fd, const struct iovec *parts, int count,
                                             int64_t offset, weft_time deadline);
WEFT_API WEFT_MUST_CHECK ssize_t weft_pwritev(int fd, const struct iovec *parts, int count,
                                              int64_t offset, weft_time deadline);

/// Reads until `size` bytes are there or the file ends, and returns how many there are: fewer than
/// `size` only at the end of file. On an error, `*moved` (may be NULL) says how many bytes were read
/// before it, so that nothing is lost; otherwise it is what is returned.
WEFT_API WEFT_MUST_CHECK ssize_t weft_read_full(size_t *moved, int fd, void *data, size_t size,
                                                weft_time deadline);

/// Writes all `size` bytes and returns `size`. On an error, `*moved` (may be NULL) says how many bytes
/// were written before it.
WEFT_API WEFT_MUST_CHECK ssize_t weft_write_full(size_t *moved, int fd, const void *data,
                                                 size_t size, weft_time deadline);

/// Writes all bytes of all parts and returns their number. On an error, `*moved` (may be NULL) says
/// how many bytes were written before it. The parts are left as they were; any number of them.
WEFT_API WEFT_MUST_CHECK ssize_t weft_writev_full(size_t *moved, int fd, const struct iovec *parts,
                                                  int count, weft_time deadline);

/// Writes what was written to the file down to its disk. weft_fdatasync() leaves out what is not
/// needed to read it back.
WEFT_API WEFT_MUST_CHECK int weft_fsync(int fd, weft_time deadline);
WEFT_API WEFT_MUST_CHECK int weft_fdatasync(int fd, weft_time deadline);

// ---------------------------------------------------------------------------------------------
// Sockets. `flags` are those of POSIX (MSG_PEEK, ...). With MSG_DONTWAIT a call that would wait
// returns -EAGAIN. MSG_WAITALL is obeyed by weft_recv() on stream sockets.

WEFT_API WEFT_MUST_CHECK ssize_t weft_recv(int fd, void *data, size_t size, int flags,
                                           weft_time deadline);
WEFT_API WEFT_MUST_CHECK ssize_t weft_send(int fd, const void *data, size_t size, int flags,
                                           weft_time deadline);

/// `addr` may be NULL. `*addr_size` is its room, and then the length of the sender's address, which
/// is cut off if it is longer.
WEFT_API WEFT_MUST_CHECK ssize_t weft_recvfrom(int fd, void *data, size_t size, int flags,
                                               struct sockaddr *addr, uint32_t *addr_size,
                                               weft_time deadline);
WEFT_API WEFT_MUST_CHECK ssize_t weft_sendto(int fd, const void *data, size_t size, int flags,
                                             const struct sockaddr *addr, uint32_t addr_size,
                                             weft_time deadline);

WEFT_API WEFT_MUST_CHECK ssize_t weft_recvmsg(int fd, struct msghdr *message, int flags,
                                              weft_time deadline);
WEFT_API WEFT_MUST_CHECK ssize_t weft_sendmsg(int fd, const struct msghdr *message, int flags,
                                              weft_time deadline);

/// Takes a connection off a listening socket: returns its descriptor. `flags` are SOCK_CLOEXEC and
/// SOCK_NONBLOCK. `addr` and `addr_size` as in weft_recvfrom(). (weft_accept() is for listeners made
/// by weft_listen().)
WEFT_API WEFT_MUST_CHECK int weft_accept_fd(int fd, struct sockaddr *addr, uint32_t *addr_size,
                                            int flags, weft_time deadline);

/// Connects a socket. After an error the socket is good for nothing but weft_close().
WEFT_API WEFT_MUST_CHECK int weft_connect(int fd, const struct sockaddr *addr, uint32_t addr_size,
                                          weft_time deadline);

// ---------------------------------------------------------------------------------------------
// Waiting and closing.

/// Waits until one of `events` (POLLIN, POLLOUT, POLLPRI, POLLRDHUP) has come, or an error or
/// hang-up: returns what has, as the revents of poll(2). A regular file is always ready.
WEFT_API WEFT_MUST_CHECK int weft_poll(int fd, int events, weft_time deadline);

/// Closes a descriptor. Calls of other virtual threads of this runtime that are in progress on it end
/// first, with -EBADF unless they have transferred something, on whatever carrier they run; so none of
/// them can meet another file that gets the same number. That is why descriptors that are in use
/// should be closed by this and not by close(2).
///
/// Never a cancellation point: it does its work in a cancelled task, too.
///
/// Call from:  a virtual thread.
/// Returns:    0, or the negative errno of close(2); the descriptor is gone also after -EIO or -EDQUOT
WEFT_API int weft_close(int fd);

// ---------------------------------------------------------------------------------------------
// Moving bytes between descriptors.

/// Moves up to `size` bytes from `in` to `out`, one of which is a pipe, inside the kernel. An offset
/// (NULL: the descriptor's own position) is for a file, and moves on by what was moved. `flags` are
/// SPLICE_F_*; with SPLICE_F_NONBLOCK a call that would wait returns -EAGAIN. 0: the input has ended.
WEFT_API WEFT_MUST_CHECK ssize_t weft_splice(int in, int64_t *in_offset, int out,
                                             int64_t *out_offset, size_t size, unsigned flags,
                                             weft_time deadline);

/// Sends up to `size` bytes of the file `in` to `out`, usually a socket, from `*offset` on, or from its
/// own position if `offset` is NULL; both move on by what was sent. Waits until some bytes are sent;
/// 0 at the end of the file.
WEFT_API WEFT_MUST_CHECK ssize_t weft_sendfile(int out, int in, int64_t *offset, size_t size,
                                               weft_time deadline);

/// Everything up to the end of the input.
#define WEFT_COPY_ALL UINT64_MAX

/// What weft_copy() did.
struct weft_copied {
    uint64_t written; ///< bytes that arrived in the output
    uint64_t read;    ///< bytes taken from the input; only more than that after an error
};

/// Copies `count` bytes, or up to the end of the input, in the way that is best for what the
/// descriptors are: inside the file system, from the page cache, through a pipe, or by way of memory.
/// `*copied` (may be NULL) is set also on an error. A file that is the input has moved by what was
/// written; from a pipe or socket more may have been taken, and that is lost.
///
/// Returns:    0, also if the input ended before `count`
/// Errors:     those of reading `in` and writing `out`; -ENOMEM; -EINVAL if `in` is `out`, or both are
///             one file and `count` is WEFT_COPY_ALL: that might never end
WEFT_API int weft_copy(struct weft_copied *copied, int out, int in, uint64_t count,
                       weft_time deadline);

// ---------------------------------------------------------------------------------------------

/// What the drivers have counted since the runtime was made.
struct weft_io_stats {
    size_t size;         ///< sizeof(struct weft_io_stats), set by the caller
    uint64_t submitted;  ///< operations begun
    uint64_t completed;  ///< operations ended
    uint64_t cancels;    ///< requests to end one early
    uint64_t enters;     ///< system calls that submit or wait
    uint64_t queue_full; ///< submissions that had to wait for room: more weft_options.ring_entries
    uint64_t submit_refused; ///< times the kernel was short of memory and was asked again
    uint64_t cq_overflows;   ///< times completions came faster than they were taken
    uint64_t no_buffers; ///< receives that waited for a buffer: more weft_options.receive_buffers
    uint64_t multishot_ends; ///< operations with many results that the kernel ended
    uint64_t short_writes;   ///< writes that took only a part of their bytes
    uint64_t offloaded;      ///< operations that went to the blocking pool
};

/// Fills in the counters of one carrier, or their sum over all (`carrier` -1).
///
/// Call from:  any thread.
/// Errors:     -EINVAL   no such carrier, or `stats->size` is not set
///             -ESRCH    the runtime belongs to the parent of this forked process
WEFT_API int weft_io_stats(weft_runtime *runtime, int carrier, struct weft_io_stats *stats);

WEFT_END_DECLS

#endif
