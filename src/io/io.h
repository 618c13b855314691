// io.h - the drivers of this layer and how a runtime chooses one.
#ifndef WEFT_IO_IO_H
#define WEFT_IO_IO_H

#include "sched/driver.h"

#include <weft/runtime.h>

/// epoll: always there.
extern const struct weft__driver weft__epoll_driver;

#ifdef WEFT_HAVE_URING
/// io_uring: Linux 5.15 or newer, where nothing forbids it. Opened on the carrier's own thread.
extern const struct weft__driver weft__uring_driver;
#endif

/// Sets `*driver` to the driver that fulfils `wish`. io_uring is chosen only after a real round
/// trip on the calling thread: a ring, an operation, a timeout, a kick and, if the runtime will need
/// it from the start, a `lookout`. `why` (at least one byte) gets a line for the log if the answer is
/// not the first choice, or else an empty string.
///
/// Errors: -EINVAL          `wish` is not one
///         -EMFILE, -ENFILE no descriptors left for the trial; no driver would do better
///         others           WEFT_IO_URING was asked for and this is why it is not to be had
int weft__io_choose(const struct weft__driver **driver, enum weft_io wish, bool lookout, char *why,
                    size_t why_size);

#endif
