package changefeed;

import com.azure.cosmos.CosmosContainer;
import com.azure.cosmos.models.CosmosChangeFeedRequestOptions;
import com.azure.cosmos.models.FeedRange;
import com.azure.cosmos.models.FeedResponse;
import com.fasterxml.jackson.databind.JsonNode;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.function.Supplier;

/** The pull model of the change feed as a user writes it: pages until there is nothing new, then on from the last continuation. */
final class Pull {

    /** Larger than what a scenario writes, for those that do not care. */
    private static final int MANY = 100;

    private final CosmosContainer container;
    private final Supplier<CosmosChangeFeedRequestOptions> start;
    private int pageSize = MANY;
    private Iterator<FeedResponse<JsonNode>> pages;
    private String token;

    private Pull(CosmosContainer container, Supplier<CosmosChangeFeedRequestOptions> start) {
        this.container = container;
        this.start = start;
    }

    static Pull beginning(CosmosContainer container) {
        return beginning(container, FeedRange.forFullRange());
    }

    static Pull beginning(CosmosContainer container, FeedRange range) {
        return new Pull(container, () -> CosmosChangeFeedRequestOptions.createForProcessingFromBeginning(range));
    }

    static Pull now(CosmosContainer container) {
        return new Pull(container, () -> CosmosChangeFeedRequestOptions.createForProcessingFromNow(FeedRange.forFullRange()));
    }

    static Pull time(CosmosContainer container, Instant after) {
        return new Pull(container, () -> CosmosChangeFeedRequestOptions.createForProcessingFromPointInTime(after, FeedRange.forFullRange()));
    }

    static Pull versions(CosmosContainer container) {
        return new Pull(container, () -> CosmosChangeFeedRequestOptions.createForProcessingFromNow(FeedRange.forFullRange()).allVersionsAndDeletes());
    }

    static Pull continued(CosmosContainer container, String token) {
        Pull pull = new Pull(container, null);
        pull.token = token;
        return pull;
    }

    Pull pages(int size) {
        this.pageSize = size;
        return this;
    }

    /** The continuation after the last page. */
    String token() {
        return token;
    }

    /** The next page; empty when there is nothing new. */
    List<JsonNode> page() {
        if (pages == null || !pages.hasNext()) {
            CosmosChangeFeedRequestOptions options = token == null ? start.get() : CosmosChangeFeedRequestOptions.createForProcessingFromContinuation(token);
            // One page at a time: what is read ahead would be read before the scenario's next step.
            options.setMaxItemCount(pageSize).setMaxPrefetchPageCount(1);
            pages = container.queryChangeFeed(options, JsonNode.class).iterableByPage().iterator();
        }
        if (!pages.hasNext()) {
            return List.of();
        }
        FeedResponse<JsonNode> page = pages.next();
        token = page.getContinuationToken();
        return page.getResults();
    }

    /** Everything until there is nothing new. */
    List<JsonNode> drain() {
        List<JsonNode> all = new ArrayList<>();
        for (int empty = 0; empty < 2;) { // the pages of one query may end with an empty one, before what came meanwhile
            List<JsonNode> page = page();
            empty = page.isEmpty() ? empty + 1 : 0;
            all.addAll(page);
        }
        return all;
    }

    List<String> ids(List<JsonNode> items) {
        return items.stream().map(Json::id).toList();
    }
}
