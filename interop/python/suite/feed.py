"""Reads change feeds as a user's loop does."""

import asyncio
import json
import os
import sys


class Feed:
    """A change feed that continues after the last page.

    A pager of the SDK ends when there are no new changes. The next pager starts at the continuation
    in the client's last answer.
    """

    def __init__(self, container, max_item_count=5, **start):
        self._container = container
        self._start = start
        self._size = max_item_count
        self._pages = None
        self.continuation = None

    async def page(self):
        """Returns the next page. An empty page means that there are no new changes."""
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
        """Reads until there are no new changes."""
        everything = []
        while items := await self.page():
            everything += items
        return everything


def latest(changes):
    """Returns the last version of each id by key. It fails if an older version follows a newer one."""
    seen = {}
    for change in changes:
        name = f"{change['pk']}/{change['id']}"
        assert name not in seen or change["v"] >= seen[name], f"{name}: version {change['v']} after {seen[name]}"
        seen[name] = change["v"]
    return seen


async def in_new_process(container, continuation):
    """Reads from a continuation to the end in another process."""
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "suite.child", container.container_link, continuation, env=os.environ,
        stdout=asyncio.subprocess.PIPE, limit=1 << 26,
    )
    out, _ = await child.communicate()
    assert child.returncode == 0, f"the process that reads on ended with {child.returncode}"
    return json.loads(out)
