"""Measures calls of a tool with the standard library alone.

    independent.py closed DEPTH WARM_UP SECONDS PARAMS COMMAND…
    independent.py open RATE WARM_UP SECONDS PARAMS (URL | COMMAND…)
    independent.py sessions URL COUNT
    independent.py end URL ID…

The first is a closed loop over stdio, the second an open loop of one connection. The others print
the ids of new sessions, and end them. The results exclude the seconds of the warm-up. PARAMS are
those of tools/call, as JSON. Prints as JSON: calls a second, median times in microseconds, from
when a call was due and from when it was sent until the read that completed its answer has
returned, and the cores that this and a server over stdio have used.

An answer is compared with the first one byte by byte; only others are parsed. In a closed loop a
write has one new call for each answer of a read.
"""

import gc
import json
import os
import socket
import statistics
import subprocess
import sys
import time
from urllib.parse import urlsplit

VERSION = "2025-11-25"
# A sleep may end this much late.
SPIN_S = 0.0002
READ_BYTES = 65_536
# Differs from all parts of an answer.
FIRST_ID = 918_273_645


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
        self.output = self.server.stdin.fileno()
        self.input = self.server.stdout.fileno()
        self.received = b""

    def frame(self, message):
        return message + b"\n"

    def send(self, framed):
        assert os.write(self.output, framed) == len(framed), "the server does not read"

    def receive(self):
        """Returns the lines that a read completes, and when it returned."""
        while True:
            more = os.read(self.input, READ_BYTES)
            now = time.perf_counter()
            assert more, "the server has ended"
            lines = (self.received + more).split(b"\n")
            self.received = lines.pop()
            if lines:
                return lines, now

    def cpu_s(self):
        with open(f"/proc/{self.server.pid}/stat", encoding="ascii") as file:
            fields = file.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

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

    def frame(self, message, method="POST"):
        fields = f"{method} {self.url.path} HTTP/1.1\r\nHost: {self.url.netloc}\r\n".encode()
        fields += b"Content-Type: application/json\r\n"
        fields += b"Accept: application/json, text/event-stream\r\n"
        if self.session:
            fields += f"MCP-Protocol-Version: {VERSION}\r\n".encode()
            fields += b"MCP-Session-Id: " + self.session + b"\r\n"
        return fields + f"Content-Length: {len(message)}\r\n\r\n".encode() + message

    def send(self, framed):
        self.socket.sendall(framed)

    def receive(self):
        """Returns the messages of a response, and when the read that completed it returned."""
        received, now = self.read(b"", lambda text: b"\r\n\r\n" in text)
        head, _, body = received.partition(b"\r\n\r\n")
        fields = dict(line.split(b": ", 1) for line in head.split(b"\r\n")[1:])
        fields = {name.lower(): value for name, value in fields.items()}
        self.session = fields.get(b"mcp-session-id", self.session)
        length = fields.get(b"content-length")
        if length is None and fields.get(b"transfer-encoding") == b"chunked":
            body, now = self.read(body, lambda text: text.endswith(b"0\r\n\r\n"), now)
        else:
            body, now = self.read(body, lambda text: len(text) >= int(length or 0), now)
        start, end = body.find(b"{"), body.rfind(b"}")
        return [body[start : end + 1]] if start >= 0 else [], now

    def read(self, received, is_complete, now=0.0):
        while not is_complete(received):
            more = self.socket.recv(READ_BYTES)
            now = time.perf_counter()
            assert more, "the server closed the connection"
            received += more
        return received, now

    def cpu_s(self):
        return 0.0

    def close(self):
        self.socket.close()


class Caller:
    """Calls of one tool on a server."""

    def __init__(self, server, params):
        self.server = server
        call = {"jsonrpc": "2.0", "id": 0, "method": "tools/call", "params": params}
        text = json.dumps(call, separators=(",", ":"))
        self.request = text.replace('"id":0', '"id":%d').encode()
        server.send(self.frame(FIRST_ID))
        first = None
        while first is None:
            first = next((text for text in server.receive()[0] if is_result(text)), None)
        self.head, self.tail = first.split(str(FIRST_ID).encode())

    def frame(self, number):
        return self.server.frame(self.request % number)

    def answered(self, text):
        """Returns the id of the call that a message answers, or None if it is no answer."""
        if text.startswith(self.head) and text.endswith(self.tail):
            return int(text[len(self.head) : len(text) - len(self.tail)])
        assert not is_result(text), text
        return None


