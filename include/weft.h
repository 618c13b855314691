// weft.h - everything weft offers.
#ifndef WEFT_H
#define WEFT_H

#include <weft/addr.h>
#include <weft/async_io.h>
#include <weft/async_net.h>
#include <weft/barrier.h>
#include <weft/base.h>
#include <weft/blocking.h>
#include <weft/broadcast.h>
#include <weft/chan.h>
#include <weft/combine.h>
#include <weft/dgram.h>
#include <weft/future.h>
#include <weft/io.h>
#include <weft/machine.h>
#include <weft/mailbox.h>
#include <weft/mutex.h>
#include <weft/net.h>
#include <weft/notify.h>
#include <weft/once.h>
#include <weft/poller.h>
#include <weft/oneshot.h>
#include <weft/runtime.h>
#include <weft/rwlock.h>
#include <weft/scheduler.h>
#include <weft/scope.h>
#include <weft/select.h>
#include <weft/semaphore.h>
#include <weft/sim.h>
#include <weft/socket.h>
#include <weft/stats.h>
#include <weft/sync.h>
#include <weft/task.h>
#include <weft/time.h>
#include <weft/trace.h>
#include <weft/unix.h>
#include <weft/token.h>
#include <weft/topology.h>
#include <weft/watch.h>

#endif
