#include "io/event.h"

#include <errno.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/sys.h"

void weft__event_signal(int fd)
{
    // Refused only when the counter is full, after 2^64 - 2 signals.
    const uint64_t one = 1;
    int rc = weft__sys_write_all(fd, &one, sizeof one);
    weft_assert(rc == 0);
}

void weft__event_drain(int fd)
{
    uint64_t count;
    ssize_t got = read(fd, &count, sizeof count);
    weft_assert(got == (ssize_t)sizeof count || errno == EAGAIN);
}
