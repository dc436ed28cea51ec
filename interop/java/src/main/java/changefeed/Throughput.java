package changefeed;

import com.azure.cosmos.CosmosContainer;
import com.azure.cosmos.models.CosmosContainerProperties;
import com.azure.cosmos.models.ThroughputProperties;

/** Scenarios of a container's throughput (offers). */
final class Throughput {

    private Throughput() {
    }

    static void add(Suite suite) {
        suite.add("throughput-manual", Throughput::manual);
        suite.add("throughput-autoscale", Throughput::autoscale);
    }

    private static void manual(Suite suite) {
        CosmosContainer container = suite.container("throughput-manual");
        Check.equal(400, container.readThroughput().getProperties().getManualThroughput(), "the throughput");
        container.replaceThroughput(ThroughputProperties.createManualThroughput(700));
        Check.equal(700, container.readThroughput().getProperties().getManualThroughput(), "the throughput after the replace");
        Check.equal(0, container.readThroughput().getProperties().getAutoscaleMaxThroughput(), "the autoscale maximum of manual throughput");

        CosmosContainer large = suite.container(new CosmosContainerProperties("throughput-large", "/pk"), 2);
        Check.equal(20_000, large.readThroughput().getProperties().getManualThroughput(), "the throughput of the large container");
        Check.equal(2, large.getFeedRanges().size(), "the partitions of a container of 20,000 RU/s");
    }

    private static void autoscale(Suite suite) {
        suite.database.createContainer(new CosmosContainerProperties("throughput-autoscale", "/pk"), ThroughputProperties.createAutoscaledThroughput(4000));
        CosmosContainer container = suite.database.getContainer("throughput-autoscale");
        Check.equal(4000, container.readThroughput().getProperties().getAutoscaleMaxThroughput(), "the autoscale maximum");
        container.replaceThroughput(ThroughputProperties.createAutoscaledThroughput(6000));
        Check.equal(6000, container.readThroughput().getProperties().getAutoscaleMaxThroughput(), "the autoscale maximum after the replace");
    }
}
