"""Prompts: arguments, embedded resources, images, and completion of an argument."""

from mcp.types import PromptReference

from common import outcome, wire

PROMPT = "test_prompt_with_arguments"


async def summary(server):
    async with server.client() as client:
        embedded = {"resourceUri": "test://example-resource"}
        prompt = PromptReference(name=PROMPT)
        return {
            "prompts": wire(await client.list_prompts())["prompts"],
            "simple": await outcome(client.get_prompt("test_simple_prompt")),
            "arguments": await outcome(
                client.get_prompt(PROMPT, {"arg1": "hello", "arg2": "world"})
            ),
            "missing_argument": await outcome(client.get_prompt(PROMPT, {"arg1": "hello"})),
            "embedded": await outcome(
                client.get_prompt("test_prompt_with_embedded_resource", embedded)
            ),
            "image": await outcome(client.get_prompt("test_prompt_with_image")),
            "unknown": await outcome(client.get_prompt("unknown")),
            "completion": await outcome(client.complete(prompt, {"name": "arg1", "value": "par"})),
        }
