"""A program that does not trust the server's certificate. It prints "refused" if the SDK refuses the server."""

import asyncio

from azure.core.exceptions import ServiceRequestError

from . import env
from .sdk import listed


async def main():
    try:
        async with env.new_client(retry_total=0, retry_connect=0) as client:
            await listed(client.list_databases())
    except ServiceRequestError as err:
        assert "certificate" in str(err).lower(), err
        print("refused")


asyncio.run(main())
