// pieces.c - received bytes in receive buffers and in the heap.
#include "net/pieces.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "sched/crew.h"

/// Heap memory comes in this and twice, four times ... as much.
#define SMALLEST_BYTES ((size_t)WEFT__SIZED(1024, 16))
/// A frame that spans buffers is copied; then a little more is copied along, because the next peek
/// often asks for a few bytes more.
#define COPY_AHEAD_BYTES ((size_t)4096)

static struct weft__piece *piece_at(struct weft__conn *conn, unsigned i)
{
    return &conn->pieces[(conn->first_piece + i) % WEFT__CONN_PIECES];
}

static size_t left_in(const struct weft__piece *piece)
{
    return piece->end - piece->start;
}

static bool in_heap(const struct weft__piece *piece)
{
    return piece->room != 0;
}

static char *bytes_of(const struct weft__piece *piece)
{
    return piece->memory + piece->start;
}

static inline void give_memory(struct weft__conn *conn, const struct weft__piece *piece)
{
    struct weft__carrier *carrier = conn->carrier;
    if (in_heap(piece)) {
        weft__free(carrier->crew->allocator, piece->memory, piece->room);
    } else {
        carrier->buffers_held--;
        carrier->driver->give(carrier->driver_state, piece->number);
    }
}

static inline void drop_first(struct weft__conn *conn)
{
    give_memory(conn, piece_at(conn, 0));
    conn->first_piece = (uint8_t)((conn->first_piece + 1) % WEFT__CONN_PIECES);
    conn->pieces_held--;
}

/// Makes room for `more` bytes at the end of the piece, moving it to the heap or to larger memory.
static int reserve(struct weft__conn *conn, struct weft__piece *piece, size_t more)
{
    size_t used = left_in(piece);
    if (in_heap(piece) && piece->room - piece->end >= more) {
        return 0;
    }
    size_t room = SMALLEST_BYTES;
    while (room < used + more) {
        room *= 2;
    }
    if (room > UINT32_MAX) {
        return -ENOMEM;
    }
    char *memory = weft__alloc_raw(conn->carrier->crew->allocator, room, 1);
    if (memory == NULL) {
        return -ENOMEM;
    }
    memcpy(memory, bytes_of(piece), used);
    give_memory(conn, piece);
    *piece = (struct weft__piece){ .memory = memory,
                                   .room = (uint32_t)room,
                                   .end = (uint32_t)used };
    return 0;
}

static int append(struct weft__conn *conn, struct weft__piece *piece, const char *bytes,
                  size_t size)
{
    int rc = reserve(conn, piece, size);
    if (rc == 0) {
        memcpy(piece->memory + piece->end, bytes, size);
        piece->end += (uint32_t)size;
    }
    return rc;
}

/// A heap piece at the end that may be moved: the last one, unless it is the first and maybe lent.
static struct weft__piece *heap_tail(struct weft__conn *conn)
{
    if (conn->pieces_held > 1 && in_heap(piece_at(conn, conn->pieces_held - 1u))) {
        return piece_at(conn, conn->pieces_held - 1u);
    }
    return NULL;
}

/// Copies the bytes of a receive buffer behind all others.
static int put_copy(struct weft__conn *conn, const char *bytes, uint32_t size)
{
    struct weft__piece *tail = heap_tail(conn);
    if (tail != NULL) {
        return append(conn, tail, bytes, size);
    }
    weft_assert(conn->pieces_held < WEFT__CONN_PIECES);
    size_t room = size > SMALLEST_BYTES ? size : SMALLEST_BYTES;
    char *memory = weft__alloc_raw(conn->carrier->crew->allocator, room, 1);
    if (memory == NULL) {
        return -ENOMEM;
    }
    memcpy(memory, bytes, size);
    *piece_at(conn, conn->pieces_held++) = (struct weft__piece){
        .memory = memory,
        .room = (uint32_t)room,
        .end = size,
    };
    return 0;
}

int weft__pieces_put(struct weft__conn *conn, uint16_t number, uint32_t size)
{
    struct weft__carrier *carrier = conn->carrier;
    char *memory = carrier->driver->buffer(carrier->driver_state, number);
    if (conn->pieces_held < WEFT__CONN_PIECES - 1 && heap_tail(conn) == NULL &&
        carrier->buffers_held < carrier->buffers_limit) {
        *piece_at(conn, conn->pieces_held++) = (struct weft__piece){
            .memory = memory,
            .end = size,
            .number = number,
        };
        carrier->buffers_held++;
        return 0;
    }
    int rc = put_copy(conn, memory, size);
    carrier->driver->give(carrier->driver_state, number);
    return rc < 0 ? rc : 1;
}

/// Moves up to `most` bytes of the second piece to the end of the first.
static int join_second(struct weft__conn *conn, size_t most)
{
    struct weft__piece *second = piece_at(conn, 1);
    size_t size = left_in(second) < most ? left_in(second) : most;
    int rc = append(conn, piece_at(conn, 0), bytes_of(second), size);
    if (rc < 0) {
        return rc;
    }
    second->start += (uint32_t)size;
    if (left_in(second) == 0) { // the first takes its place
        struct weft__piece *first = piece_at(conn, 0);
        give_memory(conn, second);
        *second = *first;
        conn->first_piece = (uint8_t)((conn->first_piece + 1) % WEFT__CONN_PIECES);
        conn->pieces_held--;
    }
    return 0;
}

int weft__pieces_gather(struct weft__conn *conn, size_t at_least)
{
    int rc = 0;
    while (conn->pieces_held > 1 && left_in(piece_at(conn, 0)) < at_least && rc == 0) {
        size_t lacks = at_least - left_in(piece_at(conn, 0));
        rc = join_second(conn, lacks > COPY_AHEAD_BYTES ? lacks : COPY_AHEAD_BYTES);
    }
    if (rc == 0 && conn->pieces_held == 1 && left_in(piece_at(conn, 0)) < at_least) {
        rc = reserve(conn, piece_at(conn, 0), 0);
    }
    return rc;
}

void weft__pieces_drop(struct weft__conn *conn, size_t size)
{
    while (size > 0) {
        weft_assert(conn->pieces_held > 0 && "more bytes consumed than were lent");
        struct weft__piece *piece = piece_at(conn, 0);
        if (size < left_in(piece)) {
            piece->start += (uint32_t)size;
            return;
        }
        size -= left_in(piece);
        drop_first(conn);
    }
}

void weft__pieces_clear(struct weft__conn *conn)
{
    while (conn->pieces_held > 0) {
        drop_first(conn);
    }
}
