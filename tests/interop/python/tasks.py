"""Tasks of both generations, as far as this client goes.

The extension of 2026-07-28 is not in the SDK; its interface for extensions carries it whole: a
claim on the result type `task`, here with a resolver that asks until the task has ended. It cannot
listen to `taskIds`, for the filter of `Client.listen` knows none.

The core tasks of 2025-11-25 are in the SDK as types only: it checks every answer to `tools/call`
against `CallToolResult`, so that it cannot begin a task. What is left are the methods that ask for
tasks, and calls that run without one.
"""

from typing import Any, Literal

import anyio
from mcp.client import ClientExtension, ResultClaim
from mcp.types import (
    CallToolResult,
    GetTaskRequest,
    GetTaskRequestParams,
    GetTaskResult,
    ListTasksRequest,
    ListTasksResult,
    Request,
    RequestParams,
    Result,
)

import host
from told import outcome, wire

JOBS = {
    "slow": ("slow_compute", {"seconds": 0.2, "label": "ada"}),
    "failing": ("failing_job", {}),
    "broken": ("protocol_error_job", {}),
    "confirmed": ("confirm_delete", {"filename": "old.txt"}),
    "twice": ("multi_input", {}),
}


class Task(Result):
    """A task of the extension, as it is told."""

    result_type: Literal["task"]
    task_id: str
    status: str
    poll_interval_ms: int


class Shown(Result):
    """A task that was asked for, with what its status brings along."""

    result_type: Literal["complete"]
    task_id: str
    status: str
    input_requests: dict[str, Any] | None = None
    result: dict[str, Any] | None = None
    error: dict[str, Any] | None = None


class Done(Result):
    """The answer to an update or a cancellation."""

    result_type: Literal["complete"]


class TaskParams(RequestParams):
    task_id: str
    input_responses: dict[str, Any] | None = None


class TaskRequest(Request[TaskParams, str]):
    name_param = "taskId"


class Tasks(ClientExtension):
    """Follows a task to its end and answers for the user on the way."""

    identifier = "io.modelcontextprotocol/tasks"

    def __init__(self):
        self.statuses = []
        self.cancels = False

    def claims(self):
        return [ResultClaim(result_type="task", model=Task, resolve=self.resolve)]

    async def resolve(self, task, context):
        self.statuses.append(task.status)

        async def send(method, shape, **given):
            params = TaskParams(task_id=task.task_id, **given)
            return await context.session.send_request(
                TaskRequest(method=method, params=params), shape
            )

        if self.cancels:
            await send("tasks/cancel", Done)
        while True:
            shown = await send("tasks/get", Shown)
            if shown.status != self.statuses[-1]:
                self.statuses.append(shown.status)
            if shown.status == "input_required":
                answers = {key: accepted(asked) for key, asked in shown.input_requests.items()}
                await send("tasks/update", Done, input_responses=answers)
            elif shown.status != "working":
                return ended(shown)
            await anyio.sleep(min(task.poll_interval_ms, 50) / 1000)


def accepted(asked):
    content = host.content(asked["params"]["requestedSchema"])
    return {"action": "accept", "content": content}


def ended(shown):
    """What a call must return, whatever its task came to."""
    if shown.result is not None:
        return CallToolResult.model_validate(shown.result)
    told = shown.error or {"status": shown.status}
    return CallToolResult(content=[], structured_content=told, is_error=True)


async def summary(server):
    return await (core(server) if server.is_legacy else extension(server))


async def extension(server):
    tasks = Tasks()
    seen = {}
    async with server.client(extensions=[tasks], **host.Host().options()) as client:
        for name, (tool, arguments) in JOBS.items():
            tasks.statuses = []
            result = await outcome(client.call_tool(tool, arguments))
            seen[name] = {**result, "statuses": tasks.statuses}
        tasks.statuses, tasks.cancels = [], True
        result = await outcome(client.call_tool("slow_compute", {"seconds": 600}))
        seen["cancelled"] = {**result, "statuses": tasks.statuses}
        tasks.statuses = []
        seen["inline"] = await outcome(client.call_tool("greet", {"name": "Ada"}))
        seen["inline"]["statuses"] = tasks.statuses
        request = TaskRequest(method="tasks/get", params=TaskParams(task_id="nobody"))
        seen["unknown"] = await outcome(client.session.send_request(request, Shown))
    async with server.client() as client:
        seen["undeclared"] = await outcome(client.call_tool("slow_compute", {"seconds": 0}))
        seen["required"] = await outcome(client.call_tool("failing_job"))
    return seen


async def core(server):
    async with server.client() as client:
        get = GetTaskRequest(params=GetTaskRequestParams(task_id="nobody"))
        return {
            "offered": wire(client.server_capabilities)["tasks"],
            "listed": await outcome(
                client.session.send_request(ListTasksRequest(), ListTasksResult)
            ),
            "unknown": await outcome(client.session.send_request(get, GetTaskResult)),
            "undeclared": await outcome(client.call_tool("slow_compute", {"seconds": 0})),
            "required": await outcome(client.call_tool("failing_job")),
        }
