// guard.c - pages below a stack that may not be touched.
//
// Linux 6.13 can mark guard pages in the page tables (MADV_GUARD_INSTALL, 0.7 us for 64 KiB): no
// mapping is split, so a million stacks need no more than a few. Older kernels get mprotect(),
// which splits a mapping in three; a process may have vm.max_map_count of them (65530), so guards
// take at most a quarter and later stacks go without. Their number can be asked for.
//
// Locked memory (mlockall) cannot be marked either and takes the same way.
#include "task/guard.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/sys.h"

// Newer than Debian 12's headers.
#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#endif
#ifndef MADV_GUARD_REMOVE
#define MADV_GUARD_REMOVE 103
#endif

enum marking { UNKNOWN, WORKS, FAILS };

static _Atomic int marking;
static _Atomic int64_t vma_budget = -1; // -1: not read yet
static _Atomic int64_t vmas_spent;
static _Atomic uint64_t missing;

#define VMAS_PER_GUARD 2

// Asks for a guard and lets the kernel read it: emulators accept advice that they do not know.
static bool probe(void *page, size_t bytes, int fd)
{
    return weft__sys_advise(page, bytes, MADV_GUARD_INSTALL) == 0 &&
           weft__sys_write_all(fd, page, sizeof(uint64_t)) == -EFAULT;
}

static bool marking_works(void)
{
    int known = atomic_load_explicit(&marking, memory_order_relaxed);
    if (known != UNKNOWN) {
        return known == WORKS;
    }
    void *page;
    size_t bytes = weft__sys_page_bytes();
    int fd = weft__sys_eventfd(0);
    if (fd < 0) {
        return false;
    }
    if (weft__sys_map(&page, bytes, bytes) == 0) {
        known = probe(page, bytes, fd) ? WORKS : FAILS;
        weft__sys_unmap(page, bytes);
        atomic_store_explicit(&marking, known, memory_order_relaxed);
    }
    weft__sys_close(fd);
    return known == WORKS;
}

static int64_t read_vma_budget(void)
{
    int64_t budget = atomic_load_explicit(&vma_budget, memory_order_relaxed);
    if (budget < 0) {
        char text[32];
        budget = weft__sys_read_file("/proc/sys/vm/max_map_count", text, sizeof text) > 0
                     ? strtol(text, NULL, 10) / 4
                     : 65530 / 4;
        atomic_store_explicit(&vma_budget, budget, memory_order_relaxed);
    }
    return budget;
}

static bool protect_within_budget(void *base, size_t size_bytes)
{
    int64_t spent = atomic_fetch_add_explicit(&vmas_spent, VMAS_PER_GUARD, memory_order_relaxed);
    if (spent + VMAS_PER_GUARD <= read_vma_budget() &&
        weft__sys_protect(base, size_bytes, PROT_NONE) == 0) {
        return true;
    }
    atomic_fetch_sub_explicit(&vmas_spent, VMAS_PER_GUARD, memory_order_relaxed);
    return false;
}

enum weft__guard weft__guard_install(void *base, size_t size_bytes)
{
    if (marking_works() && weft__sys_advise(base, size_bytes, MADV_GUARD_INSTALL) == 0) {
        return WEFT__GUARD_MARKED;
    }
    if (protect_within_budget(base, size_bytes)) {
        return WEFT__GUARD_MAPPED;
    }
    atomic_fetch_add_explicit(&missing, 1, memory_order_relaxed);
    return WEFT__GUARD_NONE;
}

void weft__guard_remove(void *base, size_t size_bytes, uint32_t mapped)
{
    if (marking_works()) {
        weft__sys_advise(base, size_bytes, MADV_GUARD_REMOVE);
    }
    if (mapped > 0) {
        weft__sys_protect(base, size_bytes, PROT_READ | PROT_WRITE);
        atomic_fetch_sub_explicit(&vmas_spent, (int64_t)mapped * VMAS_PER_GUARD,
                                  memory_order_relaxed);
    }
}

uint64_t weft__guard_missing(void)
{
    return atomic_load_explicit(&missing, memory_order_relaxed);
}
