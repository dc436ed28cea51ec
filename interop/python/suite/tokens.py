"""Scenarios of users, permissions and resource tokens."""

from .env import equal, refused, spread, upsert
from .scenario import scenario
from .sdk import listed


@scenario("resource-token")
async def resource_token(run):
    container = await run.container()
    await upsert(container, spread(10, 1))
    _, name, _, _ = container.container_link.split("/")
    database = run.client.get_database_client(name)
    await database.create_user({"id": "ada"})
    await database.replace_user("ada", {"id": "lovelace"})
    equal([u["id"] for u in await listed(database.list_users())], ["lovelace"])
    user = database.get_user_client("lovelace")

    async def grant(name, mode, **more):
        return await user.create_permission({"id": name, "permissionMode": mode, "resource": container.container_link, **more})

    whole = await grant("whole", "Read")
    part = await grant("part", "All", resourcePartitionKey=["key 3"])
    item = await grant("item", "Read", resource=f"{container.container_link}/docs/4", resourcePartitionKey=["key 4"])
    equal(len(await listed(user.list_permissions())), 3)

    def by(permission):
        """Returns the container of a client that has only the permission's token."""
        return run.another(container, key={container.container_link: permission.properties["_token"]})

    reading = await by(whole)
    equal((await reading.read())["id"], container.id)
    equal((await reading.read_item("3", "key 3"))["v"], 1)
    equal(len(await listed(reading.query_items("SELECT * FROM c", partition_key="key 3"))), 1)
    await refused(reading.upsert_item({"id": "3", "pk": "key 3", "v": 2}), 403)
    writing = await by(part)
    await writing.upsert_item({"id": "3", "pk": "key 3", "v": 2})
    equal(len(await listed(writing.query_items("SELECT * FROM c", partition_key="key 3"))), 1)
    await refused(writing.read_item("4", "key 4"), 403)
    await refused(listed(writing.query_items("SELECT * FROM c", partition_key="key 4")), 403)
    await refused(writing.upsert_item({"id": "4", "pk": "key 4", "v": 2}), 403)
    one = await by(item)
    equal((await one.read_item("4", "key 4"))["v"], 1)
    await refused(one.read_item("3", "key 3"), 403)
    await refused(one.delete_item("4", "key 4"), 403)

    await user.delete_permission("whole")
    await refused(reading.read_item("3", "key 3"), 403)
    await database.delete_user("lovelace")
    await refused(writing.read_item("3", "key 3"), 403)
    equal((await container.read_item("3", "key 3"))["v"], 2)
