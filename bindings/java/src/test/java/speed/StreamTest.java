package speed;

import static org.junit.jupiter.api.Assertions.assertDoesNotThrow;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.NoSuchElementException;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.LongStream;
import org.junit.jupiter.api.Test;
import speed.errors.ApplicationException;
import speed.errors.CallTimeoutException;
import speed.errors.CallWithdrawnException;
import speed.errors.ConfigurationException;
import speed.errors.Execution;
import speed.errors.ExecutionFailedException;
import speed.errors.InvalidArgumentsException;
import speed.errors.SpeedException;
import speed.errors.UnknownNodeException;
import speed.errors.UnserialisableException;
import speed.errors.WireException;
import speed.options.CallOptions;
import speed.options.Retry;
import speed.options.StreamOptions;
import speed.options.StreamProgress;

/** S-27 to S-29, S-32 to S-34: services that give many items or take many, and how far a call is. */
class StreamTest extends TwoNodes {
    private static final StreamService NUMBERS = StreamService.giving((request, writer) -> {
        long count = request.get("count", Long.class);
        for (long number = 0; number < count; number++) {
            writer.write(number);
        }
        return "over";
    });
    private static final StreamService TOTAL = StreamService.taking(Long.class, (request, items) -> {
        long total = 0;
        while (items.hasNext()) {
            total += items.next();
        }
        return total;
    });

    private record Row(String month, long number) {}

    private final CountDownLatch letGo = new CountDownLatch(1);

    /** Gives numbers without end; {@link #letGo} tells that it was left. */
    private final StreamService endless = StreamService.giving((request, writer) -> {
        try {
            for (long number = 0; ; number++) {
                writer.write(number);
            }
        } finally {
            letGo.countDown();
        }
    });

    private Stream<Long> numbers(long count, StreamOptions options) {
        return analytics.stream("billing", "numbers", Map.of("count", count), Long.class, options);
    }

    private static List<Long> to(long end) {
        return LongStream.range(0, end).boxed().toList();
    }

    private static <T> List<T> all(Iterable<T> items) {
        List<T> all = new ArrayList<>();
        items.forEach(all::add);
        return all;
    }

    private boolean isLetGo() throws InterruptedException {
        return letGo.await(SOON.toSeconds(), TimeUnit.SECONDS);
    }

    // --- items of a service ---

    @Test
    void itemsComeInOrderWithTheResultBesideThem() {
        billing.register("numbers", NUMBERS);
        for (long count : new long[] {0, 1, 20_000}) {
            Stream<Long> stream = numbers(count, StreamOptions.DEFAULT);
            assertEquals(to(count), all(stream));
            assertEquals("over", stream.result());
            assertFalse(stream.hasNext());
            assertThrows(NoSuchElementException.class, stream::next);
        }
    }

    @Test
    void aSmallWindowIsKeptTo() {
        billing.register("numbers", NUMBERS);
        for (long window : new long[] {1, 2, 7}) {
            assertEquals(to(100), all(numbers(100, StreamOptions.DEFAULT.withWindow(window, 1 << 20))));
            assertEquals(to(100), all(numbers(100, StreamOptions.DEFAULT.withWindow(4096, window))));
        }
    }

    @Test
    void eachItemIsReadAsTheTypeThatIsAskedFor() {
        billing.register("rows", StreamService.giving((request, writer) -> {
            writer.write(new Row("2026-11", 1));
            writer.write(new Row("2026-11", 2));
            writer.write("no row");
            return null;
        }));
        Stream<Row> rows = analytics.stream("billing", "rows", Map.of(), Row.class);
        assertEquals(new Row("2026-11", 1), rows.next());
        assertEquals(new Row("2026-11", 2), rows.next());
        WireException misfit = assertThrows(WireException.class, rows::next);
        assertEquals("billing", misfit.node());
        assertSame(misfit, assertThrows(WireException.class, rows::hasNext));
    }

