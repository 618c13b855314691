// world.c - what surrounds the code under test: kernel, processor and allocator.
//
// A futex is what the kernel promises and no more. Its two sides meet at the kernel's lock:
//
//   W1  A wait that comes after a wake of the same word sees all stores that came before that
//       wake in the waker's thread; other stores it may miss like any load.
//   W2  A wake happens before the return of the waits that it ended.
//   W3  A wake of fewer threads than wait may pick any of them.
//   W4  A wait may return for no reason.
//
// An event (eventfd, a message to a ring) is a token; it orders no memory at all.
//
// Each thread suffers at most one spurious failure per execution, counting weak compare-and-swap:
// a loop that survives one survives more.
#include <errno.h>

#include "engine.h"

enum { MAX_OBJECTS = 16, ARENA_BYTES = 64 * 1024, MAX_BLOCKS = 64 };

// A futex word that was woken, or an event.
struct object {
    const void *key;
    bool has_token;
    bool was_woken;
    struct mc__view woken; // joined views of the wakers
};

static struct object objects[MAX_OBJECTS];
static int object_count;

static _Alignas(16) char arena[ARENA_BYTES];
static size_t arena_used;
static struct {
    char *start;
    size_t size;
} blocks[MAX_BLOCKS];
static int block_count;

void mc__world_reset(void)
{
    object_count = 0;
    arena_used = 0;
    block_count = 0;
}

void mc__world_views(void (*visit)(const struct mc__view *view))
{
    for (int i = 0; i < object_count; i++) {
        if (objects[i].was_woken) {
            visit(&objects[i].woken);
        }
    }
}

uint64_t mc__world_hash(void)
{
    uint64_t sum = arena_used;
    for (int i = 0; i < object_count; i++) {
        const struct object *object = &objects[i];
        uint64_t woken = object->was_woken ? mc__view_hash(&object->woken) : 0;
        if (woken != 0 || object->has_token) {
            sum += mc__mix((uintptr_t)object->key, woken << 1 | object->has_token);
        }
    }
    return sum;
}

static struct object *object_of(const void *key)
{
    for (int i = 0; i < object_count; i++) {
        if (objects[i].key == key) {
            return &objects[i];
        }
    }
    if (object_count == MAX_OBJECTS) {
        mc_fail("model too big: more than %d futexes and events", MAX_OBJECTS);
    }
    objects[object_count] = (struct object){ .key = key };
    return &objects[object_count++];
}

int mc_choose(int n)
{
    mc__called_from(__builtin_return_address(0));
    int choice = mc__choice(n);
    if (mc__me == MC__ALONE) {
        mc__state_note_choice(choice);
    }
    if (n > 1) {
        MC__TRACE("chooses %d of %d", choice, n);
    }
    return choice;
}

bool mc__spurious(void)
{
    struct mc__thread *self = mc__self();
    if (self->spurious_left == 0 || mc__choice(2) == 0) {
        return false;
    }
    self->spurious_left--;
    return true;
}

// Futex and event.

int mc__futex_wait(const void *word, uint32_t expected)
{
    mc__called_from(__builtin_return_address(0));
    mc__point();
    struct object *object = object_of(word);
    uint64_t value = mc__kernel_load(word, sizeof expected, &object->woken); // W1
    if (value != expected) {
        return -EAGAIN;
    }
    if (mc__spurious()) { // W4
        MC__TRACE("futex wait returns spuriously");
        return 0;
    }
    MC__TRACE("sleeps on futex %s", mc__address_text(word));
    mc__block(word, "mc_futex_wait");
    MC__TRACE("wakes up");
    return 0;
}

static int sleepers_on(const void *word, int *sleepers)
{
    int count = 0;
    for (int i = 0; i < mc__thread_count; i++) {
        if (mc__threads[i].status == MC__BLOCKED && mc__threads[i].blocked_on == word) {
            sleepers[count++] = i;
        }
    }
    return count;
}

static void wake_up(struct mc__thread *thread)
{
    thread->status = MC__READY;
    thread->blocked_on = NULL;
    mc__view_join(&thread->now, &mc__self()->now); // W2
}

int mc__futex_wake(const void *word, int count)
{
    mc__called_from(__builtin_return_address(0));
    mc__point();
    struct object *object = object_of(word);
    mc__view_join(&object->woken, &mc__self()->now);
    object->was_woken = true;
    int woken = 0;
    int sleepers[MC__THREADS];
    for (; woken < count; woken++) {
        int sleeping = sleepers_on(word, sleepers);
        if (sleeping == 0) {
            break;
        }
        wake_up(&mc__threads[sleepers[mc__choice(sleeping)]]); // W3
    }
    mc__tick();
    MC__TRACE("futex wake of %s: %d woken", mc__address_text(word), woken);
    return woken;
}

