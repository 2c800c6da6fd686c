"""An MCP server of 2025-11-25 over HTTPS, for clients with a certificate.

Arguments: port, certificate chain, private key, and the authority of the clients, in PEM.
"""

import json
import ssl
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if "id" not in request:
            self.answer(202, b"")
            return
        message = {"jsonrpc": "2.0", "id": request["id"]}
        if request["method"] == "initialize":
            message["result"] = {
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "python", "version": "1"},
            }
        elif request["method"] == "tools/call":
            text = request["params"]["arguments"]["message"]
            message["result"] = {"content": [{"type": "text", "text": text}]}
        else:
            message["error"] = {"code": -32601, "message": "method not found"}
        self.answer(200, json.dumps(message).encode())

    def do_GET(self):
        self.answer(405, b"")

    def answer(self, status, body):
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


port, chain, key, clients = sys.argv[1:]
context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=clients)
context.verify_mode = ssl.CERT_REQUIRED
context.load_cert_chain(chain, key)
server = ThreadingHTTPServer(("127.0.0.1", int(port)), Handler)
# A handshake must not hold up others: it belongs to the first read of a connection's thread.
server.socket = context.wrap_socket(
    server.socket, server_side=True, do_handshake_on_connect=False
)
server.serve_forever()