    @Test
    void anErrorComesAfterTheItemsBeforeItAndEachTimeAgain() {
        billing.register("rows", StreamService.giving((request, writer) -> {
            writer.write(1);
            writer.write(2);
            throw new ApplicationException("NO_PAPER", "there is no paper", Map.of("left", 3));
        }));
        Stream<Object> stream = analytics.stream("billing", "rows", Map.of());
        assertEquals(1L, stream.next());
        assertEquals(2L, stream.next());
        for (int time = 0; time < 2; time++) {
            ApplicationException error = assertThrows(ApplicationException.class, stream::next);
            assertEquals("NO_PAPER", error.code());
            assertEquals(Execution.RAN, error.execution());
            assertEquals("rows", error.service());
        }
        assertThrows(ApplicationException.class, stream::result);
    }

    @Test
    void noItemWaitsForTheNextOne() throws Exception {
        CountDownLatch seen = new CountDownLatch(1);
        billing.register("slow", StreamService.giving((request, writer) -> {
            writer.write("first");
            return seen.await(SOON.toSeconds(), TimeUnit.SECONDS);
        }));
        Stream<Object> stream = analytics.stream("billing", "slow", Map.of());
        assertEquals("first", stream.next());
        seen.countDown();
        assertEquals(true, stream.result());
    }

    @Test
    void anItemMayBeLargerThanTheWindow() {
        billing.register("large", StreamService.giving((request, writer) -> {
            for (int size = 1; size <= 3; size++) {
                writer.write(new byte[size << 20]);
            }
            return null;
        }));
        Stream<byte[]> stream = analytics.stream("billing", "large", Map.of(), byte[].class);
        assertEquals(
                List.of(1 << 20, 2 << 20, 3 << 20),
                all(stream).stream().map(one -> one.length).toList());
    }

    @Test
    void aSlowReaderHoldsUpTheServiceAndNoOtherCall() throws Exception {
        AtomicInteger given = new AtomicInteger();
        billing.register("many", StreamService.giving((request, writer) -> {
            for (int number = 0; number < 1000; number++) {
                writer.write(number);
                given.incrementAndGet();
            }
            return null;
        }));
        billing.register("echo", request -> 1);
        Stream<Object> stream =
                analytics.stream("billing", "many", Map.of(), StreamOptions.DEFAULT.withWindow(10, 1 << 20));
        List<Stream<Object>> others = new ArrayList<>();
        for (int other = 0; other < 8; other++) { // more than there are workers: none of them holds a place
            others.add(analytics.stream("billing", "many", Map.of(), StreamOptions.DEFAULT.withWindow(1, 1)));
        }
        assertEquals(1L, call("echo"));
        others.forEach(Stream::close);
        stream.next();
        assertTrue(given.get() < 100, "it ran ahead of its reader: " + given);
        assertEquals(999, all(stream).size());
    }

    // --- who stops early ---

    @Test
    void whoStopsReadingEndsTheService() throws Exception {
        billing.register("endless", endless);
        try (Stream<Object> stream = analytics.stream("billing", "endless", Map.of())) {
            assertEquals(0L, stream.next());
            assertEquals(1L, stream.next());
        }
        assertTrue(isLetGo());
    }

    @Test
    void aStreamThatWasClosedSaysSoAndAgainDoesNothing() {
        billing.register("endless", endless);
        Stream<Object> stream = analytics.stream("billing", "endless", Map.of());
        stream.next();
        stream.close();
        stream.close();
        assertThrows(CallWithdrawnException.class, stream::next);
    }

