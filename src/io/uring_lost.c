// uring_lost.c - completions that the kernel dropped.
//
// When the completion queue is full and there is no memory to keep a completion elsewhere, the kernel
// drops it. It says so once (-EBADR, Linux 5.19) and cannot say whose it was. Its op would stay in
// flight for ever, and with it whoever waits for it, even past a deadline: the cancel finds nothing.
// So every op that was in flight then is a suspect, and from then on every op that is asked to end. The
// one way to ask the kernel for an op is to cancel it:
//
//   D1  An op is lost if the kernel does not know it twice, and all completions were taken and all
//       submissions handed over before each of the two questions. Once is not enough: a request on its
//       way from one of the kernel's queues to another is in neither.
//   D2  A lost op ends with -EIO: what it transferred is not known.
//   D3  An op that was found is cancelled by the question. If its owner did not want that, it is
//       submitted again when it ends with nothing done.
//   D4  Reads and writes of regular files and block devices are never suspects: while a disk has them,
//       a cancel does not find them, and their memory is the disk's. They end by themselves, but for
//       one whose own completion was dropped. Nor are zero-copy sends that had their result.
//
// A receive buffer that came with a dropped completion is lost, too.
//
// Rejected: cancelling everything at once (what is lost does not answer, and what is left is not known
// to be lost as long as the rest has not ended, which it need not).
// Checked by: tests/unit/uring_ops_test.c.
#include <errno.h>
#include <sys/stat.h>

#include "io/uring.h"
#include "io/uring_compat.h"

enum { QUESTIONS = 2 };

/// D4. A number that means nothing any more is not known to be something else.
static bool may_be_with_a_disk(const struct weft__op *op)
{
    struct stat status;
    switch (op->code) {
    case WEFT__OP_READ:
    case WEFT__OP_WRITE:
    case WEFT__OP_READV:
    case WEFT__OP_WRITEV:
        return fstat(op->fd, &status) < 0 || S_ISREG(status.st_mode) || S_ISBLK(status.st_mode);
    default: return false;
    }
}

void weft__uring_suspect(struct weft__uring *u, struct weft__op *op)
{
    const uint8_t listed = WEFT__MARK_LISTED | WEFT__MARK_UNSENT | WEFT__MARK_SUSPECT;
    if ((op->scratch & listed) == 0 && !may_be_with_a_disk(op)) {
        op->scratch |= WEFT__MARK_SUSPECT;
        op->result = 0; // counts the questions
        weft__op_list_push(&u->suspects, op);
    }
}

static void suspect_all(struct weft__uring *u)
{
    for (uint32_t i = 1; i <= u->flight.used; i++) {
        uintptr_t place = u->flight.places[i];
        struct weft__op *op = (struct weft__op *)place; // NOLINT(performance-no-int-to-ptr)
        if ((place & WEFT__FLIGHT_BIT) != 0 || op->stage >= WEFT__STAGE_NOTIFY) {
            continue;
        }
        if ((op->scratch & WEFT__MARK_LISTED) != 0) { // a splice; forget() looks for it here, too
            weft__uring_leave_listed(u, op);
        }
        weft__uring_suspect(u, op);
    }
}

bool weft__uring_go_on(struct weft__uring *u, struct weft__op *op, int result)
{
    // A worker that our question has interrupted may be told so twice: the second time it has begun
    // with the op anew, which nobody has disturbed since.
    bool interrupted = result == -EINTR || result == -WEFT__ERESTARTSYS;
    bool disturbed = ((uintptr_t)op->extra & WEFT__FLIGHT_BIT) != 0;
    bool goes_on = interrupted || (result == -ECANCELED && disturbed);
    if (!goes_on || u->closing || (op->scratch & WEFT__MARK_ASKED) != 0 ||
        op->generation != weft__uring_fd(u, op->fd)->generation) {
        return false;
    }
    if (op->code == WEFT__OP_CONNECT) {
        op->scratch |= WEFT__MARK_BEGUN; // the socket goes on with it, whoever asks
    }
    weft__uring_start(u, op);
    return true;
}

/// Whether the kernel has the op. Negative: nobody can say.
static int ask(struct weft__uring *u, struct weft__op *op)
{
    struct io_uring_sync_cancel_reg reg = { .addr = (uintptr_t)op, .fd = -1 }; // Linux 6.0
    int rc = io_uring_register_sync_cancel(&u->ring, &reg);
    if (rc == -EINVAL || rc == -EPERM) {
        return rc;
    }
    return rc != -ENOENT;
}

static void acquit(struct weft__uring *u, struct weft__op *op)
{
    weft__uring_leave_listed(u, op);
    if (u->track_all || op->code == WEFT__OP_SPLICE) {
        op->scratch |= WEFT__MARK_LISTED;
        weft__op_list_push(&u->tracked, op);
    }
}

static void judge(struct weft__uring *u, struct weft__op *op)
{
    int known = ask(u, op);
    if (known < 0) {
        acquit(u, op);
    } else if (known == 0 && ++op->result == QUESTIONS) {
        weft__uring_leave(u, op);
        weft__uring_end(u, op, -EIO);
    } else if (known > 0 && (op->scratch & WEFT__MARK_ASKED) != 0) {
        op->result = 0; // its end is waited for
    } else if (known > 0) {
        // D3
        uintptr_t place = (uintptr_t)op->extra | WEFT__FLIGHT_BIT;
        op->extra = (void *)place; // NOLINT(performance-no-int-to-ptr)
        acquit(u, op);
    }
}

void weft__uring_judge(struct weft__uring *u)
{
    // A submission that the kernel has not seen would be unknown to it.
    if (weft__uring_flush(u) < 0 || io_uring_cq_ready(&u->ring) > 0 ||
        io_uring_cq_has_overflow(&u->ring)) {
        return;
    }
    if (u->audit) {
        u->audit = false;
        suspect_all(u);
    }
    for (struct weft__op *op = u->suspects.head, *next; op != NULL; op = next) {
        next = op->next;
        judge(u, op);
    }
}
