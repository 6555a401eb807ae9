package io.penstock.join;

import java.util.Arrays;
import java.util.stream.Collectors;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Encoder;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.KeyValueGroupedDataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.execution.LogicalRDD;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.streaming.TimeMode;
import scala.reflect.ClassTag$;

/** What Python calls: blocks of events in, blocks of differences out. */
public final class Kernel {
  /** The bucket of blocks that are no events: they are given back as they are. */
  static final int ASIDE = -1;
  /** How many times a page of the state is about a row of blocks that is shuffled. */
  private static final int ROW_PAGES = 8;

  private Kernel() {}

  /**
   * Joins. `events` has the columns bucket (int) and block (binary, see EventBlocks): buckets of row keys where bit i of
   * `remembered` is set for some input i, of join keys where none is. Bit i of `optional` is set for an input that need
   * not match. Gives one column of blocks (see Differences).
   */
  public static Dataset<byte[]> join(
      Dataset<Row> events, int inputs, int remembered, int optional, int buckets, int pageBytes) {
    Dataset<Row> byJoinKey = events;
    if (remembered != 0) {
      Encoder<Row> row = Encoders.row(events.schema());
      byJoinKey = grouped(events)
          .transformWithState(new KeyProcessor(remembered, buckets), TimeMode.None(), OutputMode.Append(), row)
          .mapPartitions(new Together(ROW_PAGES * pageBytes), row);
    }
    return grouped(byJoinKey).transformWithState(
        new JoinProcessor(inputs, optional, pageBytes), TimeMode.None(), OutputMode.Append(), Encoders.BINARY());
  }

  /**
   * Makes rows whole, of the inputs i of which bit i of `partial` is set: see Completer. `events` are those of `join`, in buckets
   * of row keys; what comes of it has the same form, and is to be made events of joins by Python.
   */
  public static Dataset<Row> complete(Dataset<Row> events, int partial) {
    return grouped(events)
        .transformWithState(new Completer(partial), TimeMode.None(), OutputMode.Append(), Encoders.row(events.schema()));
  }

  /**
   * Runs a micro-batch of what `join` gave, as foreachBatch has it: its blocks go to files in `folder`, a task each (see
   * BlockFiles), whose paths it returns, a line each: Python cannot come to the end of a list of Java without an exception, whose
   * kind PySpark then looks for in all jars. Spark has planned it already; asking `blocks` for its rows would plan once more.
   */
  public static String run(Dataset<Row> blocks, String folder) {
    var execution = ((org.apache.spark.sql.classic.Dataset<Row>) blocks).queryExecution();
    RDD<InternalRow> rows = execution.logical() instanceof LogicalRDD planned ? planned.rdd() : execution.toRdd();
    Object files = rows.context().runJob(rows, new BlockFiles(folder), ClassTag$.MODULE$.<String>apply(String.class));
    return Arrays.stream((String[]) files).filter(file -> !file.isEmpty()).collect(Collectors.joining("\n"));
  }

  /** Of each join key and input: how many rows it has and their bytes (Contents.SIZES). `blobs` has the state's keys and values. */
  public static Dataset<Row> sizes(Dataset<Row> blobs) {
    return blobs.flatMap(Contents.sizes(), Encoders.row(Contents.SIZES));
  }

  /** The rows that the state has of one join key (Contents.ROWS). */
  public static Dataset<Row> rows(Dataset<Row> blobs, byte[] joinKey) {
    return blobs.flatMap(Contents.rows(joinKey), Encoders.row(Contents.ROWS));
  }

  /** All joined rows of a state, as blocks (see Result). `blobs` has its keys and values. */
  public static Dataset<byte[]> result(Dataset<Row> blobs, int inputs, int optional) {
    Dataset<Row> byKey = blobs.filter("length(k) >= 5").selectExpr("substring(k, 1, length(k) - 5) AS j", "k", "v");
    // All blobs of a join key are in one partition of the state.
    return byKey.sortWithinPartitions("j").mapPartitions(new Result(inputs, optional), Encoders.BINARY());
  }

  private static KeyValueGroupedDataset<Integer, Row> grouped(Dataset<Row> blocks) {
    Encoder<Row> row = Encoders.row(blocks.schema());
    return blocks.groupBy("bucket").as(Encoders.INT(), row);
  }
}
