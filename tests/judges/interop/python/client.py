"""Uses one feature of MCP through the official Python SDK and prints a JSON summary.

Usage: client.py FEATURE MODE URL
       client.py FEATURE MODE COMMAND [ARGUMENT...]

FEATURE is a module in this directory. MODE is the mode of the SDK's `Client`: `legacy` (the
initialize handshake), `auto` (discover first) or a modern revision. URL is a Streamable HTTP
endpoint; COMMAND starts a stdio server. The scripts assert nothing; the tests in
`tests/judges/interop` check the summary.
"""

import importlib
import json
import sys
import warnings

import anyio
from mcp.shared.exceptions import MCPDeprecationWarning

import common

FEATURES = (
    "session",
    "content",
    "progress_and_logging",
    "resources",
    "prompts",
    "client_requests",
    "input_required",
    "changes",
    "tasks",
    "resumption",
    "greeting",
)


async def main(feature, mode, *target):
    if feature not in FEATURES:
        raise SystemExit(f"no such feature: {feature}")
    module = importlib.import_module(feature)
    with anyio.fail_after(4 * common.STEP_SECONDS_MAX):
        summary = await module.summary(common.Server(list(target), mode))
    print(json.dumps(summary))


if __name__ == "__main__":
    # The legacy era is deprecated, and tested here on purpose.
    warnings.simplefilter("ignore", MCPDeprecationWarning)
    anyio.run(main, *sys.argv[1:])
