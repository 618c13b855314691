// system_call.c - what a stuck thread is likely to wait in.
#include "diag/system_call.h"

#include <stddef.h>
#include <sys/syscall.h>

#include "base/base.h"

static const struct {
    long number;
    const char *name;
} table[] = {
#define ROW(name)                                                                                  \
    {                                                                                              \
        SYS_##name, #name                                                                          \
    }
    ROW(accept),
    ROW(accept4),
    ROW(clock_nanosleep),
    ROW(connect),
    ROW(copy_file_range),
    ROW(epoll_pwait),
    ROW(fallocate),
    ROW(fcntl),
    ROW(fdatasync),
    ROW(flock),
    ROW(fsync),
    ROW(ftruncate),
    ROW(futex),
    ROW(getrandom),
    ROW(ioctl),
    ROW(madvise),
    ROW(mmap),
    ROW(msgrcv),
    ROW(msgsnd),
    ROW(msync),
    ROW(munmap),
    ROW(nanosleep),
    ROW(openat),
    ROW(ppoll),
    ROW(pread64),
    ROW(preadv),
    ROW(pselect6),
    ROW(pwrite64),
    ROW(pwritev),
    ROW(read),
    ROW(readv),
    ROW(recvfrom),
    ROW(recvmmsg),
    ROW(recvmsg),
    ROW(renameat2),
    ROW(rt_sigsuspend),
    ROW(rt_sigtimedwait),
    ROW(semop),
    ROW(semtimedop),
    ROW(sendfile),
    ROW(sendmmsg),
    ROW(sendmsg),
    ROW(sendto),
    ROW(splice),
    ROW(sync_file_range),
    ROW(unlinkat),
    ROW(wait4),
    ROW(waitid),
    ROW(write),
    ROW(writev),
#if defined(__x86_64__) // newer architectures do without these
    ROW(epoll_wait),
    ROW(open),
    ROW(poll),
    ROW(rename),
    ROW(select),
    ROW(unlink),
#endif
#undef ROW
};

const char *weft__system_call_name(long number)
{
    for (size_t i = 0; i < WEFT__ARRAY_LEN(table); i++) {
        if (table[i].number == number) {
            return table[i].name;
        }
    }
    return NULL;
}
