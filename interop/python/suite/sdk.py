"""Both clients of the SDK behind one face, the asynchronous one's.

The scenarios are written once, as a user of azure.cosmos.aio writes them. With the synchronous client
each call that would be awaited there is made in a thread, as a program does that uses that client from several threads; what
is called, with which arguments, is the same.
"""

import asyncio
import inspect
from contextlib import asynccontextmanager

import azure.cosmos
import azure.cosmos.aio
from azure.core.paging import ItemPaged

_END = object()

# The class that each synchronous one is the twin of.
_TWINS = {
    azure.cosmos.CosmosClient: azure.cosmos.aio.CosmosClient,
    azure.cosmos.DatabaseProxy: azure.cosmos.aio.DatabaseProxy,
    azure.cosmos.ContainerProxy: azure.cosmos.aio.ContainerProxy,
    azure.cosmos.UserProxy: azure.cosmos.aio.UserProxy,
}


@asynccontextmanager
async def client(sync, endpoint, key, **options):
    """A client of either kind, of endpoint and key."""
    async with _opened(sync, lambda kind: kind(endpoint, key, **options)) as opened:
        yield opened


@asynccontextmanager
async def from_connection_string(sync, text, **options):
    """The same of a connection string."""
    async with _opened(sync, lambda kind: kind.from_connection_string(text, **options)) as opened:
        yield opened


@asynccontextmanager
async def _opened(sync, make):
    if sync:
        inner = await asyncio.to_thread(make, azure.cosmos.CosmosClient)
        with inner:
            yield _Twin(inner)
        return
    opened = make(azure.cosmos.aio.CosmosClient)
    try:
        await opened.__aenter__()
        yield opened
    finally:  # also when it was refused at once, which the SDK leaves open
        await opened.close()


def _face(value):
    if isinstance(value, ItemPaged):
        return _Paged(value)
    return _Twin(value) if type(value) in _TWINS else value


class _Twin:
    """A synchronous client, database or container with the asynchronous one's face."""

    def __init__(self, inner):
        self._inner = inner
        self._twin = _TWINS[type(inner)]

    def __getattr__(self, name):
        attribute = getattr(self._inner, name)
        if not callable(attribute):
            return attribute
        if inspect.iscoroutinefunction(getattr(self._twin, name)):

            async def call(*args, **kwargs):
                return _face(await asyncio.to_thread(attribute, *_bare(args), **kwargs))

        else:

            def call(*args, **kwargs):
                return _face(attribute(*_bare(args), **kwargs))

        return call


def _bare(args):
    return [a._inner if isinstance(a, _Twin) else a for a in args]


class _Paged:
    """A synchronous pager with the asynchronous one's face."""

    def __init__(self, inner):
        self._inner = inner

    def __aiter__(self):
        return _items(iter(self._inner))

    def by_page(self, continuation_token=None):
        return _Pages(self._inner.by_page(continuation_token))


class _Pages:
    """Its pages, with the continuation behind the last one."""

    def __init__(self, inner):
        self._inner = inner

    @property
    def continuation_token(self):
        return self._inner.continuation_token

    def __aiter__(self):
        return self

    async def __anext__(self):
        page = await asyncio.to_thread(next, self._inner, _END)
        if page is _END:
            raise StopAsyncIteration
        return _items(iter(page))


async def _items(iterator):
    while (item := await asyncio.to_thread(next, iterator, _END)) is not _END:
        yield item


async def listed(pager):
    """All items of a pager."""
    return [item async for item in pager]
