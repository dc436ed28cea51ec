"""Gives both clients of the SDK the interface of the asynchronous one.

The scenarios are written once, for azure.cosmos.aio. With the synchronous client, each call that
azure.cosmos.aio would await runs in a thread, with the same arguments.
"""

import asyncio
import inspect
from contextlib import asynccontextmanager

import azure.cosmos
import azure.cosmos.aio
from azure.core.paging import ItemPaged

_END = object()

# The asynchronous class that corresponds to each synchronous one.
_TWINS = {
    azure.cosmos.CosmosClient: azure.cosmos.aio.CosmosClient,
    azure.cosmos.DatabaseProxy: azure.cosmos.aio.DatabaseProxy,
    azure.cosmos.ContainerProxy: azure.cosmos.aio.ContainerProxy,
    azure.cosmos.UserProxy: azure.cosmos.aio.UserProxy,
}


@asynccontextmanager
async def client(sync, endpoint, key, **options):
    """Opens a client of either kind from endpoint and key."""
    async with _opened(sync, lambda kind: kind(endpoint, key, **options)) as opened:
        yield opened


@asynccontextmanager
async def from_connection_string(sync, text, **options):
    """Opens a client of either kind from a connection string."""
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
    finally:  # the SDK leaves the client open if its first request is refused
        await opened.close()


def _face(value):
    if isinstance(value, ItemPaged):
        return _Paged(value)
    return _Twin(value) if type(value) in _TWINS else value


class _Twin:
    """A synchronous client, database, container or user with the interface of the asynchronous one."""

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
    """A synchronous pager with the interface of the asynchronous one."""

    def __init__(self, inner):
        self._inner = inner

    def __aiter__(self):
        return _items(iter(self._inner))

    def by_page(self, continuation_token=None):
        return _Pages(self._inner.by_page(continuation_token))


class _Pages:
    """The pages of a pager, with the continuation after the last one."""

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
    """Returns all items of a pager."""
    return [item async for item in pager]