def is_result(text):
    message = json.loads(text)
    if "method" in message:
        return False
    assert "result" in message and not message["result"].get("isError"), message
    return True


def open_session(server):
    client = {"name": "independent", "version": "1"}
    params = {"protocolVersion": VERSION, "capabilities": {}, "clientInfo": client}
    message = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}
    server.send(server.frame(json.dumps(message).encode()))
    while not any(is_result(text) for text in server.receive()[0]):
        pass
    server.send(server.frame(b'{"jsonrpc":"2.0","method":"notifications/initialized"}'))
    if isinstance(server, Http):
        server.receive()


class Meter:
    """Times of measured calls, and the CPU time of both sides meanwhile."""

    def __init__(self, server, begin, seconds):
        self.server, self.begin, self.seconds = server, begin, seconds
        self.responses, self.services = [], []
        self.cpu = None

    def record(self, due, sent, now):
        self.responses.append(now - due)
        self.services.append(now - sent)

    def read_cpu(self, now):
        """Starts the measurement of CPU time once the warm-up is over."""
        if self.cpu is None and now >= self.begin:
            self.cpu = (now, time.process_time(), self.server.cpu_s())

    def result(self):
        since, own, others = self.cpu
        seconds = time.perf_counter() - since
        return {
            "rate": len(self.responses) / self.seconds,
            "p50_us": statistics.median(self.responses) * 1e6,
            "service_p50_us": statistics.median(self.services) * 1e6,
            "cores": (time.process_time() - own) / seconds,
            "server_cores": (self.server.cpu_s() - others) / seconds,
        }


def measure_closed(caller, depth, warm_up, seconds):
    server, begin = caller.server, time.perf_counter() + warm_up
    meter, end = Meter(server, begin, seconds), begin + seconds
    last, sent, calls = depth, {}, range(1, depth + 1)
    now = time.perf_counter()
    while now < end:
        sent.update(dict.fromkeys(calls, now))
        if calls:
            server.send(b"".join([caller.frame(number) for number in calls]))
        lines, now = server.receive()
        meter.read_cpu(now)
        ids = [id for id in map(caller.answered, lines) if id is not None]
        for id in ids:
            sent_at = sent.pop(id)
            if begin <= now < end:
                meter.record(sent_at, sent_at, now)
        calls = range(last + 1, last + 1 + len(ids))
        last += len(ids)
    return meter.result()


def measure_open(caller, rate, warm_up, seconds):
    server, start = caller.server, time.perf_counter()
    meter = Meter(server, start + warm_up, seconds)
    for number in range(int((warm_up + seconds) * rate)):
        framed, due = caller.frame(number + 1), start + number / rate
        meter.read_cpu(due)
        while (left := due - (sent := time.perf_counter())) > 0:
            if left > SPIN_S:
                time.sleep(left - SPIN_S)
        server.send(framed)
        id = None
        while id is None:
            texts, now = server.receive()
            id = next(filter(None, map(caller.answered, texts)), None)
        assert id == number + 1, texts
        if due >= meter.begin and now <= meter.begin + seconds:
            meter.record(due, sent, now)
    return meter.result()


def open_sessions(url, count):
    for _ in range(count):
        server = Http(url)
        open_session(server)
        print(server.session.decode())
        server.close()


def end_sessions(url, sessions):
    for session in sessions:
        server = Http(url)
        server.session = session.encode()
        server.send(server.frame(b"", "DELETE"))
        server.receive()
        server.close()


def main():
    what, *rest = sys.argv[1:]
    if what == "sessions":
        return open_sessions(rest[0], int(rest[1]))
    if what == "end":
        return end_sessions(rest[0], rest[1:])
    load, warm_up, seconds, params, *target = rest
    server = Http(target[0]) if target[0].startswith("http:") else Pipes(target)
    open_session(server)
    caller = Caller(server, json.loads(params))
    # A collection would be a pause of this, not of the server.
    gc.disable()
    if what == "closed":
        result = measure_closed(caller, int(load), float(warm_up), float(seconds))
    else:
        result = measure_open(caller, float(load), float(warm_up), float(seconds))
    server.close()
    if isinstance(server, Http):
        end_sessions(target[0], [server.session.decode()])
    print(json.dumps(result))


main()
