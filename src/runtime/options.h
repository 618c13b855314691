// options.h - from what the user and the environment say to what a runtime does.
#ifndef WEFT_RUNTIME_OPTIONS_H
#define WEFT_RUNTIME_OPTIONS_H

#include <weft/runtime.h>

#include "base/log.h"

/// Fills `*resolved` so that no field is a "default" any more. `*log` is ready to use afterwards,
/// whatever this returns. -EINVAL after having logged what is wrong and what is allowed.
int weft__options_resolve(struct weft_options *resolved, struct weft__log *log,
                          const struct weft_options *options);

/// One option in words, for the page that lists them all.
struct weft__option_text {
    const char *field;
    const char *variable;
    char allowed[96]; // in the variable's unit
    char fallback[32];
    size_t offset; // of the field
    size_t size_bytes;
};

/// Describes option number `index`. False: there are no more.
bool weft__options_describe(size_t index, struct weft__option_text *text);

/// The variables of all options, one after the other. NULL: there are no more.
const char *weft__options_variable(size_t index);

/// Logs which variables in the environment are probably meant to be options.
void weft__options_warn_misspelt(const struct weft__log *log);

#endif
