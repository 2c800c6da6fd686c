"""One feature of MCP, used by the official Python SDK and told as one JSON object.

Usage: client.py FEATURE MODE URL
       client.py FEATURE MODE COMMAND [ARGUMENT...]

FEATURE is a module beside this file. MODE is what the SDK's `Client` calls it: `legacy` (the
initialize handshake), `auto` (discover first) or a modern revision. URL is where a server speaks
Streamable HTTP; COMMAND starts one over stdio. The scripts judge nothing: they do what a client
does and say what came back; the tests above this folder assert.
"""

import importlib
import json
import sys
import warnings

import anyio
from mcp.shared.exceptions import MCPDeprecationWarning

import told

FEATURES = (
    "session",
    "content",
    "telling",
    "resources",
    "prompts",
    "asking",
    "rounds",
    "changes",
    "tasks",
    "exchanges",
)


async def main(feature, mode, *place):
    if feature not in FEATURES:
        raise SystemExit(f"no such feature: {feature}")
    module = importlib.import_module(feature)
    with anyio.fail_after(4 * told.STEP_SECONDS_MAX):
        summary = await module.summary(told.Server(list(place), mode))
    print(json.dumps(summary))


if __name__ == "__main__":
    # The legacy era is what these scripts are about, however old it is.
    warnings.simplefilter("ignore", MCPDeprecationWarning)
    anyio.run(main, *sys.argv[1:])
