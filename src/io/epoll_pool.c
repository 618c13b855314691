// epoll_pool.c - receive buffers of the epoll driver.
//
// One mapping, committed as buffers are used for the first time. The one that came back last goes out
// first, so that few are touched as long as few are out.
#include "io/epoll.h"

#include <errno.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/sys.h"

#define DEFAULT_BUFFERS WEFT__SIZED(256, 8)
#define DEFAULT_BYTES (WEFT__SIZED(16, 1) * 1024u)

static size_t mapped_bytes(const struct weft__pool *pool)
{
    size_t page = weft__sys_page_bytes();
    return ((size_t)pool->count * pool->size + page - 1) / page * page;
}

int weft__pool_init(struct weft__epoll *e, uint32_t count, uint32_t size)
{
    struct weft__pool *pool = &e->pool;
    pool->count = count != 0 ? count : DEFAULT_BUFFERS;
    pool->size = size != 0 ? size : DEFAULT_BYTES;
    weft_assert(pool->count <= UINT16_MAX + 1u);
    pool->free = weft__alloc(e->allocator, pool->count * sizeof *pool->free, _Alignof(uint16_t));
    if (pool->free == NULL) {
        return -ENOMEM;
    }
    void *memory;
    int rc = weft__sys_map(&memory, mapped_bytes(pool), WEFT__LINE_PAIR);
    if (rc < 0) {
        return rc;
    }
    pool->memory = memory;
    for (uint32_t i = 0; i < pool->count; i++) {
        pool->free[i] = (uint16_t)(pool->count - 1 - i);
    }
    pool->free_count = pool->count;
    return 0;
}

void weft__pool_fini(struct weft__epoll *e)
{
    struct weft__pool *pool = &e->pool;
    if (pool->memory != NULL) {
        weft__sys_unmap(pool->memory, mapped_bytes(pool));
    }
    weft__free(e->allocator, pool->free, pool->count * sizeof *pool->free);
}

void *weft__epoll_buffer(void *state, uint16_t number)
{
    struct weft__pool *pool = &((struct weft__epoll *)state)->pool;
    weft_assert(number < pool->count);
    return pool->memory + (size_t)number * pool->size;
}
