// rescue.h - what is done for tasks whose carrier is stuck.
#ifndef WEFT_DIAG_RESCUE_H
#define WEFT_DIAG_RESCUE_H

#include "runtime/runtime.h"

/// Sends what is ready on a carrier that is stuck and may run elsewhere to one that is not, or to the
/// spare one, and fires its timers. Does nothing if its thread is about, or if nobody can help. On the
/// monitor's thread, every so often while it is stuck; for runtimes with a remedy.
void weft__rescue(struct weft__runtime *runtime, struct weft__carrier *stuck);

#endif
