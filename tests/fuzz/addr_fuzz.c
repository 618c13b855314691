// addr_fuzz.c - any bytes taken as an address, as text and as a sockaddr.
//
// Two programs in one file. As a test it changes a corpus at random from test_seed() and checks what
// must hold for each result. With -DFUZZ_ENGINE and clang's -fsanitize=fuzzer it is a fuzz target
// (tests/fuzz/run), whose first byte says which of the two it is.
#include <arpa/inet.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <weft/addr.h>

#ifdef FUZZ_ENGINE
#define FAIL(...) (fprintf(stderr, __VA_ARGS__), fputc('\n', stderr), abort())
#define CHECK(condition) ((condition) ? (void)0 : FAIL("%s:%d: %s", __FILE__, __LINE__, #condition))
#else
#include "support/test.h"
#endif

/// Through text and through the kernel's form: nothing may change on the way.
static void check_round_trips(const struct weft_addr *addr)
{
    char text[WEFT_ADDR_TEXT_BYTES], again_text[WEFT_ADDR_TEXT_BYTES];
    struct weft_addr again;
    int length = weft_addr_format(addr, text, sizeof text);
    CHECK(length > 0 && length < WEFT_ADDR_TEXT_BYTES && (size_t)length == strlen(text));
    int rc = weft_addr_parse(&again, text);
    if (rc < 0 || !weft_addr_equal(addr, &again)) {
        FAIL("\"%s\" does not come back: %d", text, rc);
    }
    CHECK(weft_addr_hash(addr) == weft_addr_hash(&again));
    (void)weft_addr_format(&again, again_text, sizeof again_text);
    CHECK(strcmp(text, again_text) == 0);

    for (const char *c = text; *c != '\0'; c++) { // fit for a log
        CHECK((unsigned char)*c >= ' ' && *c != 0x7f);
    }

    uint32_t size;
    const struct sockaddr *form = weft_addr_sockaddr(addr, &size);
    CHECK(form != NULL && size >= sizeof(sa_family_t) && size <= sizeof(struct sockaddr_storage));
    CHECK(weft_addr_from_sockaddr(&again, weft_addr_kind(addr), form, size) == 0);
    if (strstr(text, "://*:") == NULL) { // "*" is [::] to the kernel
        CHECK(weft_addr_equal(addr, &again));
    }

    int port = weft_addr_port(addr), family = weft_addr_family(addr);
    CHECK((family == AF_UNIX) == (port == -1) && port <= 65535);
    CHECK(family == AF_UNIX || family == AF_INET || family == AF_INET6);

    // Cut anywhere, it is the beginning of the whole, and nothing behind it is written.
    size_t room = weft_addr_hash(addr) % (size_t)(length + 2);
    memset(again_text, '#', sizeof again_text);
    CHECK(weft_addr_format(addr, again_text, room) == length);
    CHECK(again_text[room] == '#');
    CHECK(room == 0 ||
          (strlen(again_text) == (room <= (size_t)length ? room - 1 : (size_t)length) &&
           memcmp(again_text, text, strlen(again_text)) == 0));
}

static bool is_known_error(int rc)
{
    return rc == -EINVAL || rc == -ERANGE || rc == -ENAMETOOLONG || rc == -ENODEV ||
           rc == -EPROTONOSUPPORT;
}

static void check_text(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1); // of its own, so that the sanitizer sees a step too far
    struct weft_addr addr;
    CHECK(text != NULL);
    memcpy(text, data, size);
    text[size] = '\0';
    int rc = weft_addr_parse(&addr, text);
    if (rc == 0) {
        check_round_trips(&addr);
    } else {
        CHECK(is_known_error(rc));
        CHECK(weft_addr_kind(&addr) == WEFT_ADDR_NONE);
    }
    free(text);
}

static void check_sockaddr(const uint8_t *data, size_t size)
{
    if (size == 0) {
        return;
    }
    enum weft_addr_kind kind = (enum weft_addr_kind)(data[0] % 8);
    struct weft_addr addr;
    void *form = malloc(size); // one byte more than its length, in case that is 0
    CHECK(form != NULL);
    memcpy(form, data + 1, size - 1);
    int rc = weft_addr_from_sockaddr(&addr, kind, form, (uint32_t)(size - 1));
    if (rc == 0) {
        CHECK(weft_addr_kind(&addr) == kind);
        check_round_trips(&addr);
    } else {
        CHECK(rc == -EINVAL || rc == -EAFNOSUPPORT);
        CHECK(weft_addr_kind(&addr) == WEFT_ADDR_NONE);
    }
    free(form);
}

