// pieces.h - the received bytes of a connection, in order (N1 and N2 in conn.h).
#ifndef WEFT_NET_PIECES_H
#define WEFT_NET_PIECES_H

#include "net/conn.h"

/// Takes over `size` bytes in a receive buffer. 1: as a copy, because enough is held already; the
/// sender should be made to wait. -ENOMEM: they are lost, the buffer is not.
int weft__pieces_put(struct weft__conn *conn, uint16_t number, uint32_t size);

/// The first bytes, as far as they lie in one place; size 0: there are none.
static inline struct weft_slice weft__pieces_first(struct weft__conn *conn)
{
    if (conn->pieces_held == 0) {
        return (struct weft_slice){ NULL, 0 };
    }
    const struct weft__piece *piece = &conn->pieces[conn->first_piece];
    return (struct weft_slice){ piece->memory + piece->start, piece->end - piece->start };
}

/// Brings `at_least` bytes into one place, or all there are: then they are in the heap. Moves what
/// was lent.
int weft__pieces_gather(struct weft__conn *conn, size_t at_least);

/// Drops the first `size` bytes, which are there.
void weft__pieces_drop(struct weft__conn *conn, size_t size);

/// Drops everything.
void weft__pieces_clear(struct weft__conn *conn);

#endif