    @Test
    void anInterruptWhileAnItemIsAwaitedWithdrawsTheCall() throws Exception {
        CountDownLatch begun = new CountDownLatch(1);
        billing.register("silent", StreamService.giving((request, writer) -> {
            begun.countDown();
            request.cancellation().await(SOON);
            letGo.countDown();
            return null;
        }));
        Stream<Object> stream = analytics.stream("billing", "silent", Map.of());
        assertTrue(begun.await(SOON.toSeconds(), TimeUnit.SECONDS));
        FutureTask<Boolean> reading = new FutureTask<>(() -> {
            assertThrows(CallWithdrawnException.class, stream::next);
            return Thread.interrupted();
        });
        Thread reader = new Thread(reading, "reader");
        reader.setDaemon(true);
        reader.start();
        while (reader.getState() != Thread.State.TIMED_WAITING && reader.isAlive()) {
            Thread.yield();
        }
        reader.interrupt();
        assertTrue(reading.get(SOON.toSeconds(), TimeUnit.SECONDS), "the interrupt was lost");
        assertTrue(isLetGo());
    }

    /** The listener runs between two looks at what arrived. */
    @Test
    void anInterruptBetweenTwoLooksAtAStreamIsNoticedAsWell() throws Exception {
        billing.register("silent", StreamService.giving((request, writer) -> {
            request.progress(1, 2);
            request.cancellation().await(SOON);
            letGo.countDown();
            return null;
        }));
        StreamOptions listening = StreamOptions.DEFAULT.withProgress(
                told -> Thread.currentThread().interrupt());
        Stream<Object> stream = analytics.stream("billing", "silent", Map.of(), listening);
        assertThrows(CallWithdrawnException.class, stream::next);
        assertTrue(Thread.interrupted());
        assertTrue(isLetGo());
    }

    @Test
    void theNextItemIsNotAwaitedLongerThanTheIdleTimeout() throws Exception {
        CountDownLatch begun = new CountDownLatch(1);
        billing.register("silent", StreamService.giving((request, writer) -> {
            begun.countDown();
            request.cancellation().await(SOON);
            letGo.countDown();
            return null;
        }));
        StreamOptions brief = StreamOptions.DEFAULT.withIdleTimeout(Duration.ofMillis(100));
        Stream<Object> stream = analytics.stream("billing", "silent", Map.of(), brief);
        assertTrue(begun.await(SOON.toSeconds(), TimeUnit.SECONDS));
        assertThrows(CallTimeoutException.class, stream::next);
        assertTrue(isLetGo());
    }

    @Test
    void aDeadlineEndsBothSides() throws Exception {
        billing.register("endless", endless);
        Duration timeout = Duration.ofMillis(300);
        do { // it may pass before the service begins
            StreamOptions brief = StreamOptions.DEFAULT.withTimeout(timeout);
            Stream<Object> stream = analytics.stream("billing", "endless", Map.of(), brief);
            assertThrows(CallTimeoutException.class, stream::result);
            timeout = timeout.multipliedBy(4);
            assertTrue(timeout.compareTo(SOON) < 0, "it never began, or was not told");
        } while (!letGo.await(timeout.toMillis(), TimeUnit.MILLISECONDS));
    }

    @Test
    void theEndOfItsNodeEndsAStreamOnTheOtherSide() throws Exception {
        billing.register("endless", endless);
        Stream<Object> stream = analytics.stream("billing", "endless", Map.of());
        stream.next();
        billing.close(Duration.ZERO);
        assertThrows(SpeedException.class, stream::result);
        assertTrue(isLetGo());
    }

    @Test
    void theEndOfItsReadersNodeEndsTheService() throws Exception {
        billing.register("endless", endless);
        analytics.stream("billing", "endless", Map.of()).next();
        analytics.close();
        assertTrue(isLetGo());
    }

    // --- items of a caller ---

    @Test
    void aServiceTakesTheItemsOfItsCaller() {
        billing.register("total", TOTAL);
        for (int count : new int[] {0, 1, 10_000}) {
            Stream<Object> stream =
                    analytics.stream("billing", "total", Map.of(), StreamOptions.DEFAULT.withItems(to(count)));
            assertEquals(count * (count - 1L) / 2, stream.result());
        }
    }

