// copy_test.c - splice, sendfile and copy: every kind of descriptor to every other, whole and in part.
#include "support/fds.h"
#include "support/gather.h"

#include <stdatomic.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>

static void run(weft_fn fn)
{
    struct weft_options options = WEFT_OPTIONS_INIT;
    options.carriers = 2;
    int before = count_descriptors();
    CHECK_EQ(weft_run(fn, NULL, &options), 0);
    CHECK_EQ(count_descriptors(), before);
}

/// Where bytes come from or go to.
enum end_kind { END_FILE, END_PIPE, END_PIPE_NB, END_UNIX, END_UNIX_NB, END_TCP, END_TCP_NB, ENDS };

static struct channel end_open(enum end_kind kind)
{
    static const enum channel_kind kinds[] = {
        0, CHANNEL_PIPE, CHANNEL_PIPE, CHANNEL_UNIX, CHANNEL_UNIX, CHANNEL_TCP, CHANNEL_TCP
    };
    if (kind == END_FILE) {
        int fd = temp_file();
        return (struct channel){ fd, fd };
    }
    return channel_open(kinds[kind], kind % 2 == 0);
}

static void end_close(enum end_kind kind, int fd)
{
    if (kind != END_FILE) {
        CHECK_OK(weft_close(fd));
    }
}

/// The patterned stream that goes in, and what comes out.
struct transfer {
    enum end_kind in_kind;
    enum end_kind out_kind;
    struct channel in;
    struct channel out;
    size_t size;
    uint64_t seen;
};

static int produce(void *arg)
{
    struct transfer *transfer = arg;
    enum { PIECE = 1 << 16 };
    char *data = malloc(PIECE);
    size_t at = 0;
    while (at < transfer->size) {
        size_t size = transfer->size - at < PIECE ? transfer->size - at : PIECE;
        pattern_fill(data, size, at);
        ssize_t n = weft_write(transfer->in.to, data, size, WEFT_FOREVER);
        if (n < 0) {
            CHECK(n == -EPIPE || n == -ECONNRESET); // the reader wants no more
            break;
        }
        at += (size_t)n;
    }
    free(data);
    end_close(transfer->in_kind, transfer->in.to);
    return 0;
}

static int consume(void *arg)
{
    struct transfer *transfer = arg;
    char *data = malloc(1 << 16);
    ssize_t n;
    while ((n = weft_read(transfer->out.from, data, 1 << 16, WEFT_FOREVER)) > 0) {
        CHECK_EQ(pattern_differs(data, (size_t)n, transfer->seen), (size_t)n);
        transfer->seen += (uint64_t)n;
    }
    free(data);
    return 0;
}

static void transfer_open(struct transfer *transfer, enum end_kind in, enum end_kind out,
                          size_t size)
{
    *transfer = (struct transfer){ in, out, end_open(in), end_open(out), size, 0 };
}

/// A file is made before and looked at after; others are fed and emptied meanwhile.
static void transfer_begin(struct transfer *transfer, weft_task **producer, weft_task **consumer)
{
    *producer = *consumer = NULL;
    if (transfer->in_kind == END_FILE) {
        CHECK_EQ(produce(transfer), 0);
        CHECK_EQ(lseek(transfer->in.to, 0, SEEK_SET), 0);
    } else {
        CHECK_OK(weft_spawn(producer, produce, transfer, NULL));
    }
    if (transfer->out_kind != END_FILE) {
        CHECK_OK(weft_spawn(consumer, consume, transfer, NULL));
    }
}

static void transfer_end(struct transfer *transfer, weft_task *producer, weft_task *consumer)
{
    end_close(transfer->out_kind, transfer->out.to);
    CHECK_OK(weft_close(transfer->in.from));
    if (producer != NULL) {
        CHECK_OK(weft_join(NULL, producer, WEFT_FOREVER));
    }
    if (consumer != NULL) {
        CHECK_OK(weft_join(NULL, consumer, WEFT_FOREVER));
    } else {
        CHECK_EQ(lseek(transfer->out.from, 0, SEEK_SET), 0);
        CHECK_EQ(consume(transfer), 0);
    }
    CHECK_OK(weft_close(transfer->out.from));
}

