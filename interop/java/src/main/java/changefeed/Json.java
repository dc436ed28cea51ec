package changefeed;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;

/** JSON documents of the scenarios. */
final class Json {
    static final ObjectMapper MAPPER = new ObjectMapper();

    private Json() {
    }

    static ObjectNode object() {
        return MAPPER.createObjectNode();
    }

    /** An item with the id, the partition key and a number. */
    static ObjectNode item(String id, String pk, long n) {
        return object().put("id", id).put("pk", pk).put("n", Math.toIntExact(n));
    }

    static String id(JsonNode item) {
        return item.path("id").asText();
    }

    /** The item without what the service adds: members that begin with an underscore. */
    static ObjectNode user(JsonNode item) {
        ObjectNode copy = item.deepCopy();
        item.fieldNames().forEachRemaining(name -> {
            if (name.startsWith("_")) {
                copy.remove(name);
            }
        });
        return copy;
    }
}
