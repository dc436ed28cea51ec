package changefeed;

import com.azure.cosmos.CosmosException;
import java.time.Duration;
import java.util.Collection;
import java.util.HashSet;
import java.util.Objects;
import java.util.Set;
import java.util.TreeSet;

/** Assertions, and a wait for a condition. */
final class Check {

    private Check() {
    }

    /** Reports an assertion of a scenario that does not hold. */
    static final class Failure extends RuntimeException {
        private static final long serialVersionUID = 1L;

        Failure(String message, Throwable cause) {
            super(message, cause);
        }
    }

    @FunctionalInterface
    interface Action {
        void run() throws Exception;
    }

    @FunctionalInterface
    interface Condition {
        boolean holds() throws Exception;
    }

    static void that(boolean ok, String format, Object... args) {
        if (!ok) {
            throw new Failure(String.format(format, args), null);
        }
    }

    static void equal(Object want, Object got, String what) {
        that(Objects.equals(want, got), "%s is %s, want %s", what, got, want);
    }

    /** Fails unless both have the same members, in any order and any number. */
    static <T extends Comparable<T>> void sameSet(Collection<T> want, Collection<T> got, String what) {
        Set<T> lost = new TreeSet<>(want);
        lost.removeAll(new HashSet<>(got));
        Set<T> extra = new TreeSet<>(got);
        extra.removeAll(new HashSet<>(want));
        that(lost.isEmpty(), "%s: %d of %d are lost, among them %s", what, lost.size(), want.size(), some(lost));
        that(extra.isEmpty(), "%s: %d are there that should not be, among them %s", what, extra.size(), some(extra));
    }

    /** Fails unless got has each member of want exactly once, in any order. */
    static <T extends Comparable<T>> void eachOnce(Collection<T> want, Collection<T> got, String what) {
        sameSet(want, got, what);
        equal(want.size(), got.size(), what + ": the number of items");
    }

    private static String some(Collection<?> all) {
        return all.stream().limit(5).toList().toString();
    }

    /** Fails unless the service refuses the action with this status. It returns the exception. */
    static CosmosException refused(int status, String what, Action action) {
        try {
            action.run();
        } catch (CosmosException e) {
            if (e.getStatusCode() != status) {
                throw new Failure(String.format("%s: status %d, want %d", what, e.getStatusCode(), status), e);
            }
            return e;
        } catch (Exception e) {
            throw new Failure(what + ": " + e, e);
        }
        throw new Failure(String.format("%s succeeded, want status %d", what, status), null);
    }

    /** Waits until the condition holds. It fails after the deadline. */
    static void eventually(Duration deadline, String what, Condition condition) throws Exception {
        long end = System.nanoTime() + deadline.toNanos();
        while (!condition.holds()) {
            that(System.nanoTime() < end, "%s: not within %d s", what, deadline.toSeconds());
            Thread.sleep(50);
        }
    }
}
