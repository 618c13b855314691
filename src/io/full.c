// full.c - reading and writing everything, however many calls that takes.
//
// What was moved before an error is never lost: `moved` says how much it was.
#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <sys/uio.h>

#include <weft/io.h>

#include "io/call.h"
#include "io/hold.h"

/// The end of every full form that has begun.
static ssize_t finish(size_t *moved, size_t done, ssize_t error, struct weft__hold *hold)
{
    weft__hold_end(hold);
    if (moved != NULL) {
        *moved = done;
    }
    return error < 0 ? error : (ssize_t)done;
}

static ssize_t refuse(size_t *moved, size_t done, int error)
{
    if (moved != NULL) {
        *moved = done;
    }
    return error;
}

ssize_t weft_read_full(size_t *moved, int fd, void *data, size_t size, weft_time deadline)
{
    struct weft__hold hold;
    size_t done = 0;
    int rc = size <= SSIZE_MAX ? weft__hold_begin(&hold, &fd, 1) : -EINVAL;
    if (rc < 0) {
        return refuse(moved, 0, rc);
    }
    for (;;) {
        ssize_t n = weft_read(fd, (char *)data + done, size - done, deadline);
        done += n > 0 ? (size_t)n : 0;
        if (n <= 0 || done == size) {
            return finish(moved, done, n, &hold);
        }
    }
}

/// What the first call did not take.
static ssize_t write_rest(size_t *moved, int fd, const void *data, size_t size, size_t done,
                          weft_time deadline)
{
    struct weft__hold hold;
    int rc = weft__hold_begin(&hold, &fd, 1);
    if (rc < 0) {
        return refuse(moved, done, rc);
    }
    for (;;) {
        ssize_t n = weft_write(fd, (const char *)data + done, size - done, deadline);
        if (n == 0 && done < size) {
            n = -EIO; // nothing was refused and nothing was taken: asking again would never end
        }
        done += n > 0 ? (size_t)n : 0;
        if (n < 0 || done == size) {
            return finish(moved, done, n, &hold);
        }
    }
}

ssize_t weft_write_full(size_t *moved, int fd, const void *data, size_t size, weft_time deadline)
{
    if (size > SSIZE_MAX) {
        return refuse(moved, 0, -EINVAL);
    }
    int64_t n = weft__write_now(fd, data, size); // no other call follows: nothing to hold
    if (weft__unlikely(n != (int64_t)size)) {
        size_t done = n > 0 ? (size_t)n : 0;
        return n < 0 && n != -EAGAIN ? refuse(moved, 0, (int)n)
                                     : write_rest(moved, fd, data, size, done, deadline);
    }
    if (moved != NULL) {
        *moved = size;
    }
    return (ssize_t)size;
}

/// How many parts go into one call.
#define PARTS_AT_ONCE WEFT__SIZED(64, 2)

/// Where a gathered write stands: `index` parts are done, and `offset` bytes of the next.
struct place {
    int index;
    size_t offset;
};

/// Copies what comes next, without empty parts. Returns how many.
static int gather(struct iovec *next, const struct iovec *parts, int count, struct place place)
{
    int used = 0;
    for (int i = place.index; i < count && used < PARTS_AT_ONCE; i++) {
        size_t skip = i == place.index ? place.offset : 0;
        if (parts[i].iov_len > skip) {
            next[used++] = (struct iovec){ (char *)parts[i].iov_base + skip,
                                           parts[i].iov_len - skip };
        }
    }
    return used;
}

static void advance(struct place *place, const struct iovec *parts, size_t bytes)
{
    while (bytes > 0) {
        size_t left = parts[place->index].iov_len - place->offset;
        if (bytes < left) {
            place->offset += bytes;
            return;
        }
        bytes -= left;
        place->index++;
        place->offset = 0;
    }
}

static int check_parts(const struct iovec *parts, int count)
{
    size_t total = 0;
    if (count < 0) {
        return -EINVAL;
    }
    if (parts == NULL && count > 0) {
        return -EFAULT;
    }
    for (int i = 0; i < count; i++) {
        if (parts[i].iov_len > SSIZE_MAX - total) {
            return -EINVAL;
        }
        total += parts[i].iov_len;
    }
    return 0;
}

ssize_t weft_writev_full(size_t *moved, int fd, const struct iovec *parts, int count,
                         weft_time deadline)
{
    struct iovec next[PARTS_AT_ONCE] = { { NULL, 0 } };
    struct place place = { 0, 0 };
    size_t done = 0;
    struct weft__hold hold;
    int rc = check_parts(parts, count);
    rc = rc == 0 ? weft__hold_begin(&hold, &fd, 1) : rc;
    if (rc < 0) {
        return refuse(moved, 0, rc);
    }
    for (bool first = true;; first = false) {
        int used = gather(next, parts, count, place);
        if (used == 0 && !first) {
            return finish(moved, done, 0, &hold);
        }
        ssize_t n = weft_writev(fd, next, used, deadline);
        if (n == 0 && used > 0) {
            n = -EIO;
        }
        if (n < 0) {
            return finish(moved, done, n, &hold);
        }
        done += (size_t)n;
        advance(&place, parts, (size_t)n);
    }
}
