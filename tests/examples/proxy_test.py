#!/usr/bin/env python3
"""proxy_test PROGRAM ADDRESS - a proxy passes bytes, ends and resets on, in both directions."""
import socket
import struct
import sys
import threading

from harness import Server, check, receive


hung_up = threading.Event()


class Target:
    """Reads all that a peer says, and when it is through answers with the same backwards."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = "tcp://127.0.0.1:%d" % self.listener.getsockname()[1]
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        while True:
            peer, _ = self.listener.accept()
            threading.Thread(target=self.answer, args=(peer,), daemon=True).start()

    @staticmethod
    def answer(peer):
        with peer:
            data = b""
            try:
                while part := peer.recv(65536):
                    data += part
                    if data == b"reset":
                        reset(peer)
                        return
                peer.sendall(data[::-1])
            except ConnectionResetError:
                hung_up.set()


def reset(sock):
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


def ends(sock):
    """Whether the peer closes, one way or the other."""
    try:
        return sock.recv(1) == b""
    except ConnectionResetError:
        return True


def turned_away(server):
    try:
        with server.connect() as peer:
            return ends(peer)
    except ConnectionResetError:  # before we had looked
        return True


def both_directions(server):
    peers = [server.connect() for _ in range(20)]
    for i, peer in enumerate(peers):
        peer.sendall(b"hello from %d" % i)
        peer.shutdown(socket.SHUT_WR)  # the other direction goes on
    for i, peer in enumerate(peers):
        expected = (b"hello from %d" % i)[::-1]
        check(receive(peer, 100) == expected, "peer %d gets its answer and the end" % i)
    data = bytes(i % 253 for i in range(5000000))
    with server.connect() as peer:
        peer.sendall(data)
        peer.shutdown(socket.SHUT_WR)
        check(receive(peer, len(data) + 1) == data[::-1], "large data arrive whole")


def resets(server):
    with server.connect() as peer:
        peer.sendall(b"reset")
        check(ends(peer), "a reset by the target ends the connection")
    peer = server.connect()
    peer.sendall(b"going to hang up")
    reset(peer)
    check(hung_up.wait(timeout=20), "a reset by the client comes to the target")
    with server.connect() as peer:
        peer.shutdown(socket.SHUT_WR)
        check(receive(peer, 1) == b"", "the proxy bears a reset by the client")


program, address = sys.argv[1:]
target = Target()
with Server(program, target.address, address) as proxy:
    both_directions(proxy)
    resets(proxy)
target.listener.close()
with socket.create_server(("127.0.0.1", 0)) as unused:
    nobody = "tcp://127.0.0.1:%d" % unused.getsockname()[1]
with Server(program, nobody, address) as proxy:
    for _ in range(3):
        check(turned_away(proxy), "without a target the client is turned away")
