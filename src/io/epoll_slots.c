// epoll_slots.c - what the epoll driver knows of each descriptor, and what it has told epoll.
//
// Two ways to be in epoll's set:
//
//   MANAGED   edge-triggered, added once and kept until forget(). Only weft closes such a descriptor,
//             so what was added is what is there. (KEPT)
//   plain     one shot, armed anew for each wait. The user may have closed the descriptor meanwhile
//             and got its number again for something else: MOD then says ENOENT, and ADD follows. MOD
//             reports at once what is ready already, so nothing that came in between is lost. Those
//             that are read again and again become edge-triggered, too (STEADY, epoll_trust.c).
//
//   S1  EPOLLOUT is asked for only when something waits to write. A Unix or a UDP socket reports each
//       message that its peer takes, which would be one wake-up for nothing per message.
//   S2  An event after which an op still has to wait may be one that does not go away, such as
//       EPOLLERR for a filled error queue. So the next arming is edge-triggered instead of one more
//       shot, or the carrier would spin.
//   S3  Pieces of the table never move: queues are linked by the addresses of their heads.
#include "io/epoll.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "base/alloc.h"
#include "base/sys.h"

#define PIECE_BYTES (sizeof(struct weft__slot) * WEFT__SLOTS_PER_PIECE)

static size_t piece_bytes(void)
{
    size_t page = weft__sys_page_bytes();
    return (PIECE_BYTES + page - 1) / page * page;
}

static bool grow(struct weft__epoll *e, size_t piece)
{
    size_t count = e->slots.count != 0 ? e->slots.count : 4;
    while (count <= piece) {
        count *= 2;
    }
    struct weft__slot **pieces = weft__alloc(e->allocator, count * sizeof(struct weft__slot *),
                                             _Alignof(struct weft__slot *));
    if (pieces == NULL) {
        return false;
    }
    if (e->slots.count != 0) {
        memcpy(pieces, e->slots.pieces, e->slots.count * sizeof(struct weft__slot *));
        weft__free(e->allocator, e->slots.pieces, e->slots.count * sizeof(struct weft__slot *));
    }
    e->slots.pieces = pieces;
    e->slots.count = count;
    return true;
}

struct weft__slot *weft__slot_make(struct weft__epoll *e, int fd)
{
    size_t piece = (unsigned)fd / WEFT__SLOTS_PER_PIECE;
    if (piece >= e->slots.count && !grow(e, piece)) {
        return NULL;
    }
    void *memory;
    if (weft__sys_map(&memory, piece_bytes(), WEFT__LINE) < 0) {
        return NULL;
    }
    e->slots.pieces[piece] = memory;
    return weft__slot_of(e, fd);
}

void weft__slots_fini(struct weft__epoll *e)
{
    for (size_t i = 0; i < e->slots.count; i++) {
        if (e->slots.pieces[i] != NULL) {
            weft__sys_unmap(e->slots.pieces[i], piece_bytes());
        }
    }
    weft__free(e->allocator, e->slots.pieces, e->slots.count * sizeof(struct weft__slot *));
}

/// What one reader waits for.
static uint32_t reader_interest(const struct weft__op *op)
{
    bool socket = op->code == WEFT__OP_RECV || op->code == WEFT__OP_RECVMSG;
    if (socket && (op->flags & (MSG_OOB | MSG_ERRQUEUE)) != 0) {
        return (op->flags & MSG_OOB) != 0 ? EPOLLPRI : EPOLLERR;
    }
    return EPOLLIN | EPOLLRDHUP;
}

/// What the slot's ops wait for. poll(2) and epoll agree on the bits.
static uint32_t interest(const struct weft__slot *slot)
{
    uint32_t events = 0;
    bool any = slot->readers.head != NULL || slot->writers.head != NULL;
    for (const struct weft__op *op = slot->readers.head; op != NULL; op = op->next) {
        events |= reader_interest(op);
    }
    if (slot->writers.head != NULL) {
        events |= EPOLLOUT;
    }
    for (const struct weft__op *op = slot->others; op != NULL; op = op->next) {
        if (op->stage == WEFT__EPOLL_POLLING) {
            events |= op->flags;
            any = true;
        }
    }
    return any ? (events & UINT16_MAX) | EPOLLERR | EPOLLHUP : 0; // those are not asked, only told
}

