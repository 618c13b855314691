#!/usr/bin/env python3
"""echo_test PROGRAM ARGUMENT... - an echo server echoes, to many peers at once, small and large."""
import sys
import threading

from harness import Server, check, receive


def large(sock):
    """More than all buffers hold, so that both sides have to read and write at once."""
    data = bytes(i % 251 for i in range(3000000))
    sender = threading.Thread(target=sock.sendall, args=(data,))
    sender.start()
    check(receive(sock, len(data)) == data, "large data come back unchanged")
    sender.join()


with Server(*sys.argv[1:]) as server:
    peers = [server.connect() for _ in range(50)]
    for round_number in range(5):
        for i, peer in enumerate(peers):
            peer.sendall(b"peer %d round %d\n" % (i, round_number))
        for i, peer in enumerate(peers):
            expected = b"peer %d round %d\n" % (i, round_number)
            check(receive(peer, len(expected)) == expected, "peer %d gets its own line" % i)
    large(peers[0])
    for peer in peers:
        peer.shutdown(1)
        check(peer.recv(1) == b"", "the server closes after us")
        peer.close()
    check(server.process.poll() is None, "the server still runs")
