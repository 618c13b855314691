// asio.cpp - Boost.Asio's servers, by the protocol described in bench/serve.h.
//
// Bytes are sent by a plain write that does not wait, which is cheaper than async_write; that is for
// what the socket did not take. The io_context is told that one thread runs it and takes no locks.
#include <boost/asio.hpp>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>

#include "../../serve.h"

namespace asio = boost::asio;
using boost::system::error_code;

static char block[SERVE_BLOCK];

template <class Protocol> struct session : std::enable_shared_from_this<session<Protocol>> {
    using socket_type = typename Protocol::socket;

    socket_type socket;
    std::uint64_t left = 0;

    explicit session(socket_type &&accepted) : socket(std::move(accepted))
    {
        socket.non_blocking(true);
    }

    // What could be sent now; -1: the connection is broken.
    std::ptrdiff_t try_write(const char *data, std::size_t size)
    {
        error_code error;
        std::size_t n = socket.write_some(asio::buffer(data, size), error);
        return !error || error == asio::error::would_block ? (std::ptrdiff_t)n : -1;
    }

    template <class Then> void write(const char *data, std::size_t size, Then then)
    {
        std::ptrdiff_t n = try_write(data, size);
        if (n == (std::ptrdiff_t)size) {
            then();
        } else if (n >= 0) {
            asio::async_write(
                socket, asio::buffer(data + n, size - (std::size_t)n),
                [self = this->shared_from_this(), then](error_code error, std::size_t) {
                    if (!error) {
                        then();
                    }
                });
        }
    }
};

template <class Protocol> struct echo_session : session<Protocol> {
    char buffer[SERVE_ECHO_BUFFER];

    using session<Protocol>::session;

    std::shared_ptr<echo_session> self()
    {
        return std::static_pointer_cast<echo_session>(this->shared_from_this());
    }

    void start()
    {
        this->socket.async_read_some(asio::buffer(buffer),
                                     [me = self()](error_code error, std::size_t n) {
                                         if (!error) {
                                             me->write(me->buffer, n, [me] { me->start(); });
                                         }
                                     });
    }
};

template <class Protocol> struct stream_session : session<Protocol> {
    using session<Protocol>::session;

    std::shared_ptr<stream_session> self()
    {
        return std::static_pointer_cast<stream_session>(this->shared_from_this());
    }

    template <class Then> void length(Then then)
    {
        asio::async_read(this->socket, asio::buffer(&this->left, sizeof this->left),
                         [me = self(), then](error_code error, std::size_t) {
                             if (!error) {
                                 then();
                             }
                         });
    }
};

template <class Protocol> struct source_session : stream_session<Protocol> {
    using stream_session<Protocol>::stream_session;

    void start()
    {
        this->length([this] { more(); });
    }

    void more()
    {
        while (this->left > 0) {
            std::size_t size = this->left < SERVE_BLOCK ? (std::size_t)this->left : SERVE_BLOCK;
            std::ptrdiff_t n = this->try_write(block, size);
            if (n < 0) {
                return;
            }
            this->left -= size;
            if ((std::size_t)n < size) {
                asio::async_write(this->socket, asio::buffer(block, size - (std::size_t)n),
                                  [me = this->self(), this](error_code error, std::size_t) {
                                      if (!error) {
                                          more();
                                      }
                                  });
                return;
            }
        }
        start();
    }
};

template <class Protocol> struct sink_session : stream_session<Protocol> {
    using stream_session<Protocol>::stream_session;

    void start()
    {
        this->length([this] { more(); });
    }

    void more()
    {
        std::size_t size = this->left < SERVE_BLOCK ? (std::size_t)this->left : SERVE_BLOCK;
        this->socket.async_read_some(asio::buffer(block, size),
                                     [me = this->self(), this](error_code error, std::size_t n) {
                                         if (error) {
                                             return;
                                         }
                                         this->left -= n;
                                         if (this->left > 0) {
                                             more();
                                         } else if (this->try_write("", 1) == 1) {
                                             start();
                                         }
                                     });
    }
};

template <class Protocol> static void start(serve_mode mode, typename Protocol::socket &&socket)
{
    switch (mode) {
    case SERVE_ECHO: std::make_shared<echo_session<Protocol>>(std::move(socket))->start(); break;
    case SERVE_SOURCE:
        std::make_shared<source_session<Protocol>>(std::move(socket))->start();
        break;
    case SERVE_SINK: std::make_shared<sink_session<Protocol>>(std::move(socket))->start(); break;
    default: break; // goes out of scope, which closes it
    }
}

template <class Protocol> static void accept(typename Protocol::acceptor &acceptor, serve_mode mode)
{
    acceptor.async_accept([&acceptor, mode](error_code error, typename Protocol::socket socket) {
        if (!error) {
            start<Protocol>(mode, std::move(socket));
        }
        accept<Protocol>(acceptor, mode);
    });
}

template <class Protocol> static int serve(serve_mode mode, int fd, const Protocol &protocol)
{
    asio::io_context context(BOOST_ASIO_CONCURRENCY_HINT_UNSAFE);
    typename Protocol::acceptor acceptor(context, protocol, fd);
    accept<Protocol>(acceptor, mode);
    serve_ready();
    context.run();
    return 0;
}

int main(int argc, char **argv)
{
    if (argc != 4 || std::strcmp(argv[1], "serve") != 0) {
        std::fprintf(stderr, "usage: asio serve MODE ADDRESS\n");
        return 2;
    }
    int mode = serve_mode_parse(argv[2]), fd = serve_listen(argv[3]);
    if (mode < 0 || fd < 0) {
        return serve_skip(fd < 0 ? fd : EINVAL);
    }
    if (std::strncmp(argv[3], "tcp:", 4) == 0) {
        return serve((serve_mode)mode, fd, asio::ip::tcp::v4());
    }
    return serve((serve_mode)mode, fd, asio::local::stream_protocol());
}
