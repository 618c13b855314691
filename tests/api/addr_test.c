// addr_test.c - addresses: every form, every error, and the round trip through text and sockaddr.
#include "support/test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <weft.h>

static struct weft_addr parse(const char *text)
{
    struct weft_addr addr;
    int rc = weft_addr_parse(&addr, text);
    if (rc < 0) {
        FAIL("%s: %s", text, strerror(-rc));
    }
    return addr;
}

static const char *format(const struct weft_addr *addr)
{
    static char text[WEFT_ADDR_TEXT_BYTES];
    int length = weft_addr_format(addr, text, sizeof text);
    CHECK_EQ(length, strlen(text));
    CHECK_LT(length, WEFT_ADDR_TEXT_BYTES);
    return text;
}

TEST(every_form_is_read_and_printed_in_its_canonical_form)
{
    static const struct {
        const char *text, *canonical;
        enum weft_addr_kind kind;
        int family, port;
    } cases[] = {
        { "tcp://127.0.0.1:7000", NULL, WEFT_ADDR_TCP, AF_INET, 7000 },
        { "127.0.0.1:7000", "tcp://127.0.0.1:7000", WEFT_ADDR_TCP, AF_INET, 7000 },
        { "localhost:1", "tcp://127.0.0.1:1", WEFT_ADDR_TCP, AF_INET, 1 },
        { "tcp://0.0.0.0:0", NULL, WEFT_ADDR_TCP, AF_INET, 0 },
        { "tcp://255.255.255.255:65535", NULL, WEFT_ADDR_TCP, AF_INET, 65535 },
        { "tcp://[::1]:80", NULL, WEFT_ADDR_TCP, AF_INET6, 80 },
        { "[::]:80", "tcp://[::]:80", WEFT_ADDR_TCP, AF_INET6, 80 },
        { "tcp://[2001:DB8:0:0:0:0:0:1]:80", "tcp://[2001:db8::1]:80", WEFT_ADDR_TCP, AF_INET6,
          80 },
        { "tcp://[fe80::1%4294967295]:80", NULL, WEFT_ADDR_TCP, AF_INET6, 80 },
        { "tcp://[::1.2.3.4]:80", NULL, WEFT_ADDR_TCP, AF_INET6, 80 },
        { "tcp://[::ffff:1.2.3.4]:80", "tcp://1.2.3.4:80", WEFT_ADDR_TCP, AF_INET, 80 },
        { "tcp://*:7000", NULL, WEFT_ADDR_TCP, AF_INET6, 7000 },
        { "tcp://:7000", "tcp://*:7000", WEFT_ADDR_TCP, AF_INET6, 7000 },
        { ":7000", "tcp://*:7000", WEFT_ADDR_TCP, AF_INET6, 7000 },
        { "udp://*:53", NULL, WEFT_ADDR_UDP, AF_INET6, 53 },
        { "udp://10.0.0.1:53", NULL, WEFT_ADDR_UDP, AF_INET, 53 },
        { "unix:///run/app.sock", NULL, WEFT_ADDR_UNIX, AF_UNIX, -1 },
        { "unix://relative.sock", NULL, WEFT_ADDR_UNIX, AF_UNIX, -1 },
        { "unix://@abstract", NULL, WEFT_ADDR_UNIX, AF_UNIX, -1 },
        { "unix://@", NULL, WEFT_ADDR_UNIX, AF_UNIX, -1 },
        { "unix://", NULL, WEFT_ADDR_UNIX, AF_UNIX, -1 },
        { "unix://@@", NULL, WEFT_ADDR_UNIX, AF_UNIX, -1 },
        { "unix://@a%00%00", NULL, WEFT_ADDR_UNIX, AF_UNIX, -1 },
        { "unix://%40file", NULL, WEFT_ADDR_UNIX, AF_UNIX, -1 },
        { "unix://%2Frun%2fx%0a", "unix:///run/x%0A", WEFT_ADDR_UNIX, AF_UNIX, -1 },
        { "unixgram:///run/log://x", NULL, WEFT_ADDR_UNIXGRAM, AF_UNIX, -1 },
        { "unixpacket:///a b:c", NULL, WEFT_ADDR_UNIXPACKET, AF_UNIX, -1 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct weft_addr addr = parse(cases[i].text);
        CHECK_STR(format(&addr), cases[i].canonical != NULL ? cases[i].canonical : cases[i].text);
        CHECK_EQ(weft_addr_kind(&addr), cases[i].kind);
        CHECK_EQ(weft_addr_family(&addr), cases[i].family);
        CHECK_EQ(weft_addr_port(&addr), cases[i].port);
        struct weft_addr again = parse(format(&addr));
        CHECK(weft_addr_equal(&addr, &again));
        CHECK_EQ(weft_addr_hash(&addr), weft_addr_hash(&again));
    }
}

static const struct {
    const char *text;
    int error;
} mistakes[] = {
    { "", -EINVAL },
    { "7000", -EINVAL },
    { "tcp://", -EINVAL },
    { "tcp://:", -EINVAL },
    { "tcp://127.0.0.1", -EINVAL },
    { "tcp://127.0.0.1:", -EINVAL },
    { "tcp://1.2.3:80", -EINVAL },
    { "tcp://1:80", -EINVAL },
    { "tcp://1.2.3.4.5:80", -EINVAL },
    { "tcp://1.2.3.256:80", -EINVAL },
    { "tcp://01.2.3.4:80", -EINVAL },
    { "tcp://0x7f.0.0.1:80", -EINVAL },
    { "tcp://1.2.3.4 :80", -EINVAL },
    { " tcp://1.2.3.4:80", -EPROTONOSUPPORT },
    { "tcp://1.2.3.4: 80", -EINVAL },
    { "tcp://1.2.3.4:80 ", -EINVAL },
    { "tcp://1.2.3.4:80/", -EINVAL },
    { "tcp://1.2.3.4:+80", -EINVAL },
    { "tcp://1.2.3.4:-1", -EINVAL },
    { "tcp://1.2.3.4:080", -EINVAL },
    { "tcp://1.2.3.4:00", -EINVAL },
    { "tcp://1.2.3.4:http", -EINVAL },
    { "tcp://1.2.3.4:65536", -ERANGE },
    { "tcp://1.2.3.4:18446744073709551696", -ERANGE },
    { "tcp://1.2.3.4:65536x", -EINVAL },
    { "tcp://::1:80", -EINVAL },
    { "tcp://[::1]", -EINVAL },
    { "tcp://[::1]80", -EINVAL },
    { "tcp://[::1:80", -EINVAL },
    { "tcp://[]:80", -EINVAL },
    { "tcp://[:80", -EINVAL },
    { "tcp://[::1]]:80", -EINVAL },
    { "tcp://[[::1]:80", -EINVAL },
    { "tcp://[1.2.3.4]:80", -EINVAL },
    { "tcp://[:::]:80", -EINVAL },
    { "tcp://[12345::]:80", -EINVAL },
    { "tcp://[*]:80", -EINVAL },
    { "tcp://[fe80::1%]:80", -EINVAL },
    { "tcp://[fe80::1%01]:80", -EINVAL },
    { "tcp://[fe80::1%1x]:80", -EINVAL },
    { "tcp://[fe80::1%0]:80", -ENODEV },
    { "tcp://[fe80::1%4294967296]:80", -ENODEV },
    { "tcp://[fe80::1%no-such-if]:80", -ENODEV },
    { "tcp://[fe80::1%a-name-that-no-interface-can-have]:80", -ENODEV },
    { "tcp://[::ffff:1.2.3.4%1]:80", -EINVAL },
    { "tcp://**:80", -EINVAL },
    { "tcp://LOCALHOST:80", -EINVAL },
    { "tcp://example.org:80", -EINVAL },
    { "TCP://1.2.3.4:80", -EPROTONOSUPPORT },
    { "http://1.2.3.4:80", -EPROTONOSUPPORT },
    { "://1.2.3.4:80", -EPROTONOSUPPORT },
    { "tcp:/1.2.3.4:80", -EINVAL },
    { "unix:/run/app.sock", -EINVAL },
    { "/run/app.sock", -EINVAL },
    { "unix:///a%", -EINVAL },
    { "unix:///a%4", -EINVAL },
    { "unix:///a%4g", -EINVAL },
    { "unix:///a%00", -EINVAL },
    { "unix://%00a", -EINVAL },
};

TEST(nothing_is_guessed)
{
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
        struct weft_addr addr = parse("tcp://1.2.3.4:5");
        int rc = weft_addr_parse(&addr, mistakes[i].text);
        if (rc != mistakes[i].error) {
            FAIL("\"%s\": %d, expected %d", mistakes[i].text, rc, mistakes[i].error);
        }
        CHECK_EQ(weft_addr_kind(&addr), WEFT_ADDR_NONE);
    }
    struct weft_addr addr;
    CHECK_EQ(weft_addr_parse(&addr, NULL), -EINVAL);
}

