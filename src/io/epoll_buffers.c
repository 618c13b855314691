// epoll_buffers.c - receive buffers of the epoll driver.
//
// One mapping, committed as buffers are used for the first time. The one that came back last goes out
// first, so that few are touched as long as few are out. Each begins one line further into its page than
// the one before: a batch of requests uses the first line of many, and at the same place in each they
// would all fight for the same few lines of the cache.
#include "io/epoll.h"

#include <errno.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/sys.h"

#define DEFAULT_BUFFERS WEFT__SIZED(256, 8)
#define DEFAULT_BYTES (WEFT__SIZED(16, 1) * 1024u)

static size_t mapped_bytes(const struct weft__receive *receive)
{
    size_t page = weft__sys_page_bytes();
    return (receive->count * receive->stride + page - 1) / page * page;
}

int weft__epoll_buffers_init(struct weft__epoll *e, uint32_t count, uint32_t size)
{
    struct weft__receive *receive = &e->receive;
    receive->count = count != 0 ? count : DEFAULT_BUFFERS;
    receive->size = size != 0 ? size : DEFAULT_BYTES;
    receive->stride = (size_t)receive->size + WEFT__LINE;
    weft_assert(receive->count <= UINT16_MAX + 1u);
    receive->free = weft__alloc(e->allocator, receive->count * sizeof *receive->free,
                                _Alignof(uint16_t));
    if (receive->free == NULL) {
        return -ENOMEM;
    }
    void *memory;
    int rc = weft__sys_map(&memory, mapped_bytes(receive), WEFT__LINE_PAIR);
    if (rc < 0) {
        return rc;
    }
    receive->memory = memory;
    for (uint32_t i = 0; i < receive->count; i++) {
        receive->free[i] = (uint16_t)(receive->count - 1 - i);
    }
    receive->free_count = receive->count;
    return 0;
}

void weft__epoll_buffers_fini(struct weft__epoll *e)
{
    struct weft__receive *receive = &e->receive;
    if (receive->memory != NULL) {
        weft__sys_unmap(receive->memory, mapped_bytes(receive));
    }
    weft__free(e->allocator, receive->free, receive->count * sizeof *receive->free);
}

void *weft__epoll_buffer(void *state, uint16_t number)
{
    struct weft__receive *receive = &((struct weft__epoll *)state)->receive;
    weft_assert(number < receive->count);
    return receive->memory + number * receive->stride;
}
