// weft/socket.h - the options of a socket, for listeners, connections and datagram sockets alike.
#ifndef WEFT_SOCKET_H
#define WEFT_SOCKET_H

#include <weft/base.h>

WEFT_BEGIN_DECLS

/// A yes or no that has a default.
enum weft_toggle {
    WEFT_DEFAULT = 0,
    WEFT_ON,
    WEFT_OFF,
};

/// What to do when there is a file where a Unix socket is to be bound. A file that is not a socket
/// is never touched.
enum weft_unix_existing {
    WEFT_UNIX_REPLACE_STALE = 0, ///< replaced if no process has it open any more
    WEFT_UNIX_REFUSE,            ///< -EADDRINUSE
    WEFT_UNIX_REPLACE,           ///< replaced; whoever was bound to it is reached no more
};

/// Options of a socket. Zero means the default everywhere but in `size`; initialise with
/// WEFT_SOCKET_OPTIONS_INIT or weft_socket_options_init(). What does not apply to the kind of
/// address (`nodelay` to a Unix socket) is ignored, so one struct can serve every listener of a
/// program. What applies and cannot be set makes the call fail with the kernel's errno, -EINVAL for
/// a negative number; `failed` then names the field.
struct weft_socket_options {
    size_t size; ///< sizeof(struct weft_socket_options)

    /// If not NULL: where to store the name of the field that could not be set ("mark"), a constant,
    /// or NULL if the call succeeded or failed for another reason.
    const char **failed;

    // Every socket.
    int send_buffer_bytes;    ///< SO_SNDBUF; the kernel doubles it and caps it at net.core.wmem_max
    int receive_buffer_bytes; ///< SO_RCVBUF, likewise with rmem_max; before connect or listen
    uint32_t mark;            ///< SO_MARK; needs CAP_NET_ADMIN
    const char *device;       ///< SO_BINDTODEVICE: an interface's name
    int busy_poll_us;         ///< SO_BUSY_POLL

    // IPv4 and IPv6.
    enum weft_toggle reuseaddr; ///< SO_REUSEADDR; default: on for TCP listeners, off for others
    bool reuseport;             ///< SO_REUSEPORT
    enum weft_toggle v6only;    ///< IPV6_V6ONLY; default: the system's, but off for "*"
    int ttl;                    ///< IP_TTL, IPV6_UNICAST_HOPS: 1..255
    int tos;                    ///< IP_TOS, IPV6_TCLASS: 1..255

    // TCP. Connections that a listener accepts inherit these from it.
    enum weft_toggle nodelay; ///< TCP_NODELAY; default: on, because weft collects writes itself
    bool keepalive;           ///< SO_KEEPALIVE; also if one of the next three is set
    int keepalive_idle_s;     ///< TCP_KEEPIDLE: first probe after so much silence
    int keepalive_interval_s; ///< TCP_KEEPINTVL: between probes
    int keepalive_count;      ///< TCP_KEEPCNT: unanswered probes until -ETIMEDOUT
    int user_timeout_ms;      ///< TCP_USER_TIMEOUT: how long sent bytes may stay unacknowledged
    /// SO_LINGER with time 0: closing drops what is unsent and resets the connection. A longer time
    /// would stop the whole carrier at close, so there is no field for it: see weft_conn_limits.
    bool reset_on_close;
    int fastopen; ///< listener: TCP_FASTOPEN, so many pending; else TCP_FASTOPEN_CONNECT
    int backlog;  ///< of a listener, also Unix: 1024; the kernel caps it at somaxconn

    // UDP.
    bool broadcast;    ///< SO_BROADCAST
    bool receive_gro;  ///< UDP_GRO: several datagrams of one sender as one; see weft_dgram_message
    int multicast_ttl; ///< IP_MULTICAST_TTL, IPV6_MULTICAST_HOPS: 1..255
    const char *multicast_device;    ///< IP_MULTICAST_IF, IPV6_MULTICAST_IF: an interface's name
    enum weft_toggle multicast_loop; ///< IP_MULTICAST_LOOP, IPV6_MULTICAST_LOOP; default: on

    // Unix sockets that are bound to a path.
    uint32_t unix_mode; ///< permissions of the file, whatever the umask is; default: 0777 & ~umask
    enum weft_unix_existing unix_existing;
    bool unix_keep; ///< closing leaves the file where it is
};
#define WEFT_SOCKET_OPTIONS_INIT                                                                   \
    {                                                                                              \
        sizeof(struct weft_socket_options), NULL, 0, 0, 0, NULL, 0, WEFT_DEFAULT, false,           \
            WEFT_DEFAULT, 0, 0, WEFT_DEFAULT, false, 0, 0, 0, 0, false, 0, 0, false, false, 0,     \
            NULL, WEFT_DEFAULT, 0, WEFT_UNIX_REPLACE_STALE, false                                  \
    }

/// Fills `options` with the defaults.
WEFT_API void weft_socket_options_init(struct weft_socket_options *options);

WEFT_END_DECLS

#endif