static int control(struct weft__epoll *e, struct weft__slot *slot, int fd, uint32_t events)
{
    struct epoll_event event = {
        .events = events,
        .data.u64 = (uint64_t)slot->generation << 32 | (uint32_t)fd,
    };
    bool known = (slot->hints & WEFT__SLOT_KNOWN) != 0;
    int rc = epoll_ctl(e->epoll_fd, known ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, &event);
    if (rc < 0 && errno == (known ? ENOENT : EEXIST)) {
        rc = epoll_ctl(e->epoll_fd, known ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, fd, &event);
    }
    if (rc < 0) {
        slot->armed = 0;
        return -errno;
    }
    slot->hints |= WEFT__SLOT_KNOWN;
    weft__slot_drop(slot, WEFT__SLOT_DOUBTED); // T1 in epoll_trust.c
    slot->armed = (uint16_t)events;
    return 0;
}

/// Has the slot registered edge-triggered, for input at least.
static int control_edges(struct weft__epoll *e, struct weft__slot *slot, int fd, unsigned hint)
{
    uint32_t events = interest(slot) | EPOLLIN | EPOLLRDHUP | EPOLLPRI;
    weft__slot_drop(slot, WEFT__SLOT_EDGE);
    slot->hints = (uint16_t)(slot->hints | hint);
    int rc = control(e, slot, fd, events | EPOLLET);
    if (rc < 0) {
        weft__slot_drop(slot, hint);
    }
    return rc;
}

static bool reports(const struct weft__slot *slot, uint32_t events)
{
    return (events & ~(uint32_t)(slot->armed | EPOLLERR | EPOLLHUP)) == 0;
}

int weft__slot_arm(struct weft__epoll *e, struct weft__slot *slot, int fd, bool managed)
{
    uint32_t events = interest(slot);
    bool kept = (slot->hints & WEFT__SLOT_KEPT) != 0;
    if (kept || managed) {
        weft__slot_drop(slot, WEFT__SLOT_STEADY);
        return kept && reports(slot, events) ? 0 : control_edges(e, slot, fd, WEFT__SLOT_KEPT);
    }
    if ((slot->hints & WEFT__SLOT_STEADY) != 0 && reports(slot, events)) {
        weft__slot_doubt(e, slot, fd);
        return 0;
    }
    bool reads = slot->readers.head != NULL;
    if (reads && (slot->hints & (WEFT__SLOT_STEADY | WEFT__SLOT_WAITED)) != 0) {
        return control_edges(e, slot, fd, WEFT__SLOT_STEADY);
    }
    weft__slot_drop(slot, WEFT__SLOT_EDGE | WEFT__SLOT_STEADY);
    slot->hints |= reads ? WEFT__SLOT_WAITED : 0;
    return control(e, slot, fd, events | EPOLLONESHOT);
}

int weft__slot_rearm(struct weft__epoll *e, struct weft__slot *slot, int fd)
{
    uint32_t events = interest(slot);
    if ((slot->hints & (WEFT__SLOT_KEPT | WEFT__SLOT_STEADY)) != 0) {
        // S1, except for TCP: it reports room only to who has met with none.
        bool quiet = slot->kind == WEFT__FD_STREAM;
        if ((slot->armed & EPOLLOUT & ~events) == 0 || quiet) {
            return 0;
        }
        return control(e, slot, fd, (slot->armed & ~(uint32_t)EPOLLOUT) | EPOLLET);
    }
    bool edge = (slot->hints & WEFT__SLOT_EDGE) != 0;
    if (events == 0 && edge) {
        weft__slot_demote(e, slot, fd);
        return 0;
    }
    if (events == 0 || (edge && reports(slot, events))) {
        return 0;
    }
    slot->hints |= WEFT__SLOT_EDGE;
    return control(e, slot, fd, events | EPOLLET); // S2
}

int weft__slot_prove(struct weft__epoll *e, struct weft__slot *slot, int fd)
{
    return slot->armed != 0 ? control(e, slot, fd, slot->armed | EPOLLET) : -ENOENT;
}

void weft__slot_demote(struct weft__epoll *e, struct weft__slot *slot, int fd)
{
    weft__slot_drop(slot, WEFT__SLOT_EDGE | WEFT__SLOT_STEADY | WEFT__SLOT_WAITED);
    (void)control(e, slot, fd, EPOLLONESHOT); // gone if the user closed it
    slot->armed = 0;
}

void weft__slot_forget(struct weft__epoll *e, struct weft__slot *slot, int fd)
{
    if ((slot->hints & WEFT__SLOT_KNOWN) != 0) {
        (void)epoll_ctl(e->epoll_fd, EPOLL_CTL_DEL, fd, NULL); // gone if the user closed it
    }
    slot->generation++;
    slot->kind = WEFT__FD_UNKNOWN;
    slot->hints &= WEFT__SLOT_LISTED;
    slot->armed = 0;
    slot->strikes = 0;
}
