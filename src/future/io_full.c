// io_full.c - reading and writing everything as futures, however many operations that takes.
//
// What was moved before an error is never lost: `moved` says how much it was. The operations follow each
// other on the carrier (io_future.c, I6): the owner is woken once, when all is over.
#include <errno.h>
#include <limits.h>
#include <stdint.h>

#include "future/io_future.h"
#include "io/fd_api.h"

/// All but `done`, which is the carrier's while in flight, is fixed.
struct full {
    struct weft__io_series series;
    size_t *moved; // may be NULL
    char *data;
    size_t size;
    size_t done;
    uint8_t code; // enum weft__op_code
};
_Static_assert(sizeof(struct full) <= sizeof(struct weft_full_future), "public size");

static struct weft__op rest_of(const struct full *full)
{
    size_t left = full->size - full->done;
    struct weft__op op = { .code = full->code,
                           .fd = full->series.io.use.fd,
                           .data = full->data + full->done,
                           .size = left < WEFT__TRANSFER_MOST ? left : WEFT__TRANSFER_MOST,
                           .offset = -1 };
    return op;
}

/// On the carrier: an operation has ended.
static enum weft__io_step next(struct weft__io_future *io)
{
    struct full *full = weft__container_of(io, struct full, series.io);
    int64_t result = io->op.result;
    if (result < 0) {
        return WEFT__IO_OVER;
    }
    full->done += (size_t)result;
    if (result > 0 && full->done < full->size) {
        io->op = rest_of(full);
        return WEFT__IO_GO_ON;
    }
    bool stuck = full->done < full->size && full->code == WEFT__OP_WRITE;
    // Nothing was refused and nothing was taken: asking again would never end.
    io->op.result = stuck ? -EIO : (int64_t)full->done;
    return WEFT__IO_OVER;
}

static enum weft_poll poll(struct weft_future *future, weft_waker *waker)
{
    const struct full *full = weft__container_of(future, struct full, series.io.future);
    enum weft_poll rc = weft__io_future_poll(future, waker);
    if (rc == WEFT_READY && full->moved != NULL) {
        *full->moved = full->done;
    }
    return rc;
}

static void init(struct weft_full_future *public_full, enum weft__op_code code, size_t *moved,
                 int fd, void *data, size_t size)
{
    struct full *full = (struct full *)(void *)public_full;
    struct weft__op op = { .fd = fd };
    *full = (struct full){ .moved = moved, .data = data, .size = size, .code = (uint8_t)code };
    weft__io_future_init(&full->series.io, op, size <= SSIZE_MAX ? 0 : -EINVAL);
    full->series.io.future.poll = poll;
    weft__io_series_init(&full->series, -1, next);
    full->series.io.op = rest_of(full);
    if (moved != NULL) {
        *moved = 0;
    }
}

void weft_read_full_future(struct weft_full_future *full, size_t *moved, int fd, void *data,
                           size_t size)
{
    init(full, WEFT__OP_READ, moved, fd, data, size);
}

void weft_write_full_future(struct weft_full_future *full, size_t *moved, int fd, const void *data,
                            size_t size)
{
    init(full, WEFT__OP_WRITE, moved, fd, (void *)(uintptr_t)data, size); // only read
}
