// addr_text.c - addresses as text: weft_addr_parse() and its exact inverse weft_addr_format().
//
// The text is cut into scheme, host and port by one rule each, and each part must be used up to its
// last byte. inet_pton() reads the numbers: it takes neither "1.2.3" nor leading zeros.
//
// Checked by: tests/api/addr_test.c, tests/fuzz/addr_fuzz.c.
#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>

#include "net/addr.h"

/// A piece of the text.
struct piece {
    const char *at;
    size_t bytes;
};

static const struct {
    const char *name;
    enum weft_addr_kind kind;
} schemes[] = {
    { "tcp", WEFT_ADDR_TCP },
    { "udp", WEFT_ADDR_UDP },
    { "unix", WEFT_ADDR_UNIX },
    { "unixgram", WEFT_ADDR_UNIXGRAM },
    { "unixpacket", WEFT_ADDR_UNIXPACKET },
};

static bool is(struct piece piece, const char *word)
{
    return piece.bytes == strlen(word) && memcmp(piece.at, word, piece.bytes) == 0;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/// A decimal number without sign, spaces or leading zeros. -EINVAL: it is none. -ERANGE: it is
/// greater than `most`.
static int parse_number(uint64_t *number, struct piece piece, uint64_t most)
{
    *number = 0;
    if (piece.bytes == 0 || (piece.at[0] == '0' && piece.bytes > 1)) {
        return -EINVAL;
    }
    bool too_great = false;
    for (size_t i = 0; i < piece.bytes; i++) {
        if (!is_digit(piece.at[i])) {
            return -EINVAL;
        }
        if (!too_great) {
            *number = *number * 10 + (uint64_t)(piece.at[i] - '0');
            too_great = *number > most;
        }
    }
    return too_great ? -ERANGE : 0;
}

/// Copies a piece as a string. False: it is longer than the room.
static bool copy(char *text, size_t room, struct piece piece)
{
    if (piece.bytes >= room) {
        return false;
    }
    memcpy(text, piece.at, piece.bytes);
    text[piece.bytes] = '\0';
    return true;
}

uint32_t weft__addr_interface(const char *name)
{
    return if_nametoindex(name);
}

static int parse_scope(uint32_t *scope, struct piece piece)
{
    uint64_t number;
    switch (parse_number(&number, piece, UINT32_MAX)) {
    case 0: *scope = (uint32_t)number; return number != 0 ? 0 : -ENODEV;
    case -ERANGE: return -ENODEV;
    default: break;
    }
    if (piece.bytes == 0 || is_digit(piece.at[0])) {
        return -EINVAL;
    }
    char name[IF_NAMESIZE];
    *scope = copy(name, sizeof name, piece) ? weft__addr_interface(name) : 0;
    return *scope != 0 ? 0 : -ENODEV;
}

/// What stands between [ and ].
static int parse_v6(struct weft__addr *addr, struct piece host)
{
    char text[INET6_ADDRSTRLEN];
    const char *percent = memchr(host.at, '%', host.bytes);
    struct piece number = { host.at, percent != NULL ? (size_t)(percent - host.at) : host.bytes };
    addr->v6.sin6_family = AF_INET6;
    addr->size = sizeof addr->v6;
    if (!copy(text, sizeof text, number) || inet_pton(AF_INET6, text, &addr->v6.sin6_addr) != 1) {
        return -EINVAL;
    }
    if (percent == NULL) {
        return 0;
    }
    if (IN6_IS_ADDR_V4MAPPED(&addr->v6.sin6_addr)) {
        return -EINVAL; // IPv4 has no scopes
    }
    struct piece scope = { percent + 1, host.bytes - number.bytes - 1 };
    return parse_scope(&addr->v6.sin6_scope_id, scope);
}

static int parse_v4(struct weft__addr *addr, struct piece host)
{
    char text[INET_ADDRSTRLEN];
    addr->v4.sin_family = AF_INET;
    addr->size = sizeof addr->v4;
    if (is(host, "localhost")) {
        addr->v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        return 0;
    }
    return copy(text, sizeof text, host) && inet_pton(AF_INET, text, &addr->v4.sin_addr) == 1
               ? 0
               : -EINVAL;
}

static int parse_host(struct weft__addr *addr, struct piece host)
{
    if (host.bytes == 0 || is(host, "*")) {
        addr->v6.sin6_family = AF_INET6; // the rest of [::] is zero
        addr->size = sizeof addr->v6;
        addr->any_address = true;
        return 0;
    }
    if (host.at[0] != '[') {
        return parse_v4(addr, host);
    }
    if (host.bytes < 2 || host.at[host.bytes - 1] != ']') {
        return -EINVAL;
    }
    return parse_v6(addr, (struct piece){ host.at + 1, host.bytes - 2 });
}

static int parse_ip(struct weft__addr *addr, const char *text)
{
    const char *colon = strrchr(text, ':');
    if (colon == NULL) {
        return -EINVAL;
    }
    uint64_t port;
    int rc = parse_host(addr, (struct piece){ text, (size_t)(colon - text) });
    if (rc == 0) {
        rc = parse_number(&port, (struct piece){ colon + 1, strlen(colon + 1) }, UINT16_MAX);
    }
    if (rc < 0) {
        return rc;
    }
    if (addr->any.sa_family == AF_INET) {
        addr->v4.sin_port = htons((uint16_t)port);
    } else {
        addr->v6.sin6_port = htons((uint16_t)port);
        weft__addr_unmap(addr);
    }
    return 0;
}

static int hex_digit(char c)
{
    if (is_digit(c)) {
        return c - '0';
    }
    if (c >= 'a' && c <= 'f') {
        return c - 'a' + 10;
    }
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/// The next byte of a Unix name, or -1 if a '%' is not followed by two hexadecimal digits.
static int next_byte(const char **text)
{
    const char *at = *text;
    *text = at + 1;
    if (*at != '%') {
        return (unsigned char)*at;
    }
    int high = hex_digit(at[1]);
    int low = high >= 0 ? hex_digit(at[2]) : -1;
    *text = at + 3;
    return low >= 0 ? high * 16 + low : -1;
}

static int parse_unix(struct weft__addr *addr, const char *text)
{
    char name[sizeof addr->un.sun_path];
    size_t bytes = 0;
    bool abstract = text[0] == '@';
    size_t room = abstract ? sizeof name : sizeof name - 1;
    bool too_long = false;
    if (abstract) {
        name[bytes++] = '\0';
        text++;
    }
    while (*text != '\0') {
        int byte = next_byte(&text);
        if (byte < 0 || (byte == 0 && !abstract)) {
            return -EINVAL;
        }
        too_long = too_long || bytes == room;
        if (!too_long) {
            name[bytes++] = (char)byte;
        }
    }
    if (too_long) {
        return -ENAMETOOLONG;
    }
    weft__addr_set_name(addr, name, bytes);
    return 0;
}

/// Finds the kind and returns what follows it, or NULL if there is no such kind.
static const char *parse_scheme(struct weft__addr *addr, const char *text)
{
    const char *end = strstr(text, "://");
    if (end == NULL) {
        addr->kind = WEFT_ADDR_TCP;
        return text;
    }
    for (size_t i = 0; i < WEFT__ARRAY_LEN(schemes); i++) {
        if (is((struct piece){ text, (size_t)(end - text) }, schemes[i].name)) {
            addr->kind = (uint8_t)schemes[i].kind;
            return end + 3;
        }
    }
    return NULL;
}

int weft_addr_parse(struct weft_addr *addr, const char *text)
{
    struct weft__addr parsed = { .kind = WEFT_ADDR_NONE };
    memset(addr, 0, sizeof *addr);
    if (text == NULL) {
        return -EINVAL;
    }
    const char *rest = parse_scheme(&parsed, text);
    if (rest == NULL) {
        return -EPROTONOSUPPORT;
    }
    int rc = weft__addr_is_unix(&parsed) ? parse_unix(&parsed, rest) : parse_ip(&parsed, rest);
    if (rc == 0) {
        memcpy(addr, &parsed, sizeof parsed);
    }
    return rc;
}

// ---------------------------------------------------------------------------------------------

/// Text in the caller's storage: what does not fit is counted all the same.
struct printer {
    char *text;
    size_t room; // with the zero byte; may be 0
    size_t length;
};

static void put(struct printer *to, char c)
{
    if (to->length + 1 < to->room) {
        to->text[to->length] = c;
    }
    to->length++;
}

static void put_words(struct printer *to, const char *words)
{
    while (*words != '\0') {
        put(to, *words++);
    }
}

static void put_number(struct printer *to, uint32_t number)
{
    char digits[12];
    size_t at = sizeof digits;
    digits[--at] = '\0';
    do {
        digits[--at] = (char)('0' + number % 10);
        number /= 10;
    } while (number != 0);
    put_words(to, digits + at);
}

static void put_host(struct printer *to, const struct weft__addr *addr)
{
    char text[INET6_ADDRSTRLEN] = "";
    if (addr->any_address) {
        put(to, '*');
    } else if (addr->any.sa_family == AF_INET) {
        inet_ntop(AF_INET, &addr->v4.sin_addr, text, sizeof text);
        put_words(to, text);
    } else {
        inet_ntop(AF_INET6, &addr->v6.sin6_addr, text, sizeof text);
        put(to, '[');
        put_words(to, text);
        if (addr->v6.sin6_scope_id != 0) {
            put(to, '%');
            put_number(to, addr->v6.sin6_scope_id);
        }
        put(to, ']');
    }
}

static void put_name(struct printer *to, const struct weft__addr *addr)
{
    static const char hex[] = "0123456789ABCDEF";
    const char *name = addr->un.sun_path;
    size_t bytes = weft__addr_name_bytes(addr);
    size_t i = 0;
    if (bytes > 0 && name[0] == '\0') {
        put(to, '@');
        i = 1;
    }
    for (; i < bytes; i++) {
        unsigned char c = (unsigned char)name[i];
        if (c < ' ' || c == '%' || c == 0x7f || (i == 0 && c == '@')) {
            put(to, '%');
            put(to, hex[c >> 4]);
            put(to, hex[c & 15]);
        } else {
            put(to, (char)c);
        }
    }
}

int weft_addr_format(const struct weft_addr *addr, char *text, size_t size)
{
    const struct weft__addr *a = weft__addr_const(addr);
    struct printer to = { text, size, 0 };
    if (a->kind != WEFT_ADDR_NONE) {
        put_words(&to, schemes[a->kind - 1].name);
        put_words(&to, "://");
        if (weft__addr_is_unix(a)) {
            put_name(&to, a);
        } else {
            put_host(&to, a);
            put(&to, ':');
            put_number(&to, (uint32_t)weft_addr_port(addr));
        }
    }
    if (size > 0) {
        text[to.length < size ? to.length : size - 1] = '\0';
    }
    return (int)to.length;
}