/// `first`, and then `word` so many times. Returns the length.
static size_t repeat(char *text, const char *first, const char *word, int times)
{
    char *at = stpcpy(text, first);
    for (int i = 0; i < times; i++) {
        at = stpcpy(at, word);
    }
    return (size_t)(at - text);
}

TEST(unix_names_are_as_long_as_the_kernel_allows)
{
    char text[200] = "unix:///";
    struct weft_addr addr;
    memset(text + 8, 'x', 107);
    CHECK_EQ(weft_addr_parse(&addr, text), -ENAMETOOLONG); // 108 bytes
    text[8 + 106] = '\0';
    CHECK_OK(weft_addr_parse(&addr, text));
    CHECK_STR(format(&addr), text);

    strcpy(text, "unix://@");
    memset(text + 8, 'x', 108);
    CHECK_EQ(weft_addr_parse(&addr, text), -ENAMETOOLONG); // 109 bytes, '@' counted
    text[8 + 107] = '\0';
    CHECK_OK(weft_addr_parse(&addr, text));
    CHECK_STR(format(&addr), text);

    // Escaped bytes count once; and a mistake behind the limit is still a mistake.
    char escaped[400];
    size_t length = repeat(escaped, "unixpacket://@", "%FF", 107);
    CHECK_OK(weft_addr_parse(&addr, escaped));
    memcpy(escaped + length, "%0", sizeof "%0");
    CHECK_EQ(weft_addr_parse(&addr, escaped), -EINVAL);

    // The longest text fits into the room that is promised for it.
    repeat(escaped, "unixpacket://@", "%01", 107);
    CHECK_OK(weft_addr_parse(&addr, escaped));
    CHECK_STR(format(&addr), escaped);
}