static void copy_once(enum end_kind in, enum end_kind out, size_t size, uint64_t count)
{
    struct transfer transfer;
    struct weft_copied copied;
    weft_task *producer;
    weft_task *consumer;
    uint64_t expected = count < size ? count : size;
    transfer_open(&transfer, in, out, size);
    transfer_begin(&transfer, &producer, &consumer);
    int rc = weft_copy(&copied, transfer.out.to, transfer.in.from, count, WEFT_FOREVER);
    if (rc != 0 || copied.written != expected || copied.read != expected) {
        FAIL("%d to %d, %zu bytes: %d, read %llu, written %llu", (int)in, (int)out, size, rc,
             (unsigned long long)copied.read, (unsigned long long)copied.written);
    }
    if (in == END_FILE) {
        CHECK_EQ(lseek(transfer.in.from, 0, SEEK_CUR), (off_t)expected);
    }
    transfer_end(&transfer, producer, consumer);
    CHECK_EQ(transfer.seen, expected);
}

static int copy_everything(void *arg)
{
    (void)arg;
    size_t large = (size_t)test_scaled(1 << 20) + 777;
    for (int in = 0; in < ENDS; in++) {
        for (int out = 0; out < ENDS; out++) {
            copy_once((enum end_kind)in, (enum end_kind)out, large, WEFT_COPY_ALL);
            copy_once((enum end_kind)in, (enum end_kind)out, large, large / 2);
            copy_once((enum end_kind)in, (enum end_kind)out, 1000, 1000000);
            copy_once((enum end_kind)in, (enum end_kind)out, 1000, 0);
            copy_once((enum end_kind)in, (enum end_kind)out, 0, WEFT_COPY_ALL);
        }
    }
    return 0;
}

TEST_DRIVERS(everything_is_copied_from_anything_to_anything)
{
    run(copy_everything);
}

// Files.

static int copy_odd_files(void *arg)
{
    (void)arg;
    struct weft_copied copied;
    char text[4096];
    int out = temp_file();
    int proc = open("/proc/self/status", O_RDONLY | O_CLOEXEC); // has contents, but no size
    CHECK_EQ(weft_copy(&copied, out, proc, WEFT_COPY_ALL, WEFT_FOREVER), 0);
    CHECK_GT(copied.written, 100);
    ssize_t n = weft_pread(out, text, sizeof text - 1, 0, WEFT_FOREVER);
    CHECK_EQ(n, (ssize_t)copied.written);
    text[n] = '\0';
    CHECK(strstr(text, "Name:\t") == text);
    CHECK_OK(weft_close(proc));
    CHECK_OK(weft_close(out));

    int in = temp_file();
    CHECK_EQ(weft_pwrite(in, "end", 3, 1 << 20, WEFT_FOREVER), 3); // a hole
    char name[32];
    int plain = temp_file();
    snprintf(name, sizeof name, "/proc/self/fd/%d", plain);
    int append = open(name, O_WRONLY | O_APPEND | O_CLOEXEC); // copy_file_range refuses it
    CHECK_EQ(weft_write(append, "abc", 3, WEFT_FOREVER), 3);
    CHECK_EQ(weft_copy(&copied, append, in, WEFT_COPY_ALL, WEFT_FOREVER), 0);
    CHECK_EQ(copied.written, (1 << 20) + 3);
    CHECK_EQ(lseek(plain, 0, SEEK_END), (1 << 20) + 6);
    CHECK_EQ(weft_pread(plain, text, 3, 0, WEFT_FOREVER), 3);
    CHECK_EQ(memcmp(text, "abc", 3), 0);
    CHECK_OK(weft_close(append));
    CHECK_OK(weft_close(plain));
    CHECK_EQ(weft_copy(NULL, in, in, WEFT_COPY_ALL, WEFT_FOREVER), -EINVAL);
    int read_only = open("/dev/null", O_RDONLY | O_CLOEXEC);
    CHECK_EQ(lseek(in, 5, SEEK_SET), 5);
    CHECK_EQ(weft_copy(&copied, read_only, in, 10, WEFT_FOREVER), -EBADF);
    CHECK_EQ(copied.written, 0);
    CHECK_EQ(lseek(in, 0, SEEK_CUR), 5); // as if nothing had been read
    CHECK_OK(weft_close(read_only));
    CHECK_OK(weft_close(in));
    return 0;
}

