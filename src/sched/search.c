// search.c - bringing together those who have tasks on offer and those who have nothing to do.
//
// The dangers: a carrier goes to sleep while another, which may be busy for a long time, has tasks on
// offer; or every task wakes a carrier that then finds nothing. So a carrier that offers tasks says
// so in a bitmap (`wanted`), one that sleeps looks at that last, and only one searcher at a time is
// sent for a cluster. It is sent *to* somebody: the victim's number travels in its state word.
//
//     offering                   looking                        going to sleep
//     push the task              take the wanted bit            idle bit; state = PARKED
//     fence                      fence                          fence
//     wanted bit set? done       rob the victim                 any wanted bit? do not sleep
//     set it                     there is more? as on the left
//     fence
//     anybody idle? send him
//
//     RUNNING --sleep--> PARKED --put, event, timer--> RUNNING
//                        PARKED --send_one--> SEARCHING(victim) --awake--> RUNNING, and robs it
//
//   S1  Who takes a wanted bit looks at that offer afterwards. So a push that finds the bit set need
//       do nothing: it is seen by whoever takes the bit, because both sides have a fence in between.
//   S2  Who sets a bit looks for an idle carrier afterwards, and who goes to sleep looks for a bit.
//       One of them sees the other.
//   S3  Who sets a bit and finds a searcher leaves it to him: the last searcher looks at the bits, and
//       at the sleepers, when he has stopped. So does who wanted to send somebody and found them all
//       awake; he tries again only if he sees somebody asleep.
//   S4  Each start of a search is matched by exactly one stop: by send_one's caller if nobody could be
//       sent, else by the carrier that was sent, before it runs anything; it knows from its state
//       word, which it exchanges, so that it cannot miss that it was sent while it woke up by itself.
//   S5  Who sleeps is found by the idle bits and the states; the bit is a hint, the state decides. A
//       carrier that is woken for another reason clears its bit a little late: then it is passed over,
//       and looks for itself before it sleeps again.
//   S6  Who would be one searcher too many may sleep although something is wanted. He announced that
//       he sleeps before he saw that many searchers, so the last of them to stop sees him. What is
//       wanted may be in another cluster than the searchers he saw: so who is the last one in his
//       looks at the bits of all that the sleepers there could have helped.
//   S7  A carrier that leaves (retire.c) neither looks nor is to be found. Who saw its idle bit before may
//       still send it: then it stops that search and asks for help again, as if it had just offered.
//
// Rejected: looking at all offers before going to sleep (100 carriers would read 100 lines, each time);
// a timed look (latency, and an idle machine that never sleeps); waking a carrier per task.
// Locks: none. Checked by: tests/model/search_model.c, tests/stress/steal_stress.c.
#include "sched/search.h"

#include "base/assert.h"
#include "sched/crew.h"
#include "sched/park.h"

/// Counts for the carrier, or for threads outside (NULL).
#define COUNT(crew, self, what)                                                                    \
    do {                                                                                           \
        if ((self) != NULL) {                                                                      \
            weft__tally(&(self)->counts.what, 1);                                                  \
        } else {                                                                                   \
            weft__tally_shared(&(crew)->foreign_counts.what);                                      \
        }                                                                                          \
    } while (0)

static bool has(struct weft__set *set, int number)
{
    uint64_t word = atomic_load_explicit(&set->words[number / 64], memory_order_relaxed);
    return (word >> (number % 64) & 1) != 0;
}

/// True: it was not there.
static bool insert(struct weft__set *set, int number)
{
    uint64_t bit = UINT64_C(1) << (number % 64);
    return (atomic_fetch_or_explicit(&set->words[number / 64], bit, memory_order_relaxed) & bit) ==
           0;
}

/// True: it was there.
static bool take(struct weft__set *set, int number)
{
    uint64_t bit = UINT64_C(1) << (number % 64);
    return (atomic_fetch_and_explicit(&set->words[number / 64], ~bit, memory_order_relaxed) &
            bit) != 0;
}

static bool is_empty(struct weft__set *set, int words)
{
    for (int i = 0; i < words; i++) {
        if (atomic_load_explicit(&set->words[i], memory_order_relaxed) != 0) {
            return false;
        }
    }
    return true;
}

/// The next member from number `from` on, round the end, that `except` does not have; or -1.
static int find(struct weft__set *set, int words, int from, const uint64_t *except)
{
    for (int i = 0; i <= words; i++) { // the first word twice: its upper part, later its lower one
        int at = (from / 64 + i) % words;
        uint64_t word = atomic_load_explicit(&set->words[at], memory_order_relaxed) & ~except[at];
        uint64_t upper = ~UINT64_C(0) << (from % 64);
        word &= i == 0 ? upper : i == words ? ~upper : ~UINT64_C(0);
        if (word != 0) {
            return at * 64 + __builtin_ctzll(word);
        }
    }
    return -1;
}