TEST(scopes_have_names_and_numbers)
{
    struct weft_addr by_name, by_number;
    if (weft_addr_parse(&by_name, "udp://[fe80::1%lo]:5") == -ENODEV) {
        SKIP("no interface lo");
    }
    CHECK_OK(weft_addr_parse(&by_name, "udp://[fe80::1%lo]:5"));
    CHECK_OK(weft_addr_parse(&by_number, format(&by_name)));
    CHECK(weft_addr_equal(&by_name, &by_number));
    struct weft_addr without = parse("udp://[fe80::1]:5");
    CHECK(!weft_addr_equal(&by_name, &without));
}

TEST(text_is_cut_like_snprintf_does)
{
    struct weft_addr addr = parse("tcp://127.0.0.1:7000");
    char text[32];
    memset(text, 'x', sizeof text);
    CHECK_EQ(weft_addr_format(&addr, text, 4), 20);
    CHECK_STR(text, "tcp");
    CHECK_EQ(text[4], 'x');
    CHECK_EQ(weft_addr_format(&addr, text, 1), 20);
    CHECK_STR(text, "");
    CHECK_EQ(weft_addr_format(&addr, NULL, 0), 20);
    CHECK_EQ(weft_addr_format(&addr, text, 20), 20);
    CHECK_STR(text, "tcp://127.0.0.1:700");
    CHECK_EQ(weft_addr_format(&addr, text, 21), 20);
    CHECK_STR(text, "tcp://127.0.0.1:7000");
    struct weft_addr none = { { 0 } };
    CHECK_EQ(weft_addr_format(&none, text, sizeof text), 0);
    CHECK_STR(text, "");
}

