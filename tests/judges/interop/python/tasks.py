"""The tasks extension and core tasks, as far as this SDK supports them.

The SDK has no tasks extension of 2026-07-28, but its extension interface can implement it: a claim
on the result type `task`, with a resolver that polls until the task has ended. It cannot listen to
`taskIds`, which the filter of `Client.listen` lacks.

Of the core tasks of 2025-11-25 the SDK has only the types: it validates every response to
`tools/call` as `CallToolResult`, so it cannot create a task. The remaining cases are the task
methods and calls without a task.
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
from common import outcome, wire

JOBS = {
    "slow": ("slow_compute", {"seconds": 0.2, "label": "ada"}),
    "failing": ("failing_job", {}),
    "broken": ("protocol_error_job", {}),
    "confirmed": ("confirm_delete", {"filename": "old.txt"}),
    "twice": ("multi_input", {}),
}


class Task(Result):
    """A `tools/call` result of type `task`."""

    result_type: Literal["task"]
    task_id: str
    status: str
    poll_interval_ms: int


class GetTask(Result):
    """The result of `tasks/get`."""

    result_type: Literal["complete"]
    task_id: str
    status: str
    input_requests: dict[str, Any] | None = None
    result: dict[str, Any] | None = None
    error: dict[str, Any] | None = None


class Acknowledged(Result):
    """The result of `tasks/update` and `tasks/cancel`."""

    result_type: Literal["complete"]


class TaskParams(RequestParams):
    task_id: str
    input_responses: dict[str, Any] | None = None


class TaskRequest(Request[TaskParams, str]):
    name_param = "taskId"


class Tasks(ClientExtension):
    """Polls a task until it ends and responds to its input requests."""

    identifier = "io.modelcontextprotocol/tasks"

    def __init__(self):
        self.statuses = []
        self.is_cancelling = False

    def claims(self):
        return [ResultClaim(result_type="task", model=Task, resolve=self.resolve)]

    async def resolve(self, task, context):
        self.statuses.append(task.status)

        async def send(method, shape, **args):
            params = TaskParams(task_id=task.task_id, **args)
            return await context.session.send_request(
                TaskRequest(method=method, params=params), shape
            )

        if self.is_cancelling:
            await send("tasks/cancel", Acknowledged)
        while True:
            state = await send("tasks/get", GetTask)
            if state.status != self.statuses[-1]:
                self.statuses.append(state.status)
            if state.status == "input_required":
                requests = state.input_requests.items()
                responses = {key: accepted(request) for key, request in requests}
                await send("tasks/update", Acknowledged, input_responses=responses)
            elif state.status != "working":
                return call_result(state)
            await anyio.sleep(min(task.poll_interval_ms, 50) / 1000)


def accepted(request):
    content = host.content(request["params"]["requestedSchema"])
    return {"action": "accept", "content": content}


def call_result(state):
    """Returns the result or error of an ended task as the result of its call."""
    if state.result is not None:
        return CallToolResult.model_validate(state.result)
    content = state.error or {"status": state.status}
    return CallToolResult(content=[], structured_content=content, is_error=True)


async def summary(server):
    return await (core(server) if server.is_legacy else extension(server))


async def extension(server):
    tasks = Tasks()
    results = {}
    async with server.client(extensions=[tasks], **host.Host().options()) as client:
        for name, (tool, arguments) in JOBS.items():
            tasks.statuses = []
            result = await outcome(client.call_tool(tool, arguments))
            results[name] = {**result, "statuses": tasks.statuses}
        tasks.statuses, tasks.is_cancelling = [], True
        result = await outcome(client.call_tool("slow_compute", {"seconds": 600}))
        results["cancelled"] = {**result, "statuses": tasks.statuses}
        tasks.statuses = []
        results["inline"] = await outcome(client.call_tool("greet", {"name": "Ada"}))
        results["inline"]["statuses"] = tasks.statuses
        request = TaskRequest(method="tasks/get", params=TaskParams(task_id="unknown"))
        results["unknown"] = await outcome(client.session.send_request(request, GetTask))
    async with server.client() as client:
        results["undeclared"] = await outcome(client.call_tool("slow_compute", {"seconds": 0}))
        results["required"] = await outcome(client.call_tool("failing_job"))
    return results


async def core(server):
    async with server.client() as client:
        get = GetTaskRequest(params=GetTaskRequestParams(task_id="unknown"))
        return {
            "capabilities": wire(client.server_capabilities)["tasks"],
            "listed": await outcome(
                client.session.send_request(ListTasksRequest(), ListTasksResult)
            ),
            "unknown": await outcome(client.session.send_request(get, GetTaskResult)),
            "undeclared": await outcome(client.call_tool("slow_compute", {"seconds": 0})),
            "required": await outcome(client.call_tool("failing_job")),
        }
