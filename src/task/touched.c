// touched.c - how deep a stack has been.
//
// mincore() says "resident", which for private anonymous memory turns false when a page is swapped
// out. /proc/self/pagemap knows "present" and "swapped", which is what "touched" means, and both
// bits are readable without privileges. mincore() is for machines without /proc.
#include "task/stack.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/sys.h"

#define PAGEMAP_PRESENT (UINT64_C(1) << 63)
#define PAGEMAP_SWAPPED (UINT64_C(1) << 62)
#define BATCH 256

// The number of the first touched page of the `count` pages from `low`; `count` if there is none.
static int64_t first_in_pagemap(int fd, uintptr_t low, size_t page_bytes, int64_t count)
{
    uint64_t entries[BATCH];
    for (int64_t done = 0; done < count;) {
        size_t want = (size_t)(count - done < BATCH ? count - done : BATCH) * sizeof entries[0];
        off_t at = (off_t)((low / page_bytes + (size_t)done) * sizeof entries[0]);
        int64_t got = weft__sys_read_at(fd, entries, want, at) / (int64_t)sizeof entries[0];
        if (got <= 0) {
            return -EIO;
        }
        for (int64_t i = 0; i < got; i++) {
            if ((entries[i] & (PAGEMAP_PRESENT | PAGEMAP_SWAPPED)) != 0) {
                return done + i;
            }
        }
        done += got;
    }
    return count;
}

static int64_t first_resident(uintptr_t low, size_t page_bytes, int64_t count)
{
    unsigned char pages[BATCH];
    for (int64_t done = 0; done < count;) {
        int64_t batch = count - done < BATCH ? count - done : BATCH;
        int rc = weft__sys_resident((const void *)(low + (size_t)done * page_bytes),
                                    (size_t)batch * page_bytes, pages);
        if (rc < 0) {
            return rc;
        }
        for (int64_t i = 0; i < batch; i++) {
            if ((pages[i] & 1) != 0) {
                return done + i;
            }
        }
        done += batch;
    }
    return count;
}

int64_t weft__stack_touched(const void *low, const void *high)
{
    size_t page_bytes = weft__sys_page_bytes();
    uintptr_t start = (uintptr_t)low & ~(page_bytes - 1);
    uintptr_t end = ((uintptr_t)high + page_bytes - 1) & ~(page_bytes - 1);
    int64_t count = (int64_t)((end - start) / page_bytes);
    int64_t first = -ENOENT;
    int fd = weft__sys_open_read("/proc/self/pagemap");
    if (fd >= 0) {
        first = first_in_pagemap(fd, start, page_bytes, count);
        weft__sys_close(fd);
    }
    if (first < 0) {
        first = first_resident(start, page_bytes, count);
    }
    return first < 0 ? first : (count - first) * (int64_t)page_bytes;
}