TEST(addresses_differ_by_everything_that_matters)
{
    static const char *const texts[] = {
        "tcp://127.0.0.1:7000",
        "udp://127.0.0.1:7000",
        "tcp://127.0.0.1:7001",
        "tcp://127.0.0.2:7000",
        "tcp://[::1]:7000",
        "tcp://[::1%1]:7000",
        "tcp://[::]:7000",
        "tcp://*:7000",
        "tcp://0.0.0.0:7000",
        "unix://a",
        "unix://@a",
        "unix://@a%00",
        "unixgram://a",
        "unix://",
        "unix://@",
        "unix://ab",
    };
    const size_t count = sizeof texts / sizeof *texts;
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < count; j++) {
            struct weft_addr a = parse(texts[i]), b = parse(texts[j]);
            CHECK_EQ(weft_addr_equal(&a, &b), i == j);
            CHECK_EQ(weft_addr_hash(&a) == weft_addr_hash(&b), i == j);
        }
    }
}

/// The lower bits choose the slot of a table: 4096 peers must not crowd into a few of them.
TEST(hashes_spread_over_small_tables)
{
    unsigned used[1024] = { 0 }, most = 0;
    for (int i = 0; i < 4096; i++) {
        char text[64];
        (void)snprintf(text, sizeof text, "tcp://10.0.%d.1:%d", i % 16, 40000 + i / 16);
        struct weft_addr addr = parse(text);
        unsigned count = ++used[weft_addr_hash(&addr) % 1024];
        most = count > most ? count : most;
    }
    CHECK_LT(most, 24); // 4 on average; chance makes it about 12
}

TEST(loopback_is_this_machine)
{
    static const char *const yes[] = { "127.0.0.1:1", "127.255.0.9:1", "[::1]:1", "unix:///x",
                                       "unixgram://@x" };
    static const char *const no[] = { "128.0.0.1:1", "0.0.0.0:1", "[::2]:1", "[::]:1", "*:1" };
    for (size_t i = 0; i < 5; i++) {
        struct weft_addr a = parse(yes[i]), b = parse(no[i]);
        CHECK(weft_addr_is_loopback(&a));
        CHECK(!weft_addr_is_loopback(&b));
    }
}

TEST(ports_can_be_replaced)
{
    struct weft_addr v4 = parse("udp://1.2.3.4:5"), v6 = parse("[::1]:5"), un = parse("unix://x");
    CHECK_OK(weft_addr_set_port(&v4, 65535));
    CHECK_STR(format(&v4), "udp://1.2.3.4:65535");
    CHECK_OK(weft_addr_set_port(&v6, 0));
    CHECK_STR(format(&v6), "tcp://[::1]:0");
    CHECK_EQ(weft_addr_set_port(&un, 1), -EINVAL);
}

static int from(struct weft_addr *addr, enum weft_addr_kind kind, const void *sockaddr, size_t size)
{
    return weft_addr_from_sockaddr(addr, kind, (const struct sockaddr *)sockaddr, (uint32_t)size);
}

TEST(the_kernels_form_comes_back)
{
    static const char *const texts[] = { "tcp://1.2.3.4:5", "udp://[fe80::1%7]:5", "unix:///run/x",
                                         "unixgram://@a%00b", "unixpacket://" };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct weft_addr addr = parse(texts[i]), again;
        uint32_t size;
        const struct sockaddr *form = weft_addr_sockaddr(&addr, &size);
        CHECK(form != NULL);
        CHECK_OK(weft_addr_from_sockaddr(&again, weft_addr_kind(&addr), form, size));
        CHECK(weft_addr_equal(&addr, &again));
    }
    struct weft_addr none = { { 0 } };
    uint32_t size = 9;
    CHECK(weft_addr_sockaddr(&none, &size) == NULL);
    CHECK_EQ(size, 0);
    CHECK_EQ(weft_addr_family(&none), 0);
    CHECK_EQ(weft_addr_port(&none), -1);
}

