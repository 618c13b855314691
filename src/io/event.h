// event.h - an eventfd as a bell: any thread can ring it, and nobody has to drain it.
#ifndef WEFT_IO_EVENT_H
#define WEFT_IO_EVENT_H

#include "base/base.h"

/// One more edge for whoever polls the eventfd. Cannot fail. Any thread.
void weft__event_signal(int fd);

/// Makes the eventfd unreadable until the next signal.
void weft__event_drain(int fd);

#endif
