"""Reading change feeds as a user's loop does."""

import asyncio
import json
import os
import sys


class Feed:
    """A change feed that goes on behind what was read.

    The SDK's pager ends where nothing is new; the next one starts at the continuation that the client's last answer told.
    """

    def __init__(self, container, max_item_count=5, **start):
        self._container = container
        self._start = start
        self._size = max_item_count
        self._pages = None
        self.continuation = None

    async def page(self):
        """The next page; an empty one means that nothing is new."""
        if self._pages is None:
            start = {"continuation": self.continuation} if self.continuation else self._start
            self._pages = self._container.query_items_change_feed(max_item_count=self._size, **start).by_page()
        try:
            items = [item async for item in await anext(self._pages)]
        except StopAsyncIteration:
            self._pages, items = None, []
        self.continuation = self._container.client_connection.last_response_headers["etag"]
        return items

    async def drain(self):
        """Everything until nothing is new."""
        everything = []
        while items := await self.page():
            everything += items
        return everything


def latest(changes):
    """The last version of each id under its key; the feed may not go back in it."""
    seen = {}
    for change in changes:
        name = f"{change['pk']}/{change['id']}"
        assert name not in seen or change["v"] >= seen[name], f"{name}: version {change['v']} after {seen[name]}"
        seen[name] = change["v"]
    return seen


async def in_new_process(container, continuation):
    """Reads on from a continuation, to the end, in a process of its own."""
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "suite.child", container.container_link, continuation, env=os.environ,
        stdout=asyncio.subprocess.PIPE, limit=1 << 26,
    )
    out, _ = await child.communicate()
    assert child.returncode == 0, f"the process that reads on ended with {child.returncode}"
    return json.loads(out)
