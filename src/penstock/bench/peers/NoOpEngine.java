import io.debezium.engine.ChangeEvent;
import io.debezium.engine.DebeziumEngine;
import io.debezium.engine.format.Json;
import java.io.FileReader;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.function.Consumer;

/**
 * Runs Debezium's embedded engine, and throws away what it delivers.
 *
 *     NoOpEngine PROPERTIES TOPIC ROWS
 *
 * Writes the marks "running" when the engine runs, "begin" with the first change
 * of TOPIC, "end" with the ROWS-th, and "rows"; then closes the engine and ends.
 * Janino, which compiles this file when it is run, knows neither lambdas nor the
 * bridges of generic interfaces nor their static methods: hence the raw types, and
 * create() by reflection.
 */
public class NoOpEngine {
    private static String topic;
    private static long wanted;
    private static long seen = 0;
    private static final CountDownLatch done = new CountDownLatch(1);

    private static void mark(String name, String number) {
        System.out.println("mark " + name + " " + number);
        System.out.flush();
    }

    private static String now() {
        return Double.toString(System.nanoTime() / 1000000000.0);
    }

    static class Discard implements Consumer {
        public void accept(Object change) {
            ChangeEvent event = (ChangeEvent) change;
            if (seen >= wanted || !topic.equals(event.destination())) {
                return;
            }
            seen++;
            if (seen == 1) {
                mark("begin", now());
            }
            if (seen == wanted) {
                mark("end", now());
                mark("rows", Long.toString(seen));
                done.countDown();
            }
        }
    }

    static class Failure implements DebeziumEngine.CompletionCallback {
        public void handle(boolean success, String message, Throwable error) {
            if (!success) {
                System.out.println("the engine failed: " + message + ": " + error);
            }
            done.countDown();
        }
    }

    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        settings.load(new FileReader(arguments[0]));
        topic = arguments[1];
        wanted = Long.parseLong(arguments[2]);
        Object builder = DebeziumEngine.class.getMethod("create", new Class[] {Class.class})
                .invoke(null, new Object[] {Json.class});
        DebeziumEngine engine = ((DebeziumEngine.Builder) builder)
                .using(settings).using((DebeziumEngine.CompletionCallback) new Failure())
                .notifying((Consumer) new Discard()).build();
        ExecutorService executor = Executors.newSingleThreadExecutor();
        executor.execute((Runnable) engine);
        mark("running", now());
        done.await();
        // What is between the last change and the close is no part of the measurement.
        Thread.sleep(300);
        engine.close();
        executor.shutdown();
        System.exit(0);
    }
}