#ifdef FUZZ_ENGINE
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > 0 && data[0] == 's') {
        check_sockaddr(data + 1, size - 1);
    } else if (size > 0) {
        check_text(data + 1, size - 1);
    }
    return 0;
}
#else

enum { LONGEST = 512 };

/// 96 bytes, from which it is not far to the limit.
#define LONG_PATH                                                                                  \
    "unixpacket:///0123456789abcdef0123456789abcdef0123456789abcdef"                               \
    "0123456789abcdef0123456789abcdef0123456789abcde"

static const char *const corpus[] = {
    "tcp://127.0.0.1:7000",
    "tcp://[::1]:80",
    "tcp://[fe80::1%lo]:80",
    "tcp://[fe80::1%1]:0",
    "tcp://[2001:db8:1:2:3:4:5:6]:65535",
    "tcp://[::ffff:1.2.3.4]:80",
    "tcp://[::1.2.3.4]:80",
    "tcp://*:7000",
    ":0",
    "localhost:65536",
    "udp://255.255.255.255:53",
    "udp://[ff02::fb%2]:5353",
    "unix:///run/app.sock",
    "unix://@abstract%00name",
    "unix://%40file%25",
    "unix://",
    "unixgram://@",
    (LONG_PATH),
};

static const char *const words[] = {
    "tcp://", "udp://", "unix://",    "unixgram://", "unixpacket://",
    "[",      "]",      "::",         ":",           "%",
    "@",      "*",      ".",          "0",           "00",
    "65535",  "65536",  "4294967296", "255",         "ffff",
    "%00",    "%2F",    "localhost",
};

/// Changes the bytes in one of a few ways; returns the new length.
static size_t mutate(uint8_t *data, size_t size, uint64_t *random)
{
    size_t at = size > 0 ? test_random(random) % (size + 1) : 0;
    const char *word = words[test_random(random) % (sizeof words / sizeof *words)];
    size_t length = strlen(word);
    switch (test_random(random) % 6) {
    case 0: // another byte
        if (at < size) {
            data[at] = (uint8_t)test_random(random);
        }
        return size;
    case 1: // cut
        return at;
    case 2: // take one out
        if (at < size) {
            memmove(data + at, data + at + 1, size - at - 1);
            return size - 1;
        }
        return size;
    case 3: // double a part
        length = size - at < LONGEST - size ? size - at : LONGEST - size;
        memmove(data + at + length, data + at, size - at);
        return size + length;
    default: // put a word in
        if (size + length > LONGEST) {
            return size;
        }
        memmove(data + at + length, data + at, size - at);
        memcpy(data + at, word, length); // NOLINT(bugprone-not-null-terminated-result): bytes
        return size + length;
    }
}

static void fuzz(void (*check)(const uint8_t *data, size_t size),
                 size_t (*pick)(uint8_t *data, uint64_t *random))
{
    uint64_t random = test_seed();
    uint8_t data[LONGEST];
    uint64_t rounds = test_scaled(200000);
    for (uint64_t i = 0; i < rounds; i++) {
        size_t size = pick(data, &random);
        check(data, size);
        for (uint64_t changes = 1 + test_random(&random) % 6; changes > 0; changes--) {
            size = mutate(data, size, &random);
        }
        check(data, size);
    }
}

static size_t pick_text(uint8_t *data, uint64_t *random)
{
    const char *text = corpus[test_random(random) % (sizeof corpus / sizeof *corpus)];
    memcpy(data, text, strlen(text)); // NOLINT(bugprone-not-null-terminated-result): bytes
    return strlen(text);
}

/// The kernel's form of something from the corpus, behind its kind.
static size_t pick_sockaddr(uint8_t *data, uint64_t *random)
{
    struct weft_addr addr;
    const char *text;
    do {
        text = corpus[test_random(random) % (sizeof corpus / sizeof *corpus)];
    } while (weft_addr_parse(&addr, text) < 0);
    uint32_t size;
    const struct sockaddr *form = weft_addr_sockaddr(&addr, &size);
    data[0] = (uint8_t)weft_addr_kind(&addr);
    memcpy(data + 1, form, size);
    return size + 1;
}

TEST(any_text_is_an_address_that_comes_back_or_a_clear_error)
{
    fuzz(check_text, pick_text);
}

TEST(any_sockaddr_is_an_address_that_comes_back_or_a_clear_error)
{
    fuzz(check_sockaddr, pick_sockaddr);
}
#endif
