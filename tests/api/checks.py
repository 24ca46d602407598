"""What schemathesis cannot know about the API: where a task may be sent in a test, and which rules no schema can tell."""

import os
import re

import schemathesis
from schemathesis.generation import GenerationMode

RECEIVER = os.environ["RECEIVER"]  # http://127.0.0.1:PORT

# Faults of a request that api/openapi.yaml allows: what the units of a duration add up to, bytes instead of characters,
# one member against another, a list of names, a cursor that no page gave. Everything else in a 400 must be told by the
# schema.
BEYOND_THE_SCHEMA = re.compile(
    r"^must be (a duration|a time|from .+ to .+|at most 10 years|at most \d+ bytes)"
    r"|^must not be (above max|below initial)"
    r"|^(cannot be set|differs only in case)"
    r"|without fraction or exponent$"
    r"|^is not the next_cursor of a page"
    r"|^NUL byte in object key"
)


def redirected(task):
    """The same task for the test's own receiver, or for a port where nobody listens."""
    if not isinstance(task, dict):
        return task
    changed = dict(task)
    for member in ("url", "on_success", "on_failure"):
        url = task.get(member)
        if isinstance(url, str) and re.fullmatch(r"[Hh][Tt][Tt][Pp][Ss]?://[!-~]+", url) and len(url) <= 2048:
            host = RECEIVER if len(url) % 2 else "http://127.0.0.1:9"
            changed[member] = host + "/" + re.sub(r"[^A-Za-z0-9/]", "", url)[:100]
    return changed


@schemathesis.hook
def before_call(ctx, case, kwargs):
    """Tasks never go to a name or another machine."""
    case.body = redirected(case.body)
    if isinstance(case.body, dict) and isinstance(case.body.get("tasks"), list):
        case.body["tasks"] = [redirected(task) for task in case.body["tasks"]]


@schemathesis.check
def a_refusal_is_told_by_the_schema(ctx, response, case):
    if response.status_code != 400 or case.meta is None or case.meta.generation.mode != GenerationMode.POSITIVE:
        return
    unexplained = [
        fault for fault in response.json().get("errors", []) if not BEYOND_THE_SCHEMA.search(fault["detail"])
    ]
    assert not unexplained, f"the schema allows this request, and yet: {unexplained}"
