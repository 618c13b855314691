// close.c - closing a descriptor that others may be using.
//
// The danger: an op of the old file meets a new file that got the same number. It waits in a
// submission queue, or on a thread of the blocking pool, with nothing but the number in its hands;
// the descriptor is closed, another thread opens a file. So all ops on it have to end first, on every
// carrier that has any.
//
//     closing                                  a call, on its carrier
//     users |= CLOSING, and look at them       am I among the users, and nobody closing? go on
//     each carrier among the users:            else users |= my bit, and look again:
//       cancel its calls on fd                   CLOSING: -EBADF
//       wait for the last one's end              GOING: somebody is inside close(2), wait
//     users = GOING
//     close(2)
//     users = 0
//
//   F1  A call looks, submits and is listed without a park between, and a carrier answers between
//       tasks. So once it has answered, every call of before is listed and asked to end, and every
//       call of later sees CLOSING: the answer happened before it.
//   F2  A carrier that is not yet among the users looks and enters with one RMW on the word that
//       CLOSING is set in: either it is among the users that the closer sees, or it sees CLOSING.
//   F3  A carrier answers when its last call on the descriptor has ended, not when it was asked to.
//   F4  While GOING the number may belong to the old file, to none or to a new one: calls wait for a
//       moment rather than refuse what is perhaps the new file.
//   F5  A call of several ops is listed from its beginning to its end (io/hold.h), not op by op.
//   F6  The word carries one thing besides itself: what came before close(2) was over, from the closer
//       that stores 0 to whoever uses or closes the number next. All else goes by inbox.
//   F7  A call that is begun again, because its carrier leaves or a signal came, is not listed for a
//       moment. So each close is counted in the word, and who begins again looks whether it is still the
//       same file.
//   F8  Descriptors beyond the tables share a word. There CLOSING says that one of them is in the list of
//       those being closed, which has a lock; F1 and F2 are about the word and hold as they are. Who sees
//       CLOSING looks into the list. The carriers' bits stay: they are about the other descriptors, too.
//
// Carriers are asked one after another, so that the closer needs no memory for it; nearly always there
// is one, its own. Plain close(2) goes past all this: its caller must know that nobody is inside.
// Locks: descriptors.lock (F8). Checked by: tests/model/close_model.c, tests/api/close_test.c,
// tests/api/close_late_test.c.
#include <errno.h>
#include <sys/resource.h>

#include "base/sys.h"
#include "io/call.h"
#include "sched/guest.h"
#include "sched/park.h"
#include "task/host.h"

#include <weft/io.h>

/// Descriptors that have an entry of their own; less if the process may not open so many.
#define DESCRIPTORS_MOST WEFT__SIZED(UINT32_C(1) << 20, 16)
#define DESCRIPTORS_LEAST WEFT__SIZED(UINT32_C(1) << 10, 16)

static uint32_t table_size(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_max > DESCRIPTORS_MOST) {
        return DESCRIPTORS_MOST;
    }
    return limit.rlim_max < DESCRIPTORS_LEAST ? DESCRIPTORS_LEAST : (uint32_t)limit.rlim_max;
}

static size_t in_pages(size_t size_bytes)
{
    size_t page = weft__sys_page_bytes();
    return (size_bytes + page - 1) / page * page;
}

/// All tables are in one piece of memory.
static size_t bytes_per_table(const struct weft__crew *crew)
{
    return in_pages(((size_t)crew->descriptors.count + 1) * sizeof(uint64_t));
}

/// One of the crew's, and for each carrier one or, with an annex, two.
static size_t tables_of(const struct weft__crew *crew)
{
    return 1 + (size_t)crew->capacity * (crew->spare != NULL ? 2 : 1);
}

int weft__descriptors_init(struct weft__crew *crew)
{
    void *memory;
    crew->descriptors.count = table_size();
    size_t table = bytes_per_table(crew);
    int rc = weft__sys_map(&memory, table * tables_of(crew), weft__sys_page_bytes());
    if (rc < 0) {
        return rc;
    }
    crew->descriptors.users = memory;
    for (int i = 0; i < crew->capacity; i++) {
        struct weft__carrier *carrier = &crew->carriers[i];
        carrier->uses = (void *)((char *)memory + table * ((size_t)i + 1));
        if (carrier->annex != NULL) {
            size_t behind = (size_t)crew->capacity + (size_t)i + 1;
            carrier->annex->uses = (void *)((char *)memory + table * behind);
        }
    }
    return 0;
}

void weft__descriptors_fini(struct weft__crew *crew)
{
    if (crew->descriptors.users != NULL) {
        weft__sys_unmap(crew->descriptors.users, bytes_per_table(crew) * tables_of(crew));
        crew->descriptors.users = NULL;
    }
}