TEST_DRIVERS(odd_files_are_copied_too)
{
    run(copy_odd_files);
}

// Copies that do not end well.

static int stop_copies(void *arg)
{
    (void)arg;
    size_t size = 8 << 20;
    for (int in = 0; in < ENDS; in++) {
        for (int out = END_PIPE; out < ENDS; out++) {
            struct transfer transfer;
            struct weft_copied copied;
            weft_task *producer;
            weft_task *consumer;
            transfer_open(&transfer, (enum end_kind)in, (enum end_kind)out, size);
            enum end_kind kind = transfer.out_kind;
            transfer.out_kind = END_FILE; // nobody reads yet
            transfer_begin(&transfer, &producer, &consumer);
            transfer.out_kind = kind;
            CHECK_EQ(weft_copy(&copied, transfer.out.to, transfer.in.from, WEFT_COPY_ALL,
                               weft_after(3 * WEFT_MS)),
                     -ETIMEDOUT);
            CHECK_GE(copied.read, copied.written);
            CHECK_LT(copied.written, size);
            if (in == END_FILE) {
                CHECK_EQ(copied.read, copied.written);
                CHECK_EQ(lseek(transfer.in.from, 0, SEEK_CUR), (off_t)copied.written);
            }
            CHECK_OK(weft_spawn(&consumer, consume, &transfer, NULL));
            transfer_end(&transfer, producer, consumer);
            CHECK_EQ(transfer.seen, copied.written); // exactly what arrived
        }
    }
    return 0;
}

TEST_DRIVERS(a_late_copy_says_what_arrived)
{
    run(stop_copies);
}

struct copying {
    struct transfer *transfer;
    struct weft_copied copied;
};

static int copy_until_cancelled(void *arg)
{
    struct copying *copying = arg;
    return weft_copy(&copying->copied, copying->transfer->out.to, copying->transfer->in.from,
                     WEFT_COPY_ALL, WEFT_FOREVER);
}

static int cancel_copies(void *arg)
{
    (void)arg;
    for (int in = 0; in < ENDS; in++) {
        for (int out = END_PIPE; out < ENDS; out++) {
            struct transfer transfer;
            struct copying copying = { &transfer, { 0, 0 } };
            weft_task *producer;
            weft_task *consumer;
            weft_task *copier;
            int result;
            transfer_open(&transfer, (enum end_kind)in, (enum end_kind)out, 8 << 20);
            enum end_kind kind = transfer.out_kind;
            transfer.out_kind = END_FILE; // nobody reads yet
            transfer_begin(&transfer, &producer, &consumer);
            transfer.out_kind = kind;
            CHECK_OK(weft_spawn(&copier, copy_until_cancelled, &copying, NULL));
            let_others_park();
            weft_task_cancel(copier);
            CHECK_OK(weft_join(&result, copier, WEFT_FOREVER));
            CHECK_EQ(result, -ECANCELED);
            CHECK_OK(weft_spawn(&consumer, consume, &transfer, NULL));
            transfer_end(&transfer, producer, consumer);
            CHECK_EQ(transfer.seen, copying.copied.written);
        }
    }
    return 0;
}

TEST_DRIVERS(a_cancelled_copy_says_what_arrived)
{
    run(cancel_copies);
}

