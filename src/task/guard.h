// guard.h - pages below a stack that may not be touched.
#ifndef WEFT_TASK_GUARD_H
#define WEFT_TASK_GUARD_H

#include "base/base.h"

enum weft__guard {
    WEFT__GUARD_NONE,   ///< the budget of mappings is spent; counted
    WEFT__GUARD_MARKED, ///< marked in the page tables: costs no mapping, survives MADV_DONTNEED
    WEFT__GUARD_MAPPED, ///< by mprotect(): costs mappings out of a budget
};

/// Makes [base, base + size_bytes) inaccessible in the cheapest way there is.
enum weft__guard weft__guard_install(void *base, size_t size_bytes);

/// Makes [base, base + size_bytes), with `mapped` guards of the MAPPED kind in it, usable again.
void weft__guard_remove(void *base, size_t size_bytes, uint32_t mapped);

/// How many guards could not be installed in this process.
uint64_t weft__guard_missing(void);

#endif