void mc__event_set(const void *event)
{
    mc__called_from(__builtin_return_address(0));
    mc__point();
    struct object *object = object_of(event);
    int sleepers[MC__THREADS];
    int sleeping = sleepers_on(event, sleepers);
    MC__TRACE("sets event %s", mc__address_text(event));
    if (sleeping == 0) {
        object->has_token = true;
        return;
    }
    struct mc__thread *thread = &mc__threads[sleepers[mc__choice(sleeping)]];
    thread->status = MC__READY;
    thread->blocked_on = NULL;
}

int mc__event_wait(const void *event)
{
    mc__called_from(__builtin_return_address(0));
    mc__point();
    struct object *object = object_of(event);
    if (object->has_token) {
        MC__TRACE("takes event %s", mc__address_text(event));
        object->has_token = false;
        return 1;
    }
    if (mc__spurious()) {
        MC__TRACE("event wait returns spuriously");
        return 0;
    }
    MC__TRACE("sleeps on event %s", mc__address_text(event));
    mc__block(event, "mc_event_wait");
    MC__TRACE("wakes up");
    return 1;
}

int mc__event_wait_briefly(const void *event)
{
    mc__called_from(__builtin_return_address(0));
    mc__point();
    struct object *object = object_of(event);
    if (object->has_token) {
        MC__TRACE("takes event %s", mc__address_text(event));
        object->has_token = false;
        return 1;
    }
    MC__TRACE("sleeps on event %s for a while", mc__address_text(event));
    bool was_woken = mc__block_briefly(event, "mc_event_wait_briefly");
    MC__TRACE(was_woken ? "wakes up" : "has slept long enough");
    return was_woken;
}

// Spin loops.

static bool is_newer(const struct mc__thread *thread, int i)
{
    const struct mc__location *where = &mc__locations[thread->watched[i].location];
    return mc__store_at(where, where->count - 1)->at > thread->watched[i].at;
}

// A loop that read nothing, or changed something, is not just waiting for memory: let it run.
bool mc__has_news(const struct mc__thread *thread)
{
    for (int i = 0; i < thread->watched_count; i++) {
        if (is_newer(thread, i)) {
            return true;
        }
    }
    return thread->watched_count == 0 || thread->has_changed;
}

// The next round of the loop sees one of the news, or it would be the same round again. The first
// time only the next store is forced on it, and only of one location: what else is new may still
// arrive late. After that it is the newest one: stores become visible in finite time.
void mc__relax(void)
{
    mc__called_from(__builtin_return_address(0));
    if (mc__me == MC__ALONE) {
        mc_fail("livelock: spinning while no other thread runs");
    }
    struct mc__thread *self = mc__self();
    MC__TRACE("relaxes");
    mc__rest();
    int news[MC__WATCHED];
    int count = 0;
    for (int i = 0; i < self->watched_count; i++) {
        if (is_newer(self, i)) {
            news[count++] = i;
        }
    }
    if (count > 0) {
        int chosen = news[mc__choice(count)];
        int location = self->watched[chosen].location;
        const struct mc__location *where = &mc__locations[location];
        int next = where->count - 1;
        while (self->rests == 1 && mc__store_at(where, next - 1)->at > self->watched[chosen].at) {
            next--;
        }
        if (self->now.seen[location] < mc__store_at(where, next)->at) {
            self->now.seen[location] = mc__store_at(where, next)->at;
        }
    }
    self->watched_count = 0;
    self->has_changed = false;
}

// Allocator.

void *mc_alloc(size_t size_bytes)
{
    size_t rounded = (size_bytes + 15) & ~(size_t)15;
    if (block_count == MAX_BLOCKS || rounded > ARENA_BYTES - arena_used) {
        mc_fail("model too big: out of blocks or memory");
    }
    char *block = arena + arena_used;
    arena_used += rounded;
    blocks[block_count].start = block;
    blocks[block_count++].size = size_bytes;
    for (size_t i = 0; i < size_bytes; i++) {
        block[i] = 0;
    }
    return block;
}

void mc__free(void *block)
{
    mc__called_from(__builtin_return_address(0));
    for (int i = 0; i < block_count; i++) {
        if (blocks[i].start == block) {
            mc__forbid(block, blocks[i].size);
            return;
        }
    }
    if (block != NULL) {
        mc_fail("freed a block that mc_alloc() did not hand out: %p", block);
    }
}
