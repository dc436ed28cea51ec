package changefeed;

import com.azure.cosmos.CosmosContainer;
import com.azure.cosmos.models.CosmosBatch;
import com.azure.cosmos.models.CosmosBatchOperationResult;
import com.azure.cosmos.models.CosmosBatchResponse;
import com.azure.cosmos.models.CosmosBulkOperationResponse;
import com.azure.cosmos.models.CosmosBulkOperations;
import com.azure.cosmos.models.CosmosContainerProperties;
import com.azure.cosmos.models.CosmosItemOperation;
import com.azure.cosmos.models.CosmosItemRequestOptions;
import com.azure.cosmos.models.CosmosPatchItemRequestOptions;
import com.azure.cosmos.models.CosmosPatchOperations;
import com.azure.cosmos.models.PartitionKey;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;

/** Scenarios of patches, transactional batches, bulk operations and the time to live. */
final class Writes {

    private static final PartitionKey P = new PartitionKey("p");

    private Writes() {
    }

    static void add(Suite suite) {
        suite.add("patch", Writes::patch);
        suite.add("batch-success", Writes::batchSuccess);
        suite.add("batch-failure", Writes::batchFailure);
        suite.add("bulk", Writes::bulk);
        suite.add("ttl", Writes::ttl);
    }

    private static void patch(Suite suite) throws Exception {
        CosmosContainer container = suite.container("patch");
        ObjectNode item = Json.item("i", "p", 5);
        item.put("gone", true).put("old", "was").put("from", "moved").putArray("list").add(1).add(3);
        container.createItem(item);
        CosmosPatchOperations all = CosmosPatchOperations.create()
            .add("/list/1", 2)
            .add("/list/-", 4)
            .set("/fresh", "ä\"quoted\"")
            .replace("/old", "is")
            .remove("/gone")
            .increment("/n", 10L)
            .increment("/ratio", 0.5)
            .move("/from", "/to");
        JsonNode patched = container.patchItem("i", P, all, JsonNode.class).getItem();
        JsonNode want = Json.MAPPER.readTree("""
            {"id":"i","pk":"p","n":15,"old":"is","list":[1,2,3,4],"fresh":"ä\\"quoted\\"","ratio":0.5,"to":"moved"}""");
        Check.equal(want, Json.user(patched), "the patched item");
        Check.equal(want, Json.user(container.readItem("i", P, ObjectNode.class).getItem()), "the patched item as read");

        CosmosPatchOperations more = CosmosPatchOperations.create().increment("/n", 1L);
        JsonNode conditional = container.patchItem("i", P, more, new CosmosPatchItemRequestOptions().setFilterPredicate("FROM c WHERE c.n = 15"), JsonNode.class).getItem();
        Check.equal(16, conditional.path("n").asInt(), "the number after a condition that holds");
        Check.refused(412, "a condition that does not hold",
            () -> container.patchItem("i", P, more, new CosmosPatchItemRequestOptions().setFilterPredicate("FROM c WHERE c.n = 15"), JsonNode.class));
        Check.refused(400, "a path that is not there",
            () -> container.patchItem("i", P, CosmosPatchOperations.create().increment("/n", 1L).replace("/nowhere/at/all", 1), JsonNode.class));
        Check.refused(412, "an older etag",
            () -> {
                CosmosPatchItemRequestOptions options = new CosmosPatchItemRequestOptions();
                options.setIfMatchETag(patched.path("_etag").asText());
                container.patchItem("i", P, more, options, JsonNode.class);
            });
        Check.refused(404, "an item that is not there", () -> container.patchItem("j", P, more, JsonNode.class));
        Check.equal(16, container.readItem("i", P, JsonNode.class).getItem().path("n").asInt(), "the number after refusals");
    }

    private static void batchSuccess(Suite suite) {
        CosmosContainer container = suite.container("batch-success");
        for (String id : List.of("read", "replaced", "patched", "deleted", "upserted")) {
            container.createItem(Json.item(id, "p", 1));
        }
        CosmosBatch batch = CosmosBatch.createCosmosBatch(P);
        batch.createItemOperation(Json.item("created", "p", 2));
        batch.upsertItemOperation(Json.item("upserted", "p", 2));
        batch.upsertItemOperation(Json.item("fresh", "p", 2));
        batch.readItemOperation("read");
        batch.replaceItemOperation("replaced", Json.item("replaced", "p", 2));
        batch.patchItemOperation("patched", CosmosPatchOperations.create().increment("/n", 1L));
        batch.deleteItemOperation("deleted");
        CosmosBatchResponse response = container.executeCosmosBatch(batch);
        Check.that(response.isSuccessStatusCode(), "the batch's status is %d", response.getStatusCode());
        Check.equal(List.of(201, 200, 201, 200, 200, 200, 204), statuses(response), "the statuses of the operations");
        Check.equal(1, response.getResults().get(3).getItem(JsonNode.class).path("n").asInt(), "the item that the batch read");
        Check.that(response.getResults().get(0).getETag() != null, "a created item has an etag");
        for (String id : List.of("created", "upserted", "fresh", "replaced", "patched")) {
            Check.equal(2, container.readItem(id, P, JsonNode.class).getItem().path("n").asInt(), "the number of " + id);
        }
        Check.refused(404, "read the deleted item", () -> container.readItem("deleted", P, JsonNode.class));
    }

