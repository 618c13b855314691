// system_call.h - names of system calls.
#ifndef WEFT_DIAG_SYSTEM_CALL_H
#define WEFT_DIAG_SYSTEM_CALL_H

/// The name of a system call that may block, or NULL.
const char *weft__system_call_name(long number);

#endif
