package changefeed;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;

/** Creates the JSON documents of the scenarios. */
final class Json {
    static final ObjectMapper MAPPER = new ObjectMapper();

    private Json() {
    }

    static ObjectNode object() {
        return MAPPER.createObjectNode();
    }

    /** Returns an item with an id, a partition key and a number. */
    static ObjectNode item(String id, String pk, long n) {
        return object().put("id", id).put("pk", pk).put("n", Math.toIntExact(n));
    }

    static String id(JsonNode item) {
        return item.path("id").asText();
    }

    /** Returns the item without the system properties, whose names begin with an underscore. */
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