/// F2, F4.
int weft__descriptor_use_slow(struct weft__carrier *carrier, int fd)
{
    uint64_t users = atomic_fetch_or_explicit(&carrier->crew->descriptors.users[fd],
                                              WEFT__FD_CARRIER(carrier->number),
                                              memory_order_acquire);
    if ((users & WEFT__FD_CLOSING) != 0) {
        return -EBADF;
    }
    return (users & WEFT__FD_GOING) != 0 ? -EAGAIN : 0;
}

/// A descriptor beyond the tables that is being closed; on the closer's stack.
struct weft__beyond {
    struct weft__beyond *next; // under the lock
    int fd;
    _Atomic int says; // what weft__descriptor_use() returns: -EBADF, -EAGAIN, and 0 when it is over
};

/// 0: nobody is closing it; or what weft__descriptor_use() returns. Under lock.
static int look_beyond(const struct weft__descriptors *all, int fd)
{
    int rc = 0;
    for (struct weft__beyond *closing = all->closings; closing != NULL && rc == 0;
         closing = closing->next) {
        rc = closing->fd == fd ? atomic_load_explicit(&closing->says, memory_order_acquire) : 0;
    }
    return rc;
}

/// F8.
int weft__descriptor_use_beyond(struct weft__carrier *carrier, int fd)
{
    struct weft__descriptors *all = &carrier->crew->descriptors;
    _Atomic uint64_t *entry = &all->users[all->count];
    uint64_t bit = WEFT__FD_CARRIER(carrier->number);
    // Acquire, as there is no 0 that would send everybody to the RMW after a close (F6).
    uint64_t users = atomic_load_explicit(entry, memory_order_acquire);
    if (weft__unlikely((users & bit) == 0)) {
        users = atomic_fetch_or_explicit(entry, bit, memory_order_acquire);
    }
    if (weft__likely((users & WEFT__FD_CLOSING) == 0)) {
        return 0;
    }
    weft__lock_acquire(&all->lock);
    int rc = look_beyond(all, fd);
    weft__lock_release(&all->lock);
    return rc;
}

/// Ends the calls on one carrier; on the closer's stack.
struct weft__closing {
    struct weft__request request;
    struct weft__wait wait;
    struct weft__use *uses;    // those that were asked to end
    struct weft__use *annexed; // likewise; under the annex's lock
    _Atomic uint32_t left;     // how many have not, plus one while they are asked
    int fd;
};

void weft__use_ended(struct weft__closing *closing)
{
    // In an annex others may end some.
    if (atomic_fetch_sub_explicit(&closing->left, 1, memory_order_acq_rel) == 1) {
        weft__complete(&closing->wait, 0);
    }
}

static struct weft__use *first_use(struct weft__use *use, int fd)
{
    while (use != NULL && use->fd != fd) {
        use = use->next;
    }
    return use;
}

static void end_all(struct weft__closing *closing, struct weft__carrier *carrier,
                    struct weft__use **head, struct weft__use **asked)
{
    struct weft__use *use;
    while ((use = first_use(*head, closing->fd)) != NULL) {
        weft__use_unlink(use);
        weft__use_link(use, asked);
        use->closing = closing;
        atomic_fetch_add_explicit(&closing->left, 1, memory_order_relaxed);
        use->ask(use, carrier, WEFT__ASK_CLOSES);
    }
}

static void end_annexed(struct weft__closing *closing, struct weft__carrier *carrier)
{
    struct weft__annex *annex = carrier->annex;
    weft__lock_acquire(&annex->lock);
    end_all(closing, carrier, weft__uses_in(annex->uses, carrier, closing->fd), &closing->annexed);
    annex->driver->forget(annex->driver_state, closing->fd);
    weft__lock_release(&annex->lock);
}

/// On the carrier.
static void end_uses(struct weft__request *request, struct weft__carrier *carrier)
{
    struct weft__closing *closing = weft__container_of(request, struct weft__closing, request);
    atomic_store_explicit(&closing->left, 1, memory_order_relaxed);
    end_all(closing, carrier, weft__uses_of(carrier, closing->fd), &closing->uses);
    if (weft__unlikely(carrier->annex != NULL)) {
        end_annexed(closing, carrier);
    }
    carrier->driver->forget(carrier->driver_state, closing->fd);
    weft__use_ended(closing);
}

void weft__uses_move(struct weft__carrier *carrier)
{
    const struct weft__descriptors *all = &carrier->crew->descriptors;
    uint64_t bit = WEFT__FD_CARRIER(carrier->number);
    // Of descriptors beyond the tables nobody knows whether they were closed meanwhile (F7): they stay.
    for (uint32_t fd = 0; fd < all->count; fd++) {
        // Pages of the carrier's own table that it never touched are left alone.
        bool used = (atomic_load_explicit(&all->users[fd], memory_order_relaxed) & bit) != 0;
        for (struct weft__use *use = used ? carrier->uses[fd] : NULL; use != NULL;
             use = use->next) {
            use->ask(use, carrier, WEFT__ASK_MOVES);
        }
    }
}

