// uring_buffers.c - a carrier's receive buffers.
//
// The kernel takes a buffer from a ring when there are bytes to put into it, so that an idle
// connection holds none. The ring is a queue; if every free buffer stood in it, all memory would be
// walked through again and again, and all of it would stay resident and cold. So only a window of
// them is offered, the warmest ones, and the window grows when an op finds the ring empty.
//
//   B1  Every buffer is in one place: free, offered, or with the owner of an op.
//   B2  `offered` counts those that a completion has not told us about; the kernel may have taken
//       more. It is never too small.
//
// Where the kernel has no such ring (before Linux 5.19) ops wait by poll, and the driver receives
// into a free buffer itself.
#include <errno.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/sys.h"
#include "io/uring.h"

#if WEFT__ASAN
#include <sanitizer/asan_interface.h>
#endif

enum {
    DEFAULT_BUFFERS = WEFT__SIZED(256, 4),
    DEFAULT_BYTES = WEFT__SIZED(16384, 256),
    MOST_BUFFERS = 32768, // the kernel's limit
    FIRST_WINDOW = WEFT__SIZED(32, 1),
    GROUP = 0,
};

static uint32_t round_up(uint32_t count)
{
    uint32_t power = 1;
    while (power < count && power < MOST_BUFFERS) {
        power *= 2;
    }
    return power;
}

static size_t whole_pages(size_t bytes)
{
    size_t page = weft__sys_page_bytes();
    return (bytes + page - 1) / page * page;
}

static void poison(struct weft__uring_buffers *b, uint16_t number, bool poisoned)
{
#if WEFT__ASAN
    char *start = b->memory + (size_t)number * b->bytes;
    poisoned ? __asan_poison_memory_region(start, b->bytes)
             : __asan_unpoison_memory_region(start, b->bytes);
#else
    (void)b;
    (void)number;
    (void)poisoned;
#endif
}

/// Registers the ring, where the kernel has one.
static int open_ring(struct weft__uring *u)
{
    struct weft__uring_buffers *b = &u->buffers;
    if ((weft__uring_without & WEFT__URING_BUFFER_RING) != 0) {
        return 0;
    }
    void *memory;
    b->ring_bytes = whole_pages(b->count * sizeof(struct io_uring_buf));
    int rc = weft__sys_map(&memory, b->ring_bytes, weft__sys_page_bytes());
    if (rc < 0) {
        return rc;
    }
    struct io_uring_buf_reg reg = {
        .ring_addr = (uintptr_t)memory,
        .ring_entries = b->count,
        .bgid = GROUP,
    };
    rc = io_uring_register_buf_ring(&u->ring, &reg, 0);
    if (rc < 0) {
        weft__sys_unmap(memory, b->ring_bytes);
        // Before 5.19, or forbidden: then it goes without.
        return rc == -ENOMEM ? rc : 0;
    }
    b->ring = memory;
    u->features |= WEFT__URING_BUFFER_RING;
    return 0;
}

int weft__uring_buffers_open(struct weft__uring *u, const struct weft__driver_config *config)
{
    struct weft__uring_buffers *b = &u->buffers;
    void *memory;
    b->count = round_up(config->buffers != 0 ? config->buffers : DEFAULT_BUFFERS);
    b->bytes = config->buffer_bytes != 0 ? config->buffer_bytes : DEFAULT_BYTES;
    b->free = weft__alloc(u->allocator, b->count * sizeof *b->free, _Alignof(uint16_t));
    if (b->free == NULL) {
        return -ENOMEM;
    }
    int rc = weft__sys_map(&memory, whole_pages((size_t)b->count * b->bytes),
                           weft__sys_page_bytes());
    if (rc < 0) {
        return rc;
    }
    b->memory = memory;
    rc = open_ring(u);
    if (rc < 0) {
        return rc;
    }
    for (uint32_t i = 0; i < b->count; i++) { // the lowest comes out first
        b->free[i] = (uint16_t)(b->count - 1 - i);
        poison(b, (uint16_t)i, true);
    }
    b->free_count = b->count;
    b->window = b->count < FIRST_WINDOW ? b->count : FIRST_WINDOW;
    weft__uring_buffers_offer(u);
    return 0;
}

void weft__uring_buffers_close(struct weft__uring *u)
{
    struct weft__uring_buffers *b = &u->buffers;
    if (b->ring != NULL) {
        weft__sys_unmap(b->ring, b->ring_bytes);
    }
    if (b->memory != NULL) {
        for (uint32_t i = 0; i < b->count; i++) { // the address may be mapped again
            poison(b, (uint16_t)i, false);
        }
        weft__sys_unmap(b->memory, whole_pages((size_t)b->count * b->bytes));
    }
    weft__free(u->allocator, b->free, b->count * sizeof *b->free);
}

void *weft__uring_buffer(void *state, uint16_t number)
{
    struct weft__uring *u = state;
    weft_assert(number < u->buffers.count);
    return u->buffers.memory + (size_t)number * u->buffers.bytes;
}

void weft__uring_give(void *state, uint16_t number)
{
    struct weft__uring *u = state;
    struct weft__uring_buffers *b = &u->buffers;
    weft_assert(number < b->count && b->free_count < b->count);
    poison(b, number, true);
    b->free[b->free_count++] = number;
}

void weft__uring_buffers_offer(struct weft__uring *u)
{
    struct weft__uring_buffers *b = &u->buffers;
    if (b->ring == NULL || b->offered >= b->window || b->free_count == 0) {
        return;
    }
    while (b->offered < b->window && b->free_count > 0) {
        uint16_t number = b->free[--b->free_count];
        struct io_uring_buf *slot = &b->ring->bufs[b->tail++ & (b->count - 1)];
        slot->addr = (uintptr_t)weft__uring_buffer(u, number);
        slot->len = b->bytes;
        slot->bid = number;
        b->offered++;
    }
    io_uring_smp_store_release(&b->ring->tail, b->tail);
}

void weft__uring_buffers_taken(struct weft__uring *u, uint16_t number)
{
    u->buffers.offered--;
    poison(&u->buffers, number, false);
}

bool weft__uring_buffers_take(struct weft__uring *u, uint16_t *number)
{
    struct weft__uring_buffers *b = &u->buffers;
    if (b->free_count == 0) {
        return false;
    }
    *number = b->free[--b->free_count];
    poison(b, *number, false);
    return true;
}

void weft__uring_buffers_short(struct weft__uring *u)
{
    struct weft__uring_buffers *b = &u->buffers;
    if (b->free_count > 0 && b->window < b->count) {
        b->window *= 2;
    }
}
