// fd_api.h - what the calls on plain descriptors have in common.
#ifndef WEFT_IO_FD_API_H
#define WEFT_IO_FD_API_H

/// What Linux transfers at most in one call (MAX_RW_COUNT with pages of 4096 bytes).
#define WEFT__TRANSFER_MOST ((size_t)0x7ffff000)

#endif
