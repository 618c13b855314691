// weft.h - everything weft offers.
#ifndef WEFT_H
#define WEFT_H

#include <weft/addr.h>
#include <weft/base.h>
#include <weft/blocking.h>
#include <weft/dgram.h>
#include <weft/future.h>
#include <weft/io.h>
#include <weft/net.h>
#include <weft/runtime.h>
#include <weft/scope.h>
#include <weft/sim.h>
#include <weft/socket.h>
#include <weft/task.h>
#include <weft/time.h>
#include <weft/unix.h>

#endif
