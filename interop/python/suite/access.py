"""Scenarios of keys, tokens and throttling."""

import asyncio
import base64
import json
import time

from azure.core.credentials import AccessToken
from azure.core.exceptions import ServiceRequestError

from .admin import throttle
from .env import ENDPOINT, KEY, READ_ONLY_KEY, SYNC, equal, everywhere, new_client, refused, spread, upsert
from .feed import Feed
from .scenario import scenario
from .sdk import listed


class Counter:
    """Counts a client's requests, including retries, in a hook of the SDK's pipeline."""

    def __init__(self):
        self.requests = self.writes = 0

    def __call__(self, request):
        self.requests += 1
        if request.http_request.method == "POST" and request.http_request.url.rstrip("/").endswith("/docs"):
            self.writes += 1


@scenario("throttling")
async def throttling(run):
    container = await run.container()
    counter = Counter()
    writer = await run.another(container, raw_request_hook=counter)
    await writer.create_item({"id": "up", "pk": "warm", "v": 0})
    before = counter.writes
    end = await throttle(container, 5)
    refusals = 0
    try:

        async def write(w):
            for n in range(20):
                await writer.create_item({"id": f"{w}-{n}", "pk": f"key {n}", "v": n})

        await asyncio.gather(*(write(w) for w in range(4)))
    finally:
        refusals = await end()
    assert refusals > 0, "nothing was throttled"
    equal(counter.writes - before, 80 + refusals, "writes sent")
    equal(len(await Feed(container, start_time="Beginning").drain()), 81)


@scenario("wrong-key")
async def wrong_key(run):
    for key in ["d3Jvbmc=", base64.b64encode(bytes(64)).decode()]:
        counter = Counter()

        async def connect():
            async with new_client(key, raw_request_hook=counter) as client:
                await client.create_database("never")

        await refused(connect(), 401)
        assert counter.requests <= 4, f"{counter.requests} requests until the refusal came through"
    await refused(run.client.get_database_client("never").read(), 404)


@scenario("read-only-key")
async def read_only_key(run):
    container = await run.container()
    await upsert(container, spread(10, 1))
    async with new_client(READ_ONLY_KEY) as client:
        _, database, _, name = container.container_link.split("/")
        reading = client.get_database_client(database).get_container_client(name)
        equal((await reading.read_item("3", "key 3"))["v"], 1)
        equal(len(await listed(reading.query_items("SELECT * FROM c", **everywhere()))), 10)
        equal(len(await Feed(reading, start_time="Beginning").drain()), 10)
        await refused(reading.upsert_item({"id": "3", "pk": "key 3", "v": 2}), 403)
        await refused(reading.delete_item("3", "key 3"), 403)
        await refused(reading.patch_item("3", "key 3", [{"op": "incr", "path": "/v", "value": 1}]), 403)
        await refused(client.create_database("never"), 403)


class EmulatorCredential:
    """A credential with tokens in the form of the local emulators: the key's text is the signature."""

    def __init__(self, key):
        now = int(time.time())
        header = {"typ": "JWT", "alg": "RS256", "x5t": "CosmosEmulatorPrimaryMaster", "kid": "CosmosEmulatorPrimaryMaster"}
        claims = {
            "sub": "localhost", "tid": "EmulatorFederation", "ver": "1.0", "scp": "user_impersonation", "nbf": now,
            "exp": now + 7200, "iat": now, "aud": "https://localhost.localhost",
        }
        parts = [json.dumps(header), json.dumps(claims), key]
        self._token = AccessToken(".".join(base64.urlsafe_b64encode(p.encode()).decode().rstrip("=") for p in parts), now + 7200)

    def get_token(self, *scopes, **more):
        return self._token

    async def close(self):
        pass

    async def __aenter__(self):
        return self

    async def __aexit__(self, *args):
        pass


class AsyncEmulatorCredential(EmulatorCredential):
    async def get_token(self, *scopes, **more):
        return self._token


@scenario("emulator-token")
async def emulator_token(run):
    container = await run.container()
    credential = EmulatorCredential if SYNC else AsyncEmulatorCredential
    if ENDPOINT.startswith("http:"):
        try:
            await (await run.another(container, key=credential(KEY))).create_item({"id": "1", "pk": "p"})
        except ServiceRequestError as err:  # the SDK sends tokens only over TLS
            assert "TLS" in str(err), err
            return
        raise AssertionError("a token was sent without TLS")
    writing = await run.another(container, key=credential(KEY))
    await writing.create_item({"id": "1", "pk": "p", "v": 1})
    equal((await writing.read_item("1", "p"))["v"], 1)
    await refused(run.another(container, key=credential("d3Jvbmc=")), 401)