static const uint64_t nobody[WEFT__SET_WORDS];

static int words_of(const struct weft__crew *crew)
{
    return (crew->capacity + 63) / 64;
}

static struct weft__help *help_of(const struct weft__carrier *carrier)
{
    return &carrier->crew->help[carrier->cluster];
}

/// How many clusters a carrier deals with; the first is its own.
static int reach(const struct weft__crew *crew)
{
    return crew->steals_globally ? crew->cluster_count : 1;
}

static struct weft__help *nth_help(const struct weft__carrier *carrier, int n)
{
    const struct weft__crew *crew = carrier->crew;
    return &crew->help[(carrier->cluster + n) % crew->cluster_count];
}

/// Whether a carrier of the cluster sleeps that could be sent.
static bool anybody_parked(struct weft__help *help, const struct weft__crew *crew)
{
    for (int i = 0; i < words_of(crew); i++) {
        uint64_t idle = atomic_load_explicit(&help->idle.words[i], memory_order_relaxed);
        for (; idle != 0; idle &= idle - 1) {
            const struct weft__carrier *carrier = &crew->carriers[i * 64 + __builtin_ctzll(idle)];
            if (atomic_load_explicit(&carrier->state, memory_order_relaxed) ==
                WEFT__CARRIER_PARKED) {
                return true;
            }
        }
    }
    return false;
}

static bool anybody_parked_near(const struct weft__carrier *carrier)
{
    for (int i = 0; i < reach(carrier->crew); i++) {
        if (anybody_parked(nth_help(carrier, i), carrier->crew)) {
            return true;
        }
    }
    return false;
}

/// Sends one idle carrier of the cluster to the victim, the nearest by number.
static bool send_one(struct weft__help *help, struct weft__carrier *victim,
                     struct weft__carrier *self)
{
    struct weft__crew *crew = victim->crew;
    uint64_t tried[WEFT__SET_WORDS] = { 0 };
    uint64_t order = WEFT__CARRIER_SEARCHING | (uint64_t)victim->number << WEFT__CARRIER_SHIFT;
    for (;;) {
        int number = find(&help->idle, words_of(crew), victim->number, tried);
        if (number < 0) {
            return false;
        }
        uint64_t parked = WEFT__CARRIER_PARKED;
        struct weft__carrier *idle = &crew->carriers[number];
        if (atomic_compare_exchange_strong_explicit(&idle->state, &parked, order,
                                                    memory_order_acquire, memory_order_relaxed)) {
            COUNT(crew, self, kicks);
            weft__carrier_kick(idle, self);
            return true;
        }
        tried[number / 64] |= UINT64_C(1) << (number % 64);
    }
}

static bool send_anyone(struct weft__carrier *victim, struct weft__carrier *self)
{
    for (int i = 0; i < reach(victim->crew); i++) {
        if (send_one(nth_help(victim, i), victim, self)) {
            return true;
        }
    }
    return false;
}

static bool start(struct weft__crew *crew, struct weft__help *help, uint32_t most,
                  struct weft__carrier *self)
{
    uint32_t searchers = atomic_load_explicit(&help->searchers, memory_order_relaxed);
    while (searchers < most) {
        if (atomic_compare_exchange_weak_explicit(&help->searchers, &searchers, searchers + 1,
                                                  memory_order_relaxed, memory_order_relaxed)) {
            COUNT(crew, self, searches_started);
            return true;
        }
    }
    if (self != NULL) {
        weft__tally(&self->counts.searches_denied, 1);
    }
    return false;
}

/// True: nobody is left who searches for this cluster.
static bool stop(struct weft__crew *crew, struct weft__help *help, struct weft__carrier *self)
{
    uint32_t before = atomic_fetch_sub_explicit(&help->searchers, 1, memory_order_relaxed);
    weft_assert(before > 0); // S4
    COUNT(crew, self, searches_stopped);
    return before == 1;
}

/// Sends somebody for those in the cluster who need help, beginning with number `first`. True: a search
/// began and ended in vain, and it was the last one there.
static bool recruit(struct weft__crew *crew, struct weft__help *help, int first,
                    struct weft__carrier *self)
{
    int number = find(&help->wanted, words_of(crew), first, nobody);
    if (number < 0) {
        return false;
    }
    struct weft__carrier *victim = &crew->carriers[number];
    return anybody_parked_near(victim) && start(crew, help, 1, self) &&
           !send_anyone(victim, self) && stop(crew, help, self);
}