    @Test
    void itemsGoBothWays() {
        billing.register("double", StreamService.exchanging(Long.class, (request, items, writer) -> {
            while (items.hasNext()) {
                writer.write(2 * items.next());
            }
            return null;
        }));
        Stream<Long> stream = analytics.stream(
                "billing", "double", Map.of(), Long.class, StreamOptions.DEFAULT.withItems(to(10_000)));
        assertEquals(to(10_000).stream().map(number -> 2 * number).toList(), all(stream));
    }

    @Test
    void anItemThatIsOfAnotherTypeFailsAServiceThatHasBegun() {
        billing.register("total", TOTAL);
        StreamOptions options = StreamOptions.DEFAULT.withItems(Arrays.asList(1, 2, "three"));
        Stream<Object> stream = analytics.stream("billing", "total", Map.of(), options);
        ExecutionFailedException error = assertThrows(ExecutionFailedException.class, stream::result);
        assertEquals(Execution.RAN, error.execution());
        assertTrue(error.getMessage().contains("an item"), error.getMessage());
    }

    /** Items that fail after some, and say whether they were closed. */
    private static final class Failing implements Iterator<Object>, AutoCloseable {
        private final CountDownLatch closed = new CountDownLatch(1);
        private int left = 3;

        @Override
        public boolean hasNext() {
            return true;
        }

        @Override
        public Object next() {
            if (left-- == 0) {
                throw new IllegalArgumentException("the file is damaged");
            }
            return 1;
        }

        @Override
        public void close() {
            closed.countDown();
        }
    }

    @Test
    void whatTheItemsOfACallerThrowEndsItsStream() throws Exception {
        billing.register("total", TOTAL);
        Failing items = new Failing();
        Stream<Object> stream =
                analytics.stream("billing", "total", Map.of(), StreamOptions.DEFAULT.withItems(() -> items));
        IllegalArgumentException error = assertThrows(IllegalArgumentException.class, stream::result);
        assertEquals("the file is damaged", error.getMessage());
        assertTrue(items.closed.await(SOON.toSeconds(), TimeUnit.SECONDS));
    }

    @Test
    void whatHasNoRepresentationIsNoItem() {
        billing.register("odd", StreamService.giving((request, writer) -> {
            writer.write(1);
            try {
                writer.write(new Object());
            } catch (UnserialisableException odd) {
                writer.write("refused");
            }
            return null;
        }));
        assertEquals(List.of(1L, "refused"), all(analytics.stream("billing", "odd", Map.of())));
    }

    // --- what does not go ---

    @Test
    void aCallOfAServiceThatStreamsIsRefusedAndAStreamOfOneThatDoesNot() {
        billing.register("numbers", NUMBERS);
        billing.register("total", TOTAL);
        billing.register("plain", request -> 1);
        assertThrows(InvalidArgumentsException.class, () -> call("numbers"));
        assertThrows(InvalidArgumentsException.class, () -> call("total"));
        assertThrows(
                InvalidArgumentsException.class,
                () -> analytics.stream("billing", "plain", Map.of()).next());
        assertThrows(
                InvalidArgumentsException.class,
                () -> analytics.stream("billing", "total", Map.of()).result());
        StreamOptions sending = StreamOptions.DEFAULT.withItems(List.of(1));
        assertThrows(
                InvalidArgumentsException.class,
                () -> analytics.stream("billing", "numbers", Map.of("count", 1), sending)
                        .result());
    }

    @Test
    void aStreamGoesToOneNodeOfThisRoot() {
        assertThrows(UnknownNodeException.class, () -> analytics.stream("nobody.*", "rows", Map.of()));
        assertThrows(ConfigurationException.class, () -> analytics.stream("billing@hostb", "rows", Map.of()));
        UnknownNodeException unknown =
                assertThrows(UnknownNodeException.class, () -> analytics.stream("absent", "rows", Map.of()));
        assertEquals(Execution.NOT_BEGUN, unknown.execution());
        assertThrows(ConfigurationException.class, () -> StreamOptions.DEFAULT.withWindow(0, 1));
    }

