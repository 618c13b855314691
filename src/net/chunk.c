// chunk.c - memory for output that follows traffic: a connection with nothing to send has none.
#include "base/alloc.h"
#include "net/conn.h"
#include "sched/crew.h"

/// Chunks of the usual size are kept, so that a reply costs no allocation.
#define USUAL_BYTES ((size_t)WEFT__SIZED(8192, 512))
#define KEPT_MAX WEFT__SIZED(64u, 1u)

static size_t whole_bytes(size_t room)
{
    return sizeof(struct weft__chunk) + room;
}

static struct weft__chunk *alloc_chunk(struct weft__carrier *carrier, size_t room)
{
    struct weft__chunk *chunk = weft__alloc_raw(carrier->crew->allocator, whole_bytes(room),
                                                _Alignof(struct weft__chunk));
    if (chunk != NULL) {
        chunk->room = room;
    }
    return chunk;
}

static struct weft__chunk *clear(struct weft__chunk *chunk)
{
    if (chunk != NULL) {
        chunk->next = NULL;
        chunk->data = (const char *)(chunk + 1);
        chunk->start = chunk->end = 0;
        chunk->release = NULL;
        chunk->reference = chunk->left = chunk->lent = false;
    }
    return chunk;
}

struct weft__chunk *weft__chunk_take(struct weft__carrier *carrier, size_t size_bytes)
{
    struct weft__chunk *chunk = carrier->chunks;
    size_t room = USUAL_BYTES - sizeof *chunk;
    if (size_bytes > room || chunk == NULL) {
        return clear(alloc_chunk(carrier, size_bytes > room ? size_bytes : room));
    }
    carrier->chunks = chunk->next;
    carrier->chunks_kept--;
    return clear(chunk);
}

struct weft__chunk *weft__chunk_refer(struct weft__carrier *carrier)
{
    return clear(alloc_chunk(carrier, 0));
}

static void free_chunk(struct weft__carrier *carrier, struct weft__chunk *chunk)
{
    weft__free(carrier->crew->allocator, chunk, whole_bytes(chunk->room));
}

void weft__chunk_give(struct weft__carrier *carrier, struct weft__chunk *chunk)
{
    if (whole_bytes(chunk->room) == USUAL_BYTES && carrier->chunks_kept < KEPT_MAX) {
        chunk->next = carrier->chunks;
        carrier->chunks = chunk;
        carrier->chunks_kept++;
    } else {
        free_chunk(carrier, chunk);
    }
}

void weft__chunks_drain(struct weft__carrier *carrier)
{
    while (carrier->chunks != NULL) {
        struct weft__chunk *chunk = carrier->chunks;
        carrier->chunks = chunk->next;
        free_chunk(carrier, chunk);
    }
    carrier->chunks_kept = 0;
}
