package io.penstock.join;

import io.penstock.join.Bytes.Key;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.streaming.StatefulProcessor;
import org.apache.spark.sql.streaming.TimeMode;
import org.apache.spark.sql.streaming.TimerValues;

/** The join: one row of Spark carries all events of a bucket of join keys; its state has a blob per join key and page. */
final class JoinProcessor extends StatefulProcessor<Integer, Row, byte[]> {
  private static final byte[] MARKS = {};
  private final int inputs, optional, pageBytes;
  private transient BucketState state;

  /** Bit i of `optional` is set for an input that need not match. */
  JoinProcessor(int inputs, int optional, int pageBytes) {
    this.inputs = inputs;
    this.optional = optional;
    this.pageBytes = pageBytes;
  }

  @Override public void init(OutputMode mode, TimeMode time) { state = BucketState.open(getHandle(), "rows"); }

  @Override public scala.collection.Iterator<byte[]> handleInputRows(
      Integer bucket, scala.collection.Iterator<Row> rows, TimerValues timers) {
    if (bucket == Kernel.ASIDE) return rows.map(row -> row.<byte[]>getAs(1));
    state.enter(bucket);
    Intake intake = new Intake(state.get(MARKS));
    while (rows.hasNext()) intake.add(rows.next().<byte[]>getAs(1));
    LinkedHashMap<Key, List<Event>> byKey = new LinkedHashMap<>();
    if (!intake.truncates.isEmpty()) for (Key key : keys()) byKey.put(key, new ArrayList<>());
    for (Event e : intake.events()) byKey.computeIfAbsent(new Key(e.joinKey()), k -> new ArrayList<>(4)).add(e);
    // Spark forgets the grouping key before it consumes what we return, so all state is read and written here.
    ArrayDeque<Changes> changes = new ArrayDeque<>();
    for (var e : byKey.entrySet()) {
      Group group = new Group(inputs, optional, blobs(e.getKey().bytes), pageBytes);
      for (Event emptied : intake.truncates) group.truncate(emptied.input(), emptied.place());
      e.getValue().forEach(group::apply);
      changes.add(group.changes());
      group.save();
    }
    byte[] marks = intake.marks();
    if (marks != null) state.put(MARKS, marks);
    return new Differences(changes, inputs);
  }

  private Group.Blobs blobs(byte[] joinKey) {
    return new Group.Blobs() {
      private byte[] key(int side, int page) {
        byte[] key = Arrays.copyOf(joinKey, joinKey.length + 5);
        key[joinKey.length] = (byte) side;
        for (int i = 0; i < 4; i++) key[joinKey.length + 1 + i] = (byte) (page >> 24 - 8 * i);
        return key;
      }

      @Override public byte[] get(int side, int page) { return state.get(key(side, page)); }

      @Override public void put(int side, int page, byte[] blob) {
        if (blob == null) state.remove(key(side, page));
        else state.put(key(side, page), blob);
      }
    };
  }

  /** The join keys that have rows in this bucket. */
  private List<Key> keys() {
    List<Key> keys = new ArrayList<>();
    state.each((key, blob) -> {
      if (key.length >= 5 && (key[key.length - 5] & 255) == Group.HEAD) keys.add(new Key(Arrays.copyOf(key, key.length - 5)));
    });
    return keys;
  }
}
