"""Measures calls of a tool with the standard library alone: response times of one connection.

Arguments: the rate in calls a second (0 for a closed loop), the measured seconds, the calls in
flight in a closed loop, the `params` of tools/call as JSON, and the URL or the command of the
server. Prints calls a second and the median response time as JSON. In an open loop, a response time
counts from when its call was due.

With `session` and a URL, prints the id of a new session instead.
"""

import json
import os
import socket
import statistics
import subprocess
import sys
import time
from urllib.parse import urlsplit

VERSION = "2025-11-25"
# Excluded from the results.
WARM_UP_S = 1
# A sleep may end this much late.
SPIN_S = 0.0002


class Pipes:
    """A server that this starts."""

    def __init__(self, command):
        self.server = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
        )
        self.received = b""

    def send(self, message):
        os.write(self.server.stdin.fileno(), message + b"\n")

    def receive(self):
        while b"\n" not in self.received:
            more = os.read(self.server.stdout.fileno(), 65_536)
            assert more, "the server has ended"
            self.received += more
        line, _, self.received = self.received.partition(b"\n")
        return json.loads(line)

    def close(self):
        self.server.stdin.close()
        self.server.wait()


class Http:
    """A connection to a server over Streamable HTTP."""

    def __init__(self, url):
        self.url = urlsplit(url)
        self.session = b""
        self.socket = socket.create_connection((self.url.hostname, self.url.port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, message):
        fields = f"POST {self.url.path} HTTP/1.1\r\nHost: {self.url.netloc}\r\n".encode()
        fields += b"Content-Type: application/json\r\n"
        fields += b"Accept: application/json, text/event-stream\r\n"
        if self.session:
            fields += f"MCP-Protocol-Version: {VERSION}\r\n".encode()
            fields += b"MCP-Session-Id: " + self.session + b"\r\n"
        length = f"Content-Length: {len(message)}\r\n\r\n".encode()
        self.socket.sendall(fields + length + message)

    def receive(self):
        received = self.read(b"", lambda text: b"\r\n\r\n" in text)
        head, _, body = received.partition(b"\r\n\r\n")
        fields = dict(line.split(b": ", 1) for line in head.split(b"\r\n")[1:])
        fields = {name.lower(): value for name, value in fields.items()}
        self.session = fields.get(b"mcp-session-id", self.session)
        length = fields.get(b"content-length")
        if length is None and fields.get(b"transfer-encoding") == b"chunked":
            body = self.read(body, lambda text: text.endswith(b"0\r\n\r\n"))
        else:
            body = self.read(body, lambda text: len(text) >= int(length or 0))
        start = body.find(b'{')
        end = body.rfind(b'}')
        return json.loads(body[start : end + 1]) if start >= 0 else None

    def read(self, received, is_complete):
        while not is_complete(received):
            more = self.socket.recv(65_536)
            assert more, "the server closed the connection"
            received += more
        return received

    def close(self):
        self.socket.close()


def open_session(server):
    client = {"name": "independent", "version": "1"}
    params = {"protocolVersion": VERSION, "capabilities": {}, "clientInfo": client}
    message = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}
    server.send(json.dumps(message).encode())
    assert server.receive()["result"]["protocolVersion"] == VERSION
    server.send(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')
    if isinstance(server, Http):
        server.receive()


def answer(server):
    """Returns the id of the next answer."""
    while True:
        message = server.receive()
        if "id" in message and "method" not in message:
            assert not message["result"].get("isError"), message
            return message["id"]


def measure_closed(server, request, seconds, depth):
    begin = time.perf_counter() + WARM_UP_S
    sent, times, number = {}, [], 0
    while True:
        while len(sent) < depth:
            number += 1
            sent[number] = time.perf_counter()
            server.send(request % number)
        due = sent.pop(answer(server))
        now = time.perf_counter()
        if now > begin + seconds:
            return times
        if now > begin:
            times.append(now - due)


def measure_open(server, request, rate, seconds):
    begin, times = time.perf_counter(), []
    for number in range(int((WARM_UP_S + seconds) * rate)):
        due = begin + number / rate
        while (left := due - time.perf_counter()) > 0:
            if left > SPIN_S:
                time.sleep(left - SPIN_S)
        server.send(request % (number + 1))
        answer(server)
        now = time.perf_counter()
        if due >= begin + WARM_UP_S and now <= begin + WARM_UP_S + seconds:
            times.append(now - due)
    return times


def main():
    if sys.argv[1] == "session":
        server = Http(sys.argv[2])
        open_session(server)
        print(server.session.decode())
        return
    rate, seconds, depth = float(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
    message = {"jsonrpc": "2.0", "id": 0, "method": "tools/call", "params": json.loads(sys.argv[4])}
    request = json.dumps(message, separators=(",", ":")).replace('"id":0', '"id":%d').encode()
    target = sys.argv[5:]
    server = Http(target[0]) if target[0].startswith("http:") else Pipes(target)
    open_session(server)
    if rate > 0:
        times = measure_open(server, request, rate, seconds)
    else:
        times = measure_closed(server, request, seconds, depth)
    server.close()
    print(json.dumps({"rate": len(times) / seconds, "p50_us": statistics.median(times) * 1e6}))


main()