/// What has no meaning does not make addresses differ: padding, flow labels, mapped addresses, and
/// bytes behind the end of a path.
TEST(a_sockaddr_with_dirt_is_the_same_address)
{
    struct weft_addr addr, clean;
    struct sockaddr_in v4;
    memset(&v4, 0xff, sizeof v4);
    v4.sin_family = AF_INET;
    v4.sin_port = htons(80);
    v4.sin_addr.s_addr = htonl(0x01020304);
    CHECK_OK(from(&addr, WEFT_ADDR_TCP, &v4, sizeof v4));
    clean = parse("tcp://1.2.3.4:80");
    CHECK(weft_addr_equal(&addr, &clean));

    struct sockaddr_in6 v6 = { .sin6_family = AF_INET6, .sin6_port = htons(80) };
    v6.sin6_flowinfo = 77;
    CHECK_EQ(inet_pton(AF_INET6, "::ffff:1.2.3.4", &v6.sin6_addr), 1);
    CHECK_OK(from(&addr, WEFT_ADDR_TCP, &v6, sizeof v6));
    CHECK(weft_addr_equal(&addr, &clean));
    CHECK_EQ(inet_pton(AF_INET6, "::1", &v6.sin6_addr), 1);
    CHECK_OK(from(&addr, WEFT_ADDR_TCP, &v6, sizeof v6));
    clean = parse("tcp://[::1]:80");
    CHECK(weft_addr_equal(&addr, &clean));

    struct sockaddr_un un;
    memset(&un, 'z', sizeof un);
    un.sun_family = AF_UNIX;
    strcpy(un.sun_path, "/run/x");
    CHECK_OK(from(&addr, WEFT_ADDR_UNIX, &un, sizeof un));
    clean = parse("unix:///run/x");
    CHECK(weft_addr_equal(&addr, &clean));
    // Without the zero byte, as bind(2) allows.
    CHECK_OK(from(&addr, WEFT_ADDR_UNIX, &un, offsetof(struct sockaddr_un, sun_path) + 6));
    CHECK(weft_addr_equal(&addr, &clean));
}

TEST(a_sockaddr_that_cannot_be_is_refused)
{
    struct weft_addr addr = parse("1.2.3.4:5");
    struct sockaddr_in v4 = { .sin_family = AF_INET };
    struct sockaddr_in6 v6 = { .sin6_family = AF_INET6 };
    struct sockaddr_un un = { .sun_family = AF_UNIX };
    char longest[sizeof un + 1];
    CHECK_EQ(from(&addr, WEFT_ADDR_TCP, &v4, sizeof v4 - 1), -EINVAL);
    CHECK_EQ(weft_addr_kind(&addr), WEFT_ADDR_NONE);
    CHECK_EQ(from(&addr, WEFT_ADDR_TCP, &v6, sizeof v6 - 1), -EINVAL);
    CHECK_EQ(from(&addr, WEFT_ADDR_TCP, &v4, 1), -EINVAL);
    CHECK_EQ(from(&addr, WEFT_ADDR_TCP, &v4, 0), -EINVAL);
    CHECK_EQ(from(&addr, WEFT_ADDR_TCP, NULL, sizeof v4), -EINVAL);
    CHECK_EQ(from(&addr, WEFT_ADDR_UNIX, &v4, sizeof v4), -EINVAL);
    CHECK_EQ(from(&addr, WEFT_ADDR_TCP, &un, sizeof un), -EINVAL);
    CHECK_EQ(from(&addr, WEFT_ADDR_NONE, &v4, sizeof v4), -EINVAL);
    CHECK_EQ(from(&addr, (enum weft_addr_kind)99, &v4, sizeof v4), -EINVAL);
    v4.sin_family = AF_NETLINK;
    CHECK_EQ(from(&addr, WEFT_ADDR_TCP, &v4, sizeof v4), -EAFNOSUPPORT);
    memset(un.sun_path, 'x', sizeof un.sun_path); // 108 bytes: no zero byte fits
    CHECK_EQ(from(&addr, WEFT_ADDR_UNIX, &un, sizeof un), -EINVAL);
    memcpy(longest, &un, sizeof un);
    longest[sizeof un] = '\0';
    CHECK_EQ(from(&addr, WEFT_ADDR_UNIX, longest, sizeof longest), -EINVAL);
}