    // --- families ---

    private Node member(String name, boolean offers) {
        Node made = root.builder(name, "analytics").starting().open();
        if (offers) {
            made.register("sum", StreamService.exchanging(Long.class, (request, items, writer) -> {
                long sum = 0;
                for (writer.write(name); items.hasNext(); writer.write(sum)) {
                    sum += items.next();
                }
                request.progress(1, 1);
                return sum;
            }));
        }
        made.ready();
        return made;
    }

    @Test
    void aStreamGoesToOneNodeOfAFamilyAndOnWhereItWasNotBegun() {
        Node without = member("pricing.1", false);
        Node with = member("pricing.2", true);
        try {
            for (int time = 0; time < 4; time++) {
                List<StreamProgress> heard = new ArrayList<>();
                Stream<Object> stream = analytics.stream(
                        "pricing.*",
                        "sum",
                        Map.of(),
                        StreamOptions.DEFAULT.withItems(List.of(1, 2, 3)).withProgress(heard::add));
                assertEquals(List.of("pricing.2", 1L, 3L, 6L), all(stream));
                assertEquals(6L, stream.result());
                assertEquals(1, heard.size());
            }
            SpeedException nobody = assertThrows(
                    SpeedException.class,
                    () -> analytics.stream("pricing.*", "absent", Map.of()).result());
            assertEquals("SERVICE_NOT_FOUND", nobody.code());
            assertTrue(nobody.node().startsWith("pricing."), nobody.node());
        } finally {
            without.close();
            with.close();
        }
    }

    @Test
    void whatHasTheSameKeyGoesToTheSameNodeOfAFamily() {
        Node one = member("pricing.1", true);
        Node two = member("pricing.2", true);
        try {
            StreamOptions keyed = StreamOptions.DEFAULT.withKey("alice").withItems(List.of());
            List<Object> served = new ArrayList<>();
            for (int time = 0; time < 5; time++) {
                served.addAll(all(analytics.stream("pricing.*", "sum", Map.of(), keyed)));
            }
            assertEquals(5, served.size());
            assertEquals(1, served.stream().distinct().count());
            StreamOptions turns = StreamOptions.DEFAULT.withItems(List.of());
            try (Stream<Object> first = analytics.stream("pricing.*", "sum", Map.of(), turns);
                    Stream<Object> second = analytics.stream("pricing.*", "sum", Map.of(), turns)) {
                assertFalse(first.next().equals(second.next()), "both went to one");
            }
        } finally {
            one.close();
            two.close();
        }
    }

    @Test
    void aDescriptionSaysThatAServiceStreams() {
        billing.register("numbers", NUMBERS);
        assertEquals(true, analytics.describe("billing").get(0).get("streaming"));
    }

    @Test
    void aServiceIsTestedWithoutANode() throws Exception {
        List<Object> written = new ArrayList<>();
        Request request = new Request("numbers", Map.of("count", 2L), "etl", "etl/1", 0, null);
        assertEquals("over", NUMBERS.serve(request, null, written::add));
        assertEquals(List.of(0L, 1L), written);
        assertEquals(6L, TOTAL.serve(request, List.of(1L, 2L, 3L).iterator(), null));
    }

    // --- progress ---

    @Test
    void progressIsHeardAndItsEndNeverLost() {
        billing.register("work", request -> {
            for (int step = 1; step <= 1000; step++) {
                request.progress(step, 1000.0, "counting");
            }
            return "done";
        });
        List<StreamProgress> heard = new ArrayList<>();
        CallOptions listening = CallOptions.DEFAULT.withProgress(heard::add);
        assertEquals("done", analytics.call("billing", "work", Map.of(), listening));
        assertEquals(new StreamProgress(1000, 1000.0, "counting"), heard.get(heard.size() - 1));
        assertEquals("done", call("work")); // nobody listens
    }

