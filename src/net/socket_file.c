// socket_file.c - the file that a Unix socket leaves in the file system.
//
// A server that died leaves its socket file, and bind() refuses the path. Whether the file is stale
// is asked by connecting a datagram socket: -ECONNREFUSED if no socket is bound to it. If one is, it
// does not notice: to a listener that is the wrong type (-EPROTOTYPE), and a datagram socket is not
// told who connects.
//
//   F1  Only a socket is ever unlinked, and unless the program said WEFT_UNIX_REPLACE only one that
//       nobody is bound to.
//   F2  Two servers that start at once must not both find the file stale, and the slower one remove
//       the file that the faster one has just bound. So looking, unlinking and binding happen under
//       a lock on the directory. Whoever does not get it at once is told -EADDRINUSE.
//   F3  Closing removes the file only if it is the one that bind made.
//
// Rejected: binding a temporary name and renaming it over the path (the check and the rename are
// two steps all the same), a lock file beside the socket (one more file that stays behind).
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/sys.h"
#include "net/addr.h"
#include "net/socket.h"

static const char *path_of(const struct weft_addr *addr)
{
    return weft__addr_path(weft__addr_const(addr));
}

int weft__socket_file_prepare(int fd, uint32_t mode)
{
    return mode == 0 || fchmod(fd, mode) == 0 ? 0 : -errno;
}

int weft__socket_file_made(struct weft__socket_file *file, const struct weft_addr *addr,
                           uint32_t mode)
{
    const char *path = path_of(addr);
    struct stat found;
    file->addr = *addr;
    file->inode = 0;
    if (stat(path, &found) < 0) {
        return -errno;
    }
    file->device = found.st_dev;
    file->inode = found.st_ino;
    return mode == 0 || (found.st_mode & 07777) == mode || chmod(path, mode) == 0 ? 0 : -errno;
}

void weft__socket_file_remove(struct weft__socket_file *file)
{
    const char *path = path_of(&file->addr);
    struct stat found;
    if (file->inode != 0 && lstat(path, &found) == 0 && found.st_dev == file->device &&
        found.st_ino == file->inode) {
        unlink(path); // F3; if it fails the next server finds it stale
    }
    file->inode = 0;
}

/// -EADDRINUSE: somebody is bound to it, or nobody can tell. 0: nobody is.
static int is_stale(const struct weft_addr *addr)
{
    uint32_t size;
    const struct sockaddr *where = weft_addr_sockaddr(addr, &size);
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return -errno;
    }
    bool refused = connect(fd, where, size) < 0 && errno == ECONNREFUSED;
    weft__sys_close(fd);
    return refused ? 0 : -EADDRINUSE;
}

/// Locks the directory of `path`; the lock goes with the descriptor. A directory that cannot be
/// opened cannot be locked: the descriptor is then -1, and F2 is the administrator's affair.
static int lock_directory(int *lock, const char *path)
{
    char directory[sizeof((struct sockaddr_un *)0)->sun_path];
    const char *slash = strrchr(path, '/');
    size_t bytes = slash == NULL ? 0 : (size_t)(slash - path) + 1;
    (void)snprintf(directory, sizeof directory, "%.*s.", (int)bytes, path);
    *lock = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (*lock < 0 || flock(*lock, LOCK_EX | LOCK_NB) == 0) {
        return 0;
    }
    bool busy = errno == EWOULDBLOCK;
    weft__sys_close(*lock);
    *lock = -1;
    return busy ? -EADDRINUSE : 0;
}

/// Unlinks what may be unlinked (F1).
static int make_way(const struct weft_addr *addr, enum weft_unix_existing existing)
{
    const char *path = path_of(addr);
    struct stat found;
    if (lstat(path, &found) < 0) {
        return errno == ENOENT ? 0 : -errno;
    }
    if (!S_ISSOCK(found.st_mode)) {
        return -EADDRINUSE;
    }
    int rc = existing == WEFT_UNIX_REPLACE ? 0 : is_stale(addr);
    if (rc == 0 && unlink(path) < 0 && errno != ENOENT) {
        rc = -errno;
    }
    return rc;
}

int weft__socket_file_replace(int fd, struct weft__carrier *carrier, const struct weft_addr *addr,
                              enum weft_unix_existing existing)
{
    if (existing == WEFT_UNIX_REFUSE) {
        return -EADDRINUSE;
    }
    int lock;
    int rc = lock_directory(&lock, path_of(addr));
    if (rc < 0) {
        return rc;
    }
    rc = make_way(addr, existing);
    if (rc == 0) {
        uint32_t size;
        const struct sockaddr *where = weft_addr_sockaddr(addr, &size);
        rc = carrier->driver->sockets->bind(carrier->driver_state, fd, where, size);
    }
    if (lock >= 0) {
        weft__sys_close(lock);
    }
    return rc;
}
