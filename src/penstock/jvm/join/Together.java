package io.penstock.join;

import io.penstock.join.Bytes.Out;
import java.util.Iterator;
import java.util.NoSuchElementException;
import java.util.TreeMap;
import org.apache.spark.api.java.function.MapPartitionsFunction;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;

/**
 * Puts the blocks of events that a task has for one bucket into one row. KeyProcessor gives a block for each pair of its buckets and
 * those behind it, thousands in each micro-batch, and a row that is shuffled costs as much as many events.
 */
final class Together implements MapPartitionsFunction<Row, Row> {
  private final int rowBytes;

  /** A row that has `rowBytes` goes; so much is held for each bucket at most, and one block. */
  Together(int rowBytes) { this.rowBytes = rowBytes; }

  @Override public Iterator<Row> call(Iterator<Row> blocks) { return new Rows(blocks, rowBytes); }

  private static final class Rows implements Iterator<Row> {
    private final Iterator<Row> blocks;
    private final int rowBytes;
    private final TreeMap<Integer, Out> held = new TreeMap<>();
    private Row ready;

    Rows(Iterator<Row> blocks, int rowBytes) {
      this.blocks = blocks;
      this.rowBytes = rowBytes;
    }

    @Override public boolean hasNext() {
      if (ready == null) ready = gather();
      return ready != null;
    }

    @Override public Row next() {
      if (!hasNext()) throw new NoSuchElementException();
      Row row = ready;
      ready = null;
      return row;
    }

    private Row gather() {
      while (blocks.hasNext()) {
        Row block = blocks.next();
        int bucket = block.getInt(0);
        if (bucket == Kernel.ASIDE) return block;
        Out all = held.computeIfAbsent(bucket, number -> new Out());
        all.put(block.<byte[]>getAs(1));
        if (all.length < rowBytes) continue;
        held.remove(bucket);
        return RowFactory.create(bucket, all.done());
      }
      var left = held.pollFirstEntry();
      return left == null ? null : RowFactory.create(left.getKey(), left.getValue().done());
    }
  }
}