/// How many clusters who has stopped searching looks at: S6.
static int concern(const struct weft__carrier *near)
{
    return near->freely ? reach(near->crew) : 1;
}

/// Recruits for the cluster of `near` and, of those that follow, `clusters` in all. The caller has set
/// a bit there, or stopped searching.
static void recruit_near(const struct weft__carrier *near, int clusters, struct weft__carrier *self)
{
    struct weft__crew *crew = near->crew;
    atomic_thread_fence(memory_order_seq_cst); // S2, S3: set or stopped; now look
    for (int i = 0; i < clusters;) {
        struct weft__help *help = nth_help(near, i++);
        if (recruit(crew, help, near->number, self)) {
            atomic_thread_fence(memory_order_seq_cst); // stopped; now look, at everything
            i = 0;
            clusters = concern(near);
        }
    }
}

void weft__search_ask(struct weft__carrier *victim, struct weft__carrier *self)
{
    struct weft__help *help = help_of(victim);
    if (weft__unlikely(victim->aside)) {
        return; // the monitor sees to that one
    }
    if (self == victim && victim->crew->capacity == 1) {
        return; // it is awake, and there will never be anybody else
    }
    atomic_thread_fence(memory_order_seq_cst); // S1: pushed; now look
    if (!has(&help->wanted, victim->number) && insert(&help->wanted, victim->number)) {
        recruit_near(victim, 1, self);
    }
}

/// On their own account, in the carrier's cluster: policy_stealing.c, F4. At least one.
static uint32_t most_searchers(const struct weft__carrier *carrier)
{
    if (!carrier->freely) {
        return UINT32_MAX;
    }
    int count = weft__crew_cluster(carrier->crew, carrier->cluster).count;
    return count > 1 ? (uint32_t)(count + 1) / 2 : 1;
}

bool weft__search_wanted(struct weft__carrier *carrier)
{
    const struct weft__crew *crew = carrier->crew;
    bool wanted = false;
    if (weft__unlikely(carrier->leaving)) {
        return false; // S7
    }
    for (int i = 0; i < reach(crew) && !wanted; i++) {
        wanted = !is_empty(&nth_help(carrier, i)->wanted, words_of(crew));
    }
    return wanted && atomic_load_explicit(&help_of(carrier)->searchers, memory_order_relaxed) <
                         most_searchers(carrier); // S6
}

bool weft__search_start(struct weft__carrier *carrier)
{
    return start(carrier->crew, help_of(carrier), most_searchers(carrier), carrier);
}

/// Takes a bit; what follows is a look at the offer.
static bool take_wanted(struct weft__help *help, int number)
{
    bool was = take(&help->wanted, number);
    atomic_thread_fence(memory_order_seq_cst); // S1
    return was;
}

struct weft__carrier *weft__search_take(struct weft__carrier *carrier)
{
    struct weft__crew *crew = carrier->crew;
    for (int i = 0; i < reach(crew); i++) {
        struct weft__help *help = nth_help(carrier, i);
        int number;
        while ((number = find(&help->wanted, words_of(crew), carrier->number, nobody)) >= 0) {
            if (take_wanted(help, number) && number != carrier->number) {
                return &crew->carriers[number];
            }
        }
    }
    return NULL;
}

struct weft__carrier *weft__search_sent(struct weft__carrier *carrier)
{
    if (weft__likely(carrier->sent_to == 0)) {
        return NULL;
    }
    struct weft__carrier *victim = &carrier->crew->carriers[carrier->sent_to - 1];
    carrier->sent_to = 0;
    (void)take_wanted(help_of(victim), victim->number);
    return victim;
}

void weft__search_stop(struct weft__carrier *victim, struct weft__carrier *self)
{
    struct weft__help *help = help_of(victim);
    if (stop(victim->crew, help, self)) {
        recruit_near(victim, concern(victim), self);
    }
}

void weft__search_idle(struct weft__carrier *carrier)
{
    if (weft__likely(!carrier->leaving)) { // S7
        (void)insert(&help_of(carrier)->idle, carrier->number);
    }
}

void weft__search_awake(struct weft__carrier *carrier)
{
    uint64_t state = atomic_exchange_explicit(&carrier->state, WEFT__CARRIER_RUNNING,
                                              memory_order_relaxed);
    (void)take(&help_of(carrier)->idle, carrier->number);
    if ((state & WEFT__CARRIER_SEARCHING) != 0) {
        weft_assert(carrier->sent_to == 0);
        carrier->sent_to = (int)(state >> WEFT__CARRIER_SHIFT) + 1;
    }
}
