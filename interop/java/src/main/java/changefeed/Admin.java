package changefeed;

import com.azure.cosmos.CosmosContainer;
import java.util.List;

/** placeholder until the admin API is known. */
final class Admin {
    record Partition(String id, String min, String max) { }
    interface Fault extends AutoCloseable { long hits() throws Exception; @Override void close() throws Exception; }
    Admin(Env env) { }
    List<Partition> partitions(CosmosContainer c) throws Exception { throw new UnsupportedOperationException(); }
    void split(CosmosContainer c, String id) throws Exception { throw new UnsupportedOperationException(); }
    void merge(CosmosContainer c, String a, String b) throws Exception { throw new UnsupportedOperationException(); }
    Fault throttle(CosmosContainer c, int count, int ms) throws Exception { throw new UnsupportedOperationException(); }
}
