// http.c - reading and writing heads.
#include "http.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

struct text {
    const char *at;
    size_t size;
};

// Cuts off what stands before the first `mark`, which goes away. False: there is none.
static bool cut(struct text *out, struct text *from, const char *mark)
{
    size_t length = strlen(mark);
    const char *found = memmem(from->at, from->size, mark, length);
    if (found == NULL) {
        return false;
    }
    *out = (struct text){ from->at, (size_t)(found - from->at) };
    from->at = found + length;
    from->size -= out->size + length;
    return true;
}

static bool is(struct text text, const char *word)
{
    return text.size == strlen(word) && strncasecmp(text.at, word, text.size) == 0;
}

static int parse_number(size_t *out, struct text text)
{
    *out = 0;
    for (size_t i = 0; i < text.size; i++) {
        if (text.at[i] < '0' || text.at[i] > '9') {
            return -EBADMSG;
        }
        *out = *out * 10 + (size_t)(text.at[i] - '0');
        if (*out > HTTP_MESSAGE_MAX) {
            return -EMSGSIZE;
        }
    }
    return text.size > 0 ? 0 : -EBADMSG;
}

// "HTTP/1.1" keeps the connection, "HTTP/1.0" does not unless it says so.
static int parse_version(struct http_head *out, struct text line, bool is_reply)
{
    if (line.size < 8) {
        return -EBADMSG;
    }
    const char *version = is_reply ? line.at : line.at + line.size - 8;
    out->close = version[7] == '0';
    return memcmp(version, "HTTP/1.", 7) == 0 ? 0 : -EBADMSG;
}

static int parse_field(struct http_head *out, struct text line)
{
    struct text name;
    if (!cut(&name, &line, ":") || name.size == 0) {
        return -EBADMSG;
    }
    while (line.size > 0 && (line.at[0] == ' ' || line.at[0] == '\t')) {
        line.at++;
        line.size--;
    }
    while (line.size > 0 && (line.at[line.size - 1] == ' ' || line.at[line.size - 1] == '\t')) {
        line.size--;
    }
    if (is(name, "content-length")) {
        return parse_number(&out->body_bytes, line);
    }
    if (is(name, "transfer-encoding")) {
        return -ENOTSUP;
    }
    if (is(name, "connection")) {
        out->close = is(line, "close") || (out->close && !is(line, "keep-alive"));
    }
    return 0;
}

// The version, which ends the first line of a request and begins that of a reply, and what the fields
// say. The rest of the line is the caller's.
static int parse(struct http_head *out, struct text *first, bool is_reply, const char *data,
                 size_t size)
{
    struct text rest = { data, size }, head, line;
    *out = (struct http_head){ 0 };
    if (!cut(&head, &rest, "\r\n\r\n")) {
        return size >= HTTP_MESSAGE_MAX ? -EMSGSIZE : 0;
    }
    out->head_bytes = (size_t)(rest.at - data);
    head.size += 2; // so that the last line has its end as well
    cut(first, &head, "\r\n");
    int rc = parse_version(out, *first, is_reply);
    while (rc == 0 && cut(&line, &head, "\r\n")) {
        rc = parse_field(out, line);
    }
    if (rc == 0 && out->head_bytes + out->body_bytes > HTTP_MESSAGE_MAX) {
        rc = -EMSGSIZE;
    }
    return rc < 0 ? rc : 1;
}

int http_parse_request(struct http_head *out, const char *data, size_t size)
{
    struct text line = { 0 }, method, target;
    int rc = parse(out, &line, false, data, size);
    if (rc <= 0) {
        return rc;
    }
    if (!cut(&method, &line, " ") || method.size == 0 || !cut(&target, &line, " ") ||
        target.size == 0 || line.size != 8) {
        return -EBADMSG;
    }
    out->target = target.at;
    out->target_bytes = target.size;
    return 1;
}

int http_parse_reply(struct http_head *out, const char *data, size_t size)
{
    struct text line = { 0 }, version, code;
    size_t status;
    int rc = parse(out, &line, true, data, size);
    if (rc <= 0) {
        return rc;
    }
    if (!cut(&version, &line, " ") || version.size != 8 || line.size < 3) {
        return -EBADMSG;
    }
    code = (struct text){ line.at, 3 };
    rc = parse_number(&status, code);
    out->status = (unsigned)status;
    return rc < 0 ? rc : 1;
}

int http_request(char *out, const char *target, size_t target_bytes)
{
    int n = snprintf(out, HTTP_MESSAGE_MAX, "GET %.*s HTTP/1.1\r\nHost: backend\r\n\r\n",
                     (int)target_bytes, target);
    return n < HTTP_MESSAGE_MAX ? n : -EMSGSIZE;
}

static const char *reason_of(unsigned status)
{
    return status == 200 ? "OK" : status == 400 ? "Bad Request" : "Bad Gateway";
}

int http_reply(char *out, unsigned status, bool close, const char *body, size_t body_bytes)
{
    int n = snprintf(out, HTTP_MESSAGE_MAX,
                     "HTTP/1.1 %u %s\r\nContent-Type: text/plain\r\n%sContent-Length: %zu\r\n\r\n",
                     status, reason_of(status), close ? "Connection: close\r\n" : "", body_bytes);
    if ((size_t)n + body_bytes > HTTP_MESSAGE_MAX) {
        return -EMSGSIZE;
    }
    memcpy(out + n, body, body_bytes);
    return n + (int)body_bytes;
}
