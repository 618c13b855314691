// descriptors.h - which carriers use a descriptor, and which calls are in flight on it; for closing.
//
// Two kinds of table, indexed by descriptor and committed page by page when they are touched:
//
//     crew->descriptors.users[fd]      a word: a bit per carrier that has used it since it was closed
//                                      last, whether it is being closed, and how often it was. Anyone's.
//     carrier->uses[fd]                the calls in flight on it there. The carrier's own.
//
// Descriptors beyond the tables share the last word and the last list. That word says which carriers ever
// used such a descriptor and whether any of them is being closed; which, a list of the crew's does.
#ifndef WEFT_IO_DESCRIPTORS_H
#define WEFT_IO_DESCRIPTORS_H

#include <errno.h>

#include "sched/annex.h"
#include "sched/crew.h"

/// Why something in flight is to end.
enum weft__ask_why {
    WEFT__ASK_CLOSES, ///< the descriptor is about to be closed
    WEFT__ASK_MOVES,  ///< the carrier leaves: begin again elsewhere, if that loses nothing; or stay
};

/// Something in flight on one descriptor; on the stack of the task that does it.
struct weft__use {
    struct weft__use *next;
    struct weft__use **link; // NULL: not in a list
    /// Asks it to end. On its carrier. It ends by weft__use_end(), later.
    void (*ask)(struct weft__use *use, struct weft__carrier *carrier, enum weft__ask_why why);
    struct weft__closing *closing; // who waits for its end
    int fd;
};

/// crew->descriptors.users[fd]. Carriers beyond the 46th share bits.
#define WEFT__FD_CLOSING (UINT64_C(1) << 63) ///< calls in flight are being ended; new ones: -EBADF
#define WEFT__FD_GOING (UINT64_C(1) << 62)   ///< close(2) is being called: wait until it is over
#define WEFT__FD_CARRIER(number) (UINT64_C(1) << ((number) % 46))
#define WEFT__FD_CLOSED (UINT64_C(1) << 46) ///< once; the count comes round after 65536
#define WEFT__FD_CLOSES (UINT64_C(0xffff) << 46)

/// Makes the tables of a crew whose carriers exist; undone by fini, which may follow a failed init.
int weft__descriptors_init(struct weft__crew *crew);
void weft__descriptors_fini(struct weft__crew *crew);

/// The carrier leaves: asks what is in flight there to move. On its thread.
void weft__uses_move(struct weft__carrier *carrier);

/// close.c: what weft__descriptor_use() does when it does not know better, or beyond the tables.
int weft__descriptor_use_slow(struct weft__carrier *carrier, int fd);
int weft__descriptor_use_beyond(struct weft__carrier *carrier, int fd);

/// Notes that the carrier uses the descriptor, which its running task will do before it parks or
/// yields. -EBADF while it is being closed, -EAGAIN if one has to yield and ask again.
static inline int weft__descriptor_use(struct weft__carrier *carrier, int fd)
{
    const struct weft__descriptors *all = &carrier->crew->descriptors;
    if (weft__unlikely((unsigned)fd >= all->count)) {
        return fd < 0 ? -EBADF : weft__descriptor_use_beyond(carrier, fd);
    }
    // Relaxed: a carrier that is among the users is told when the descriptor is being closed.
    uint64_t bit = WEFT__FD_CARRIER(carrier->number);
    uint64_t users = atomic_load_explicit(&all->users[fd], memory_order_relaxed);
    if (weft__likely((users & (bit | WEFT__FD_CLOSING | WEFT__FD_GOING)) == bit)) {
        return 0;
    }
    return weft__descriptor_use_slow(carrier, fd);
}

/// Which file the number stands for, among those that had it: when a call begins, or after weft__descriptor_use().
/// For who begins a call again: between the two it was not listed, and nobody who closed the number found it.
static inline uint16_t weft__descriptor_closes(const struct weft__carrier *carrier, int fd)
{
    const struct weft__descriptors *all = &carrier->crew->descriptors;
    if (weft__unlikely((unsigned)fd >= all->count)) {
        return 0;
    }
    uint64_t users = atomic_load_explicit(&all->users[fd], memory_order_relaxed);
    return (uint16_t)((users & WEFT__FD_CLOSES) / WEFT__FD_CLOSED);
}

static inline void weft__use_link(struct weft__use *use, struct weft__use **head)
{
    use->next = *head;
    use->link = head;
    if (use->next != NULL) {
        use->next->link = &use->next;
    }
    *head = use;
}

static inline void weft__use_unlink(struct weft__use *use)
{
    *use->link = use->next;
    if (use->next != NULL) {
        use->next->link = use->link;
    }
    use->link = NULL;
}

/// Where the calls of a descriptor are listed: those of the carrier's own driver, or of its annex.
static inline struct weft__use **weft__uses_in(struct weft__use **uses,
                                               const struct weft__carrier *carrier, int fd)
{
    uint32_t count = carrier->crew->descriptors.count;
    return &uses[(unsigned)fd < count ? (unsigned)fd : count];
}

static inline struct weft__use **weft__uses_of(struct weft__carrier *carrier, int fd)
{
    return weft__uses_in(carrier->uses, carrier, fd);
}

/// It is in flight.
static inline void weft__use_begin(struct weft__use *use, struct weft__carrier *carrier, int fd,
                                   void (*ask)(struct weft__use *use, struct weft__carrier *carrier,
                                               enum weft__ask_why why))
{
    use->ask = ask;
    use->closing = NULL;
    use->fd = fd;
    weft__use_link(use, weft__uses_of(carrier, fd));
}

/// The same for one in the carrier's annex, whose lock is held. `ask` is called so, too. It ends by
/// weft__use_unlink() under the lock, and then weft__use_gone().
static inline void weft__use_begin_beside(
    struct weft__use *use, struct weft__carrier *carrier, int fd,
    void (*ask)(struct weft__use *use, struct weft__carrier *carrier, enum weft__ask_why why))
{
    use->ask = ask;
    use->closing = NULL;
    use->fd = fd;
    weft__use_link(use, weft__uses_in(carrier->annex->uses, carrier, fd));
}

/// close.c: somebody waits for the end of what has ended.
void weft__use_ended(struct weft__closing *closing);

/// After one in an annex was unlinked; anywhere.
static inline void weft__use_gone(const struct weft__use *use)
{
    if (weft__unlikely(use->closing != NULL)) {
        weft__use_ended(use->closing);
    }
}

/// It has ended. On its carrier.
static inline void weft__use_end(struct weft__use *use)
{
    weft__use_unlink(use);
    if (weft__unlikely(use->closing != NULL)) {
        weft__use_ended(use->closing);
    }
}

#endif
