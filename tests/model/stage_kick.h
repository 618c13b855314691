// stage_kick.h - kickers, and an owner who sleeps in a real driver. For the models of io/token.h.
//
// Each kicker publishes something relaxed and kicks; the owner looks, and waits until it has seen all.
// So only the token can make visible what was published: a kick that is lost leaves the owner asleep,
// and so does one whose owner looks at old values and sleeps again. The kernel in between wakes, but
// orders no memory.
#ifndef MODEL_STAGE_KICK_H
#define MODEL_STAGE_KICK_H

#include <stdbool.h>

struct weft__driver;

enum { STAGE_KICKERS = 2 };

// From setup: an owner and so many kickers, each of whom publishes and kicks `kicks` times. With
// `polls` the owner polls before it waits, as a carrier that is busy does.
void stage_kick_init(const struct weft__driver *driver, void *state, int kickers, int kicks,
                     bool polls);

// Rings the bell that the owner's kernel sleeps on; any thread. Several rings may count as one.
void stage_bell_ring(void);

// The owner's kernel: whether it has rung. Blocks for that, or returns false at any moment.
bool stage_bell_wait(bool blocks);

#endif
