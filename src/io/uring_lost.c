// uring_lost.c - completions that the kernel dropped.
//
// When the completion queue is full and there is no memory to keep a completion elsewhere, the kernel
// drops it. It says so once (-EBADR, Linux 5.19) and cannot say whose it was. Its op would stay in
// flight for ever, and with it whoever waits for it, even past a deadline: the cancel finds nothing.
// So from then on every op that is asked to end is a suspect:
//
//   D1  An op is lost if the kernel does not know it twice, and all completions were taken before
//       each of the two questions. Once is not enough: a request on its way from one of the kernel's
//       queues to another is in neither.
//   D2  A lost op ends with -EIO: what it transferred is not known.
//
// What nobody asks to end stays in flight, until shutdown asks.
//
// Rejected: a table of all ops in flight, to look through it at once (a line of memory more for every
// op, against something that needs a full queue in a container without memory).
// Checked by: tests/unit/uring_ops_test.c.
#include <errno.h>

#include "io/uring.h"

enum { QUESTIONS = 2 };

void weft__uring_suspect(struct weft__uring *u, struct weft__op *op)
{
    if ((op->scratch & (WEFT__MARK_LISTED | WEFT__MARK_UNSENT)) == 0) {
        op->scratch |= WEFT__MARK_SUSPECT;
        op->result = 0; // counts the questions
        weft__op_list_push(&u->suspects, op);
    }
}

void weft__uring_judge(struct weft__uring *u)
{
    if (io_uring_cq_ready(&u->ring) > 0 || io_uring_cq_has_overflow(&u->ring)) {
        return;
    }
    for (struct weft__op *op = u->suspects.head, *next; op != NULL; op = next) {
        next = op->next;
        struct io_uring_sync_cancel_reg reg = { .addr = (uintptr_t)op, .fd = -1 }; // Linux 6.0
        int rc = io_uring_register_sync_cancel(&u->ring, &reg);
        if (rc == -EINVAL || rc == -EPERM) { // then nobody can say
            weft__uring_leave_listed(u, op);
        } else if (rc != -ENOENT) {
            op->result = 0;
        } else if (++op->result == QUESTIONS) {
            weft__uring_leave(u, op);
            weft__uring_end(u, op, -EIO);
        }
    }
}