    private static void batchFailure(Suite suite) {
        CosmosContainer container = suite.container("batch-failure");
        container.createItem(Json.item("there", "p", 1));
        Pull pull = Pull.beginning(container);
        Check.equal(List.of("there"), pull.ids(pull.drain()), "the feed before the batch");
        CosmosBatch batch = CosmosBatch.createCosmosBatch(P);
        batch.createItemOperation(Json.item("one", "p", 2));
        batch.upsertItemOperation(Json.item("two", "p", 2));
        batch.createItemOperation(Json.item("there", "p", 2));
        batch.deleteItemOperation("there");
        CosmosBatchResponse response = container.executeCosmosBatch(batch);
        Check.equal(409, response.getStatusCode(), "the status that the SDK gives the batch");
        Check.equal(List.of(424, 424, 409, 424), statuses(response), "the statuses of the operations");
        Check.refused(404, "read an item of the failed batch", () -> container.readItem("one", P, JsonNode.class));
        Check.equal(1, container.readItem("there", P, JsonNode.class).getItem().path("n").asInt(), "the number of the item that was there");
        Check.equal(List.of(), pull.drain(), "the feed after the failed batch");
    }

    private static List<Integer> statuses(CosmosBatchResponse response) {
        return response.getResults().stream().map(CosmosBatchOperationResult::getStatusCode).toList();
    }

    private static void bulk(Suite suite) {
        CosmosContainer container = suite.container(new CosmosContainerProperties("bulk", "/pk"), 3);
        for (int i = 0; i < 10; i++) {
            container.createItem(Json.item("i" + i, "k" + i % 7, 0));
        }
        List<CosmosItemOperation> operations = new ArrayList<>();
        for (int i = 0; i < 400; i++) { // the first ten exist, so they conflict
            operations.add(CosmosBulkOperations.getCreateItemOperation(Json.item("i" + i, "k" + i % 7, i), new PartitionKey("k" + i % 7)));
        }
        operations.add(CosmosBulkOperations.getUpsertItemOperation(Json.item("up", "k1", 1), new PartitionKey("k1")));
        operations.add(CosmosBulkOperations.getReadItemOperation("i3", new PartitionKey("k3")));
        operations.add(CosmosBulkOperations.getReadItemOperation("nothing", new PartitionKey("k3")));
        operations.add(CosmosBulkOperations.getDeleteItemOperation("i4", new PartitionKey("k4")));
        operations.add(CosmosBulkOperations.getPatchItemOperation("i5", new PartitionKey("k5"), CosmosPatchOperations.create().set("/n", 55)));

        int[] status = new int[operations.size()];
        Set<Integer> answered = new HashSet<>();
        for (CosmosBulkOperationResponse<Object> r : container.executeBulkOperations(operations)) {
            int at = operations.indexOf(r.getOperation());
            if (r.getException() != null) {
                throw new Check.Failure("operation " + at + " of the bulk", r.getException());
            }
            Check.that(answered.add(at), "operation %d is answered twice", at);
            status[at] = r.getResponse().getStatusCode();
        }
        Check.equal(operations.size(), answered.size(), "the number of answers");
        for (int i = 0; i < 400; i++) {
            Check.equal(i < 10 ? 409 : 201, status[i], "the status of create " + i);
        }
        Check.equal(201, status[400], "the status of the upsert");
        Check.equal(200, status[401], "the status of the read");
        Check.equal(404, status[402], "the status of the read of nothing");
        Check.equal(204, status[403], "the status of the delete");
        Check.equal(200, status[404], "the status of the patch");
        Check.equal(400, container.queryItems("SELECT c.id FROM c", new com.azure.cosmos.models.CosmosQueryRequestOptions(), JsonNode.class)
            .stream().toList().size(), "items after the bulk");
    }

    private static void ttl(Suite suite) throws Exception {
        CosmosContainerProperties properties = new CosmosContainerProperties("ttl", "/pk");
        properties.setDefaultTimeToLiveInSeconds(2);
        CosmosContainer container = suite.container(properties, 1);
        container.createItem(Json.item("default", "p", 1));
        container.createItem(Json.item("own", "p", 1).put("ttl", 1));
        container.createItem(Json.item("never", "p", 1).put("ttl", -1));
        container.createItem(Json.item("long", "p", 1).put("ttl", 3600));
        Check.refused(400, "a ttl of 0", () -> container.createItem(Json.item("zero", "p", 1).put("ttl", 0)));
        for (String id : List.of("own", "default")) {
            Check.eventually(Duration.ofSeconds(20), id + " expires", () -> {
                try {
                    container.readItem(id, P, JsonNode.class);
                    return false;
                } catch (com.azure.cosmos.CosmosException e) {
                    return e.getStatusCode() == 404;
                }
            });
        }
        List<String> left = container.readAllItems(P, JsonNode.class).stream().map(Json::id).toList();
        Check.eachOnce(List.of("never", "long"), left, "items left");
        Check.equal(201, container.createItem(Json.item("own", "p", 2), P, new CosmosItemRequestOptions()).getStatusCode(), "the status of a create with the id of an expired item");
    }
}
