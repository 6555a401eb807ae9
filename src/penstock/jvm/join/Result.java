package io.penstock.join;

import io.penstock.join.Bytes.Key;
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Iterator;
import java.util.Map;
import org.apache.spark.api.java.function.MapPartitionsFunction;
import org.apache.spark.sql.Row;
import scala.jdk.javaapi.CollectionConverters;

/** All joined rows of a state as blocks of differences from nothing, of its blobs in the order of their join keys. */
final class Result implements MapPartitionsFunction<Row, byte[]> {
  private static final int KEYS_AT_ONCE = 1024, ROWS_AT_ONCE = 65_536;
  private final int inputs, optional;

  Result(int inputs, int optional) {
    this.inputs = inputs;
    this.optional = optional;
  }

  /** Rows have a join key, a blob's key, and the blob. */
  @Override public Iterator<byte[]> call(Iterator<Row> rows) {
    return new Iterator<>() {
      private Row next = rows.hasNext() ? rows.next() : null;
      private Iterator<byte[]> blocks = Arrays.<byte[]>asList().iterator();

      @Override public boolean hasNext() {
        while (!blocks.hasNext() && next != null) blocks = CollectionConverters.asJava(new Differences(changes(), inputs));
        return blocks.hasNext();
      }

      @Override public byte[] next() {
        hasNext();
        return blocks.next();
      }

      /** Those of the next join keys: of some that have few rows, or of one that has many. */
      private ArrayDeque<Changes> changes() {
        ArrayDeque<Changes> found = new ArrayDeque<>();
        for (int keys = 0, size = 0; next != null && keys < KEYS_AT_ONCE && size < ROWS_AT_ONCE; keys++) {
          Map<Key, byte[]> blobs = new HashMap<>();
          for (byte[] joinKey = next.getAs(0); next != null && Arrays.equals(joinKey, next.getAs(0)); ) {
            byte[] key = next.getAs(1), blob = next.getAs(2);
            blobs.put(new Key(Arrays.copyOfRange(key, key.length - 5, key.length)), blob);
            size += blob.length >> 4;
            next = rows.hasNext() ? rows.next() : null;
          }
          found.add(new Group(inputs, optional, read(blobs), 1).everything());
        }
        return found;
      }
    };
  }

  private static Group.Blobs read(Map<Key, byte[]> blobs) {
    return new Group.Blobs() {
      @Override public byte[] get(int side, int page) {
        return blobs.get(new Key(new byte[] {(byte) side, (byte) (page >> 24), (byte) (page >> 16), (byte) (page >> 8), (byte) page}));
      }

      @Override public void put(int side, int page, byte[] blob) { throw new IllegalStateException(); }
    };
  }
}