    @Test
    void progressIsHeardBesideItems() {
        billing.register("work", StreamService.giving((request, writer) -> {
            writer.write(1);
            request.progress(1, 1);
            return null;
        }));
        List<StreamProgress> heard = new ArrayList<>();
        assertEquals(
                List.of(1L),
                all(analytics.stream("billing", "work", Map.of(), StreamOptions.DEFAULT.withProgress(heard::add))));
        assertEquals(List.of(new StreamProgress(1, 1.0, "")), heard);
    }

    @Test
    void numbersBelowNothingAreNoProgress() {
        billing.register("work", request -> {
            request.progress(-1, null, "");
            return null;
        });
        assertTrue(assertThrows(SpeedException.class, () -> call("work"))
                .getMessage()
                .contains("progress of -1.0"));
    }

    @Test
    void progressOfASubmittedCallIsHeardByAnotherThread() throws Exception {
        billing.register("work", request -> {
            request.progress(1, 2);
            request.progress(2, 2);
            return "done";
        });
        List<String> threads = Collections.synchronizedList(new ArrayList<>());
        List<StreamProgress> heard = Collections.synchronizedList(new ArrayList<>());
        CallOptions listening = CallOptions.DEFAULT.withProgress(told -> {
            threads.add(Thread.currentThread().getName());
            heard.add(told);
        });
        CompletableFuture<Object> call = analytics.submit("billing", "work", Map.of(), listening);
        assertEquals("done", call.get(SOON.toSeconds(), TimeUnit.SECONDS));
        assertEquals(new StreamProgress(2, 2.0, ""), heard.get(heard.size() - 1));
        assertTrue(threads.stream().allMatch(name -> name.startsWith("speed-analytics-progress-")), threads.toString());
    }

    @Test
    void aSubmittedCallWhoseProgressIsHeardCanBeWithdrawn() throws Exception {
        CountDownLatch listened = new CountDownLatch(1);
        billing.register("work", request -> {
            request.progress(1, 2);
            if (request.cancellation().await(SOON)) {
                throw new CancellationException();
            }
            return "too late";
        });
        CompletableFuture<Object> call = analytics.submit(
                "billing", "work", Map.of(), CallOptions.DEFAULT.withProgress(told -> listened.countDown()));
        assertTrue(listened.await(SOON.toSeconds(), TimeUnit.SECONDS));
        assertFalse(call.cancel(true));
        assertInstanceOf(CallWithdrawnException.class, failureOf(call));
    }

    @Test
    void whatAListenerOfASubmittedCallThrowsEndsTheCall() {
        CountDownLatch withdrawn = new CountDownLatch(1);
        billing.register("work", request -> {
            request.cancellation().onCancel(withdrawn::countDown);
            request.progress(1, 2);
            return request.cancellation().await(SOON);
        });
        CallOptions failing = CallOptions.DEFAULT.withProgress(told -> {
            throw new IllegalArgumentException("of the program");
        });
        CompletableFuture<Object> call = analytics.submit("billing", "work", Map.of(), failing);
        assertInstanceOf(IllegalArgumentException.class, failureOf(call));
        assertDoesNotThrow(() -> assertTrue(withdrawn.await(SOON.toSeconds(), TimeUnit.SECONDS)));
    }

    private static Throwable failureOf(CompletableFuture<Object> call) {
        return assertThrows(ExecutionException.class, () -> call.get(SOON.toSeconds(), TimeUnit.SECONDS))
                .getCause();
    }

    @Test
    void aCallWhoseProgressIsWantedIsTriedOnce() {
        CallOptions both = CallOptions.DEFAULT.withProgress(told -> {}).withRetry(Retry.DEFAULT);
        assertThrows(ConfigurationException.class, () -> analytics.call("billing", "work", Map.of(), both));
        assertInstanceOf(ConfigurationException.class, failureOf(analytics.submit("billing", "work", Map.of(), both)));
    }
}