static void close_on(struct weft__carrier *carrier, struct weft__task *task, int fd)
{
    struct weft__closing closing = {
        .request = { .node.kind = WEFT__NODE_REQUEST, .fn = end_uses },
        .fd = fd,
    };
    weft__wait_init(&closing.wait, task, WEFT__WAIT_ASK_LATE, "close"); // and never late
    if (carrier == task->home) {
        end_uses(&closing.request, carrier);
    } else {
        weft__put(carrier, &closing.request.node, task->home);
    }
    weft__block(&closing.wait, WEFT_FOREVER);
}

/// Sets CLOSING. False: somebody else is closing it.
static bool begin(_Atomic uint64_t *entry, uint64_t *users, struct weft__task *task)
{
    *users = atomic_load_explicit(entry, memory_order_relaxed);
    while ((*users & WEFT__FD_CLOSING) == 0) {
        if ((*users & WEFT__FD_GOING) != 0) { // F4: perhaps ours is the new file
            weft__host_yield(task);
            *users = atomic_load_explicit(entry, memory_order_relaxed);
        } else if (atomic_compare_exchange_weak_explicit(entry, users, *users | WEFT__FD_CLOSING,
                                                         memory_order_acquire,
                                                         memory_order_relaxed)) {
            return true;
        }
    }
    return false;
}

static void end_everywhere(struct weft__task *task, uint64_t users, int fd)
{
    struct weft__crew *crew = task->crew;
    int count = weft__crew_started(crew);
    for (int i = 0; i < count; i++) {
        if ((users & WEFT__FD_CARRIER(i)) != 0) {
            close_on(&crew->carriers[i], task, fd);
        }
    }
}

static int close_now(struct weft__task *task, int fd)
{
    struct weft__carrier *carrier = task->home;
    int rc = carrier->driver->sockets->close(carrier->driver_state, fd);
    return rc == -EINTR ? 0 : rc; // on Linux the descriptor is gone nevertheless
}

static int close_within(struct weft__task *task, int fd)
{
    _Atomic uint64_t *entry = &task->crew->descriptors.users[fd];
    uint64_t users;
    if (!begin(entry, &users, task)) {
        return -EBADF;
    }
    end_everywhere(task, users, fd);
    uint64_t closes = (users + WEFT__FD_CLOSED) & WEFT__FD_CLOSES; // F7
    atomic_store_explicit(entry, closes | WEFT__FD_GOING, memory_order_relaxed);
    int rc = close_now(task, fd);
    atomic_store_explicit(entry, closes, memory_order_release);
    return rc;
}

/// 0: it is in the list, and `users` are to be asked. Else as look_beyond().
static int begin_beyond(struct weft__descriptors *all, struct weft__beyond *closing,
                        uint64_t *users)
{
    weft__lock_acquire(&all->lock);
    int rc = look_beyond(all, closing->fd);
    if (rc == 0) {
        closing->next = all->closings;
        all->closings = closing;
        // Relaxed: what came before the last close was over came with the lock.
        *users = atomic_fetch_or_explicit(&all->users[all->count], WEFT__FD_CLOSING,
                                          memory_order_relaxed);
    }
    weft__lock_release(&all->lock);
    return rc;
}

static void end_beyond(struct weft__descriptors *all, struct weft__beyond *closing)
{
    // F6, and without the lock: those who wait for this look again and again, and hold it meanwhile.
    atomic_store_explicit(&closing->says, 0, memory_order_release);
    weft__lock_acquire(&all->lock);
    struct weft__beyond **link = &all->closings;
    while (*link != closing) {
        link = &(*link)->next;
    }
    *link = closing->next;
    if (all->closings == NULL) {
        atomic_fetch_and_explicit(&all->users[all->count], ~WEFT__FD_CLOSING, memory_order_release);
    }
    weft__lock_release(&all->lock);
}

/// F8.
static int close_beyond(struct weft__task *task, int fd)
{
    struct weft__descriptors *all = &task->crew->descriptors;
    struct weft__beyond closing = { .fd = fd, .says = -EBADF };
    uint64_t users = 0;
    int rc;
    while ((rc = begin_beyond(all, &closing, &users)) == -EAGAIN) {
        weft__host_yield(task); // F4
    }
    if (rc < 0) {
        return rc;
    }
    end_everywhere(task, users, fd);
    atomic_store_explicit(&closing.says, -EAGAIN, memory_order_relaxed); // as GOING
    rc = close_now(task, fd);
    end_beyond(all, &closing);
    return rc;
}

int weft_close(int fd)
{
    struct weft__task *task = weft__thread_self();
    if (task == NULL) {
        return weft__no_task();
    }
    if (fd < 0) {
        return -EBADF;
    }
    weft__visit_begin(task);
    bool within = (unsigned)fd < task->crew->descriptors.count;
    int rc = within ? close_within(task, fd) : close_beyond(task, fd);
    weft__visit_end(task);
    return rc;
}
