"""A process that receives only a continuation. It reads the new changes and prints them."""

import asyncio
import json
import sys

from . import env
from .feed import Feed


async def main(link, continuation):
    _, database, _, name = link.split("/")
    async with env.new_client() as client:
        container = client.get_database_client(database).get_container_client(name)
        print(json.dumps(await Feed(container, continuation=continuation).drain()))


asyncio.run(main(*sys.argv[1:]))
