// monitor.h - a thread that notices tasks which hold their carrier.
#ifndef WEFT_DIAG_MONITOR_H
#define WEFT_DIAG_MONITOR_H

#include "runtime/runtime.h"

/// Starts it, if the options say so. The carriers run. Failure is logged and does no harm.
void weft__monitor_start(struct weft__runtime *runtime);

/// Has it look now, for somebody who has marked a carrier. Does nothing if it was not started.
void weft__monitor_call(struct weft__runtime *runtime);

/// Ends it. The carriers still run. Does nothing if it was not started.
void weft__monitor_stop(struct weft__runtime *runtime);

#endif