static int copy_to_nobody(void *arg)
{
    (void)arg;
    for (int in = 0; in < ENDS; in++) {
        for (int out = END_PIPE; out < ENDS; out++) {
            struct transfer transfer;
            struct weft_copied copied;
            weft_task *producer;
            weft_task *consumer;
            transfer_open(&transfer, (enum end_kind)in, (enum end_kind)out, 1 << 20);
            transfer.out_kind = END_FILE;
            transfer_begin(&transfer, &producer, &consumer);
            CHECK_OK(weft_close(transfer.out.from));
            int rc = weft_copy(&copied, transfer.out.to, transfer.in.from, WEFT_COPY_ALL,
                               WEFT_FOREVER);
            if (rc != -EPIPE && rc != -ECONNRESET) {
                FAIL("%d to %d: %d", in, out, rc);
            }
            CHECK_OK(weft_close(transfer.in.from));
            CHECK_OK(weft_close(transfer.out.to));
            if (producer != NULL) {
                CHECK_OK(weft_join(NULL, producer, WEFT_FOREVER));
            }
        }
    }
    return 0;
}

TEST_DRIVERS(a_copy_to_nobody_is_an_error)
{
    run(copy_to_nobody);
}

static int copy_without_descriptors(void *arg)
{
    (void)arg;
    struct transfer transfer;
    struct weft_copied copied;
    weft_task *producer;
    weft_task *consumer;
    struct rlimit limit;
    struct rlimit none;
    CHECK_OK(getrlimit(RLIMIT_NOFILE, &limit));
    none = limit;
    none.rlim_cur = 3;
    transfer_open(&transfer, END_UNIX_NB, END_TCP_NB, 1 << 20); // would like to have a pipe
    transfer_begin(&transfer, &producer, &consumer);
    CHECK_OK(setrlimit(RLIMIT_NOFILE, &none));
    CHECK_EQ(weft_copy(&copied, transfer.out.to, transfer.in.from, WEFT_COPY_ALL, WEFT_FOREVER), 0);
    CHECK_OK(setrlimit(RLIMIT_NOFILE, &limit));
    CHECK_EQ(copied.written, 1 << 20);
    transfer_end(&transfer, producer, consumer);
    CHECK_EQ(transfer.seen, 1 << 20);
    return 0;
}

TEST_DRIVERS(a_copy_needs_no_descriptors)
{
    run(copy_without_descriptors);
}

// sendfile.

static int send_files(void *arg)
{
    (void)arg;
    enum { SIZE = 300000 };
    for (int out = 0; out < ENDS; out++) {
        struct transfer transfer;
        weft_task *producer;
        weft_task *consumer;
        transfer_open(&transfer, END_FILE, (enum end_kind)out, SIZE);
        transfer_begin(&transfer, &producer, &consumer);
        int64_t offset = 0;
        ssize_t n = 1;
        while (offset < SIZE / 2) { // by offset, which leaves the position alone
            int64_t before = offset;
            n = weft_sendfile(transfer.out.to, transfer.in.from, &offset,
                              (size_t)(SIZE / 2 - offset), WEFT_FOREVER);
            CHECK_GT(n, 0);
            CHECK_EQ(offset, before + n);
        }
        CHECK_EQ(lseek(transfer.in.from, 0, SEEK_CUR), 0);
        CHECK_EQ(lseek(transfer.in.from, SIZE / 2, SEEK_SET), SIZE / 2);
        while ((n = weft_sendfile(transfer.out.to, transfer.in.from, NULL, SIZE, WEFT_FOREVER)) >
               0) {
        }
        CHECK_EQ(n, 0); // the end
        CHECK_EQ(lseek(transfer.in.from, 0, SEEK_CUR), SIZE);
        CHECK_EQ(weft_sendfile(transfer.out.to, transfer.in.from, &offset, 0, WEFT_FOREVER), 0);
        offset = -1;
        CHECK_EQ(weft_sendfile(transfer.out.to, transfer.in.from, &offset, 1, WEFT_FOREVER),
                 -EINVAL);
        if (out != END_FILE) {
            CHECK_EQ(weft_sendfile(transfer.in.from, transfer.out.to, NULL, 1, WEFT_FOREVER),
                     -EINVAL);
        }
        transfer_end(&transfer, producer, consumer);
        CHECK_EQ(transfer.seen, SIZE);
    }
    return 0;
}

