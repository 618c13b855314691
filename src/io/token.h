// token.h - at most one kick under way, however many threads kick.
//
// A kick is a flag in memory plus a message through the kernel that ends the wait. The flag keeps
// the messages few: whoever raises it sends one, everybody else relies on that one.
//
//     kicking (any thread)                 waiting (the owner)
//     exchange(flag, 1)                    sleep until something comes
//     if it was 0, send a message          if a message came: exchange(flag, 0), return
//
//   K1  Flag up means that a message is on its way, or that the owner has taken one and will look
//       at its queues before it sleeps again. So a kick that finds the flag up has nothing to do.
//   K2  The owner lowers the flag only after it has taken the message off the kernel's queue. The
//       other order would lose a kick: lower, kick, take both messages as one, sleep with flag up.
//   K3  Both sides exchange, even where the value does not change: the owner's exchange reads the
//       last kicker's, and so sees what that kicker queued before it kicked, and what those did
//       before it (each exchange continues the release sequence). Nothing flows the other way.
//
// A message that comes although the flag is down is harmless: one wait returns early.
//
// Rejected: a message per kick (a kick storm fills the completion queue, and every message costs a
// system call); lowering the flag before a wait and skipping the sleep if it was up (the message
// still arrives and ends the next sleep, so that nothing is saved).
// Locks: none. Checked by: tests/model/kick_epoll_model.c, tests/model/kick_uring_model.c.
#ifndef WEFT_IO_TOKEN_H
#define WEFT_IO_TOKEN_H

#include <stdatomic.h>

#include "base/base.h"

struct weft__token {
    _Atomic uint32_t raised;
};

/// Any thread: true if the caller must now send the message.
static inline bool weft__token_raise(struct weft__token *token)
{
    return atomic_exchange_explicit(&token->raised, 1, memory_order_release) == 0;
}

/// The owner, after taking a message and before returning from its wait.
static inline void weft__token_lower(struct weft__token *token)
{
    atomic_exchange_explicit(&token->raised, 0, memory_order_acquire);
}

#endif
