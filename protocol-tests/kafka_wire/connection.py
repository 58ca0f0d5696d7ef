"""A blocking connection that sends and receives frames."""

import select
import socket
import struct


class Connection:
    def __init__(self, host, port, timeout=10.0):
        self.timeout = timeout
        self.socket = socket.create_connection((host, port), timeout)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send_bytes(self, data):
        """Sends bytes as they are. A peer that has closed already is no error: what it said, or that it closed, is for `receive` to find."""
        try:
            self.socket.sendall(data)
        except (ConnectionError, socket.timeout):
            pass

    def send(self, frame):
        self.send_bytes(struct.pack(">i", len(frame)) + frame)

    def receive(self, timeout=None) -> bytes | None:
        """The next frame without its length; None once the peer has closed. `TimeoutError` if neither comes."""
        self.socket.settimeout(timeout or self.timeout)
        head = self.exactly(4)
        if head is None:
            return None
        return self.exactly(struct.unpack(">i", head)[0])

    def exactly(self, n):
        out = bytearray()
        while len(out) < n:
            try:
                piece = self.socket.recv(min(n - len(out), 1 << 16))
            except ConnectionError:
                return None
            if not piece:
                return None
            out += piece
        return bytes(out)

    def is_quiet(self, seconds):
        """Whether nothing comes, not even the end of the stream, for so long."""
        return not select.select([self.socket], [], [], seconds)[0]

    def finish(self):
        """Says that nothing more will be sent."""
        try:
            self.socket.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def close(self):
        self.socket.close()
