// http.h - as much of HTTP/1.1 as front and back end need: heads up to the empty line, keep-alive,
// bodies of a declared length. Works on bytes; who reads and writes them is somebody else's business.
#ifndef WEFT_BENCH_HANDOFF_HTTP_H
#define WEFT_BENCH_HANDOFF_HTTP_H

#include <stdbool.h>
#include <stddef.h>

/// A message, head and body, has to fit.
#define HTTP_MESSAGE_MAX 4096

/// What a head says. Pointers borrow the bytes that were parsed.
struct http_head {
    const char *target; // of a request
    size_t target_bytes;
    unsigned status;   // of a reply
    size_t head_bytes; // with the empty line
    size_t body_bytes; // that follow
    bool close;        // the connection ends with this message
};

/// Reads a head. Returns 1, or 0 if the empty line has not come yet, or a negative errno: -EBADMSG it
/// is not HTTP/1, -ENOTSUP its body has no declared length, -EMSGSIZE it is larger than HTTP_MESSAGE_MAX.
int http_parse_request(struct http_head *out, const char *data, size_t size);
int http_parse_reply(struct http_head *out, const char *data, size_t size);

/// Writes a request for a target, or a reply with a body, to `out`, HTTP_MESSAGE_MAX bytes. Returns how
/// many it has, or -EMSGSIZE.
int http_request(char *out, const char *target, size_t target_bytes);
int http_reply(char *out, unsigned status, bool close, const char *body, size_t body_bytes);

#endif
