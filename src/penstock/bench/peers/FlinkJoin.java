import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.Stream;
import org.apache.flink.api.common.functions.MapFunction;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.typeutils.RowTypeInfo;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.api.common.state.CheckpointListener;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.table.api.DataTypes;
import org.apache.flink.table.api.Schema;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;
import org.apache.flink.table.connector.ChangelogMode;
import org.apache.flink.types.Row;
import org.apache.flink.types.RowKind;

/**
 * Flink SQL's regular join of streams of upserts and deletes, with RocksDB and incremental checkpoints.
 *
 *     FlinkJoin ROWS KEYS INPUTS PARALLELISM CHECKPOINT_MILLISECONDS FOLDER
 *
 * Event i is of input i mod INPUTS (bench/joinery/events.py has the same rule). Writes the marks "rows" (events),
 * "joined" (rows that the result has at the end), "commits" (checkpoints that were completed) and "bytes" (the most that
 * those took).
 */
public class FlinkJoin {
    private static final AtomicLong JOINED = new AtomicLong(), COMMITS = new AtomicLong(), BYTES = new AtomicLong();
    private static volatile Path checkpoints;

    /** The events of one input, in their order. */
    static class ToRow implements MapFunction<Long, Row> {
        private final long rows, keys;
        private final int inputs, input;

        ToRow(long rows, long keys, int inputs, int input) {
            this.rows = rows;
            this.keys = keys;
            this.inputs = inputs;
            this.input = input;
        }

        @Override public Row map(Long n) {
            long i = n * inputs + input, key = (i * 0x9E3779B97F4A7C15L >>> 33) % keys;
            RowKind kind = i % 50 == 0 ? RowKind.DELETE : RowKind.UPDATE_AFTER;
            return Row.ofKind(kind, input == 0 ? key : i % (rows / 2), key, "x".repeat(100) + i);
        }
    }

    /** Counts what is there in the end, and checkpoints. */
    static class Count implements MapFunction<Row, Integer>, CheckpointListener {
        @Override public Integer map(Row row) {
            RowKind kind = row.getKind();
            if (kind == RowKind.INSERT || kind == RowKind.UPDATE_AFTER) JOINED.incrementAndGet();
            else JOINED.decrementAndGet();
            return 0;
        }

        @Override public void notifyCheckpointComplete(long id) {
            COMMITS.accumulateAndGet(id, Math::max);
            // At its end the job removes them.
            try (Stream<Path> files = Files.walk(checkpoints)) {
                BYTES.accumulateAndGet(files.mapToLong(file -> file.toFile().isFile() ? file.toFile().length() : 0).sum(), Math::max);
            } catch (IOException | UncheckedIOException gone) {
                // A file went while we looked; the next checkpoint tells.
            }
        }
    }

    public static void main(String[] arguments) throws Exception {
        long rows = Long.parseLong(arguments[0]), keys = Long.parseLong(arguments[1]);
        int inputs = Integer.parseInt(arguments[2]), parallelism = Integer.parseInt(arguments[3]);
        checkpoints = Path.of(arguments[5], "checkpoints");
        Configuration conf = new Configuration();
        conf.setString("state.backend.type", "rocksdb");
        conf.setString("execution.checkpointing.incremental", "true");
        conf.setString("execution.checkpointing.interval", arguments[4] + " ms");
        conf.setString("execution.checkpointing.dir", "file://" + arguments[5] + "/checkpoints");
        conf.setString("taskmanager.memory.managed.size", "512m");
        conf.setString("table.optimizer.multi-join.enabled", Boolean.toString(inputs > 2));
        conf.setString("rest.bind-address", "127.0.0.1");
        conf.setString("rest.bind-port", "0");
        StreamExecutionEnvironment env = StreamExecutionEnvironment.createLocalEnvironment(parallelism, conf);
        StreamTableEnvironment tables = StreamTableEnvironment.create(env);
        tables.getConfig().set("table.optimizer.multi-join.enabled", Boolean.toString(inputs > 2));
        RowTypeInfo type = new RowTypeInfo(new TypeInformation<?>[] {Types.LONG, Types.LONG, Types.STRING}, new String[] {"id", "k", "v"});
        StringBuilder chosen = new StringBuilder("SELECT t0.k"), from = new StringBuilder(" FROM t0");
        for (int i = 0; i < inputs; i++) {
            long count = (rows - i + inputs - 1) / inputs;
            DataStream<Row> stream =
                env.fromSequence(0, count - 1).setParallelism(1).map(new ToRow(rows, keys, inputs, i)).returns(type).setParallelism(1);
            Schema schema = Schema.newBuilder()
                .column("id", DataTypes.BIGINT().notNull()).column("k", DataTypes.BIGINT()).column("v", DataTypes.STRING())
                .primaryKey("id").build();
            tables.createTemporaryView("t" + i, tables.fromChangelogStream(stream, schema, ChangelogMode.upsert()));
            chosen.append(", t").append(i).append(".id AS id").append(i).append(", t").append(i).append(".v AS v").append(i);
            if (i > 0) from.append(" JOIN t").append(i).append(" ON t0.k = t").append(i).append(".k");
        }
        tables.toChangelogStream(tables.sqlQuery(chosen.toString() + from)).map(new Count()).returns(Types.INT).sinkTo(new DiscardingSink<>());
        env.execute();
        System.out.println("mark joined " + JOINED.get());
        System.out.println("mark commits " + COMMITS.get());
        System.out.println("mark bytes " + BYTES.get());
        System.out.println("mark rows " + rows);
    }
}