TEST_DRIVERS(files_are_sent)
{
    run(send_files);
}

static int send_late(void *arg)
{
    (void)arg;
    for (int out = END_PIPE; out < ENDS; out++) {
        struct transfer transfer;
        weft_task *producer;
        weft_task *consumer;
        transfer_open(&transfer, END_FILE, END_FILE, 16 << 20);
        CHECK_OK(weft_close(transfer.out.to));
        transfer_begin(&transfer, &producer, &consumer);
        transfer.out_kind = (enum end_kind)out;
        transfer.out = end_open(transfer.out_kind);
        int64_t offset = 0;
        ssize_t n;
        while ((n = weft_sendfile(transfer.out.to, transfer.in.from, &offset, 16 << 20,
                                  weft_after(2 * WEFT_MS))) > 0) {
        }
        CHECK_EQ(n, -ETIMEDOUT);
        CHECK_OK(weft_spawn(&consumer, consume, &transfer, NULL));
        transfer_end(&transfer, producer, consumer);
        CHECK_EQ(transfer.seen, offset);
    }
    return 0;
}

TEST_DRIVERS(a_late_sendfile_says_what_was_sent)
{
    run(send_late);
}

/// Files are always ready: a deadline in the past takes what is there.
static int move_files_too_late(void *arg)
{
    (void)arg;
    for (int out = 0; out < ENDS; out++) {
        struct weft_copied copied;
        int file = temp_file();
        struct channel end = end_open((enum end_kind)out);
        CHECK_EQ(weft_write(file, "0123456789", 10, WEFT_FOREVER), 10);
        int64_t offset = 0;
        CHECK_EQ(weft_sendfile(end.to, file, &offset, 10, 1), 10);
        CHECK_EQ(lseek(file, 5, SEEK_SET), 5);
        CHECK_EQ(weft_copy(&copied, end.to, file, 5, 1), 0);
        CHECK_EQ(copied.written, 5);
        if (out != END_FILE) {
            CHECK_OK(weft_close(end.from));
        }
        CHECK_OK(weft_close(end.to));
        CHECK_OK(weft_close(file));
    }
    return 0;
}

TEST_DRIVERS(a_deadline_in_the_past_moves_what_is_there)
{
    run(move_files_too_late);
}

static int copy_onto_itself(void *arg)
{
    (void)arg;
    char name[64];
    char data[8] = "";
    int file = temp_file();
    snprintf(name, sizeof name, "/proc/self/fd/%d", file);
    int again = open(name, O_RDWR | O_APPEND | O_CLOEXEC);
    CHECK_OK(again);
    CHECK_EQ(weft_write(file, "abc", 3, WEFT_FOREVER), 3);
    CHECK_EQ(lseek(file, 0, SEEK_SET), 0);
    CHECK_EQ(weft_copy(NULL, again, file, WEFT_COPY_ALL, weft_after(20 * WEFT_S)), -EINVAL);
    CHECK_EQ(weft_copy(NULL, file, file, WEFT_COPY_ALL, weft_after(20 * WEFT_S)), -EINVAL);
    CHECK_EQ(weft_copy(NULL, again, file, 3, WEFT_FOREVER), 0); // this has an end
    CHECK_EQ(weft_pread(file, data, sizeof data, 0, WEFT_FOREVER), 6);
    CHECK_STR(data, "abcabc");
    CHECK_OK(weft_close(again));
    CHECK_OK(weft_close(file));
    return 0;
}

TEST_DRIVERS(a_file_is_not_copied_onto_its_own_end)
{
    run(copy_onto_itself);
}

// splice.

