// uring_compat.h - io_uring constants newer than the liburing we build with (2.3, Linux 6.1).
//
// Each is tried at run time by whoever uses it, and each has a fallback named here.
#ifndef WEFT_IO_URING_COMPAT_H
#define WEFT_IO_URING_COMPAT_H

/// Linux 6.13: io_uring_register(-1, this, sqe, 1) performs a MSG_RING operation at once, from a
/// thread that needs no ring. An enum in newer headers, so it gets a name of its own.
/// Fallback: an eventfd that the ring polls.
#define WEFT__REGISTER_SEND_MSG_RING 31u

/// Linux 6.15: a sleep in io_uring_enter with this flag counts as idle time. The feature bit says
/// that the kernel knows it.
/// Fallback: none needed; an idle carrier then shows up as iowait, because its ring has a poll
/// pending.
#define WEFT__ENTER_NO_IOWAIT (1u << 7)
#define WEFT__FEAT_NO_IOWAIT (1u << 17)

/// Linux 6.18: a write with this flag into a pipe or socket that nobody reads raises no SIGPIPE.
/// Fallback: none in the driver; the signal is raised as by write(2).
#define WEFT__RWF_NOSIGNAL 0x100

/// What splice in a worker answers to a signal instead of EINTR (seen on Linux 6.18): a number that
/// is the kernel's own business, so that no header has it.
#define WEFT__ERESTARTSYS 512

#endif