/// The same by splice, which the drivers give to somebody who may block: a deadline must not overtake it.
static int splice_files_too_late(void *arg)
{
    (void)arg;
    struct channel pipe = channel_open(CHANNEL_PIPE, false);
    int file = temp_file();
    CHECK_EQ(weft_write(file, "0123456789", 10, WEFT_FOREVER), 10);
    for (int i = 0; i < 100; i++) {
        int64_t offset = 0;
        CHECK_EQ(weft_splice(file, &offset, pipe.to, NULL, 10, 0, 1), 10);
        CHECK_EQ(offset, 10);
        CHECK_EQ(weft_splice(pipe.from, NULL, file, &offset, 10, 0, 1), 10);
        CHECK_EQ(offset, 20);
    }
    CHECK_EQ(weft_splice(pipe.from, NULL, file, NULL, 10, 0, 1), -ETIMEDOUT); // nothing is there
    channel_close(pipe);
    CHECK_OK(weft_close(file));
    return 0;
}

TEST_DRIVERS(a_splice_of_a_file_takes_what_is_there)
{
    run(splice_files_too_late);
}

static int splice_both_ways(void *arg)
{
    (void)arg;
    struct channel pipe = channel_open(CHANNEL_PIPE, false);
    struct channel socket = channel_open(CHANNEL_UNIX, false);
    int file = temp_file();
    char data[64] = { 0 };
    int64_t in = 2;
    int64_t out = 10;
    CHECK_EQ(weft_write(file, "0123456789", 10, WEFT_FOREVER), 10);
    CHECK_EQ(weft_splice(file, &in, pipe.to, NULL, 5, 0, WEFT_FOREVER), 5);
    CHECK_EQ(in, 7);
    CHECK_EQ(weft_splice(pipe.from, NULL, file, &out, 100, 0, WEFT_FOREVER), 5);
    CHECK_EQ(out, 15);
    CHECK_EQ(weft_pread(file, data, sizeof data, 0, WEFT_FOREVER), 15);
    CHECK_STR(data, "012345678923456");
    CHECK_EQ(weft_splice(file, NULL, pipe.to, NULL, 100, 0, WEFT_FOREVER), 5); // own position: 10
    CHECK_EQ(weft_splice(file, NULL, pipe.to, NULL, 100, 0, WEFT_FOREVER), 0); // the end
    CHECK_EQ(weft_splice(pipe.from, NULL, socket.to, NULL, 100, 0, WEFT_FOREVER), 5);
    CHECK_EQ(weft_read(socket.from, data, sizeof data, WEFT_FOREVER), 5);
    CHECK_EQ(weft_splice(pipe.from, NULL, socket.to, NULL, 100, SPLICE_F_NONBLOCK, WEFT_FOREVER),
             -EAGAIN);
    CHECK_EQ(weft_splice(pipe.from, NULL, socket.to, NULL, 100, 0, weft_after(WEFT_MS)),
             -ETIMEDOUT);
    CHECK_EQ(weft_splice(socket.from, NULL, pipe.to, NULL, 100, 0, 1), -ETIMEDOUT);
    CHECK_EQ(weft_splice(socket.from, NULL, socket.to, NULL, 1, SPLICE_F_NONBLOCK, WEFT_FOREVER),
             -EINVAL); // no pipe
    CHECK_EQ(weft_splice(pipe.from, NULL, pipe.from, NULL, 1, 0, WEFT_FOREVER), -EINVAL);
    CHECK_EQ(weft_splice(pipe.from, NULL, socket.to, NULL, 0, 0, WEFT_FOREVER), 0);
    CHECK_OK(weft_close(pipe.to));
    CHECK_EQ(weft_splice(pipe.from, NULL, socket.to, NULL, 1, 0, WEFT_FOREVER), 0);
    CHECK_OK(weft_close(pipe.from));
    channel_close(socket);
    CHECK_OK(weft_close(file));
    return 0;
}

TEST_DRIVERS(bytes_are_spliced_both_ways)
{
    run(splice_both_ways);
}

TEST(copying_needs_a_task)
{
    struct weft_copied copied = { 1, 1 };
    CHECK_EQ(weft_copy(&copied, 1, 0, 1, WEFT_FOREVER), -EPERM);
    CHECK_EQ(copied.written, 0);
    CHECK_EQ(weft_sendfile(1, 0, NULL, 1, WEFT_FOREVER), -EPERM);
    CHECK_EQ(weft_splice(0, NULL, 1, NULL, 1, 0, WEFT_FOREVER), -EPERM);
}
