package io.penstock.join;

import io.penstock.join.KnownRows.Known;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.zip.CRC32;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.streaming.StatefulProcessor;
import org.apache.spark.sql.streaming.TimeMode;
import org.apache.spark.sql.streaming.TimerValues;

/**
 * Remembers under which join key each row is, for the inputs whose row keys do not tell: a row that comes with another one
 * leaves the old one first, whatever its message says of what it was before. Buckets are of row keys here, and of join keys
 * in what it gives.
 */
final class KeyProcessor extends StatefulProcessor<Integer, Row, Row> {
  private static final byte[] MARKS = {};
  private final int remembered, buckets;
  private transient BucketState state;

  /** Bit i of `remembered` is set for an input whose join keys are to be remembered. */
  KeyProcessor(int remembered, int buckets) {
    this.remembered = remembered;
    this.buckets = buckets;
  }

  @Override public void init(OutputMode mode, TimeMode time) { state = BucketState.open(getHandle(), "keys"); }

  @Override public scala.collection.Iterator<Row> handleInputRows(
      Integer bucket, scala.collection.Iterator<Row> rows, TimerValues timers) {
    if (bucket == Kernel.ASIDE) return rows;
    state.enter(bucket);
    Intake intake = new Intake(state.get(MARKS));
    while (rows.hasNext()) intake.add(rows.next().<byte[]>getAs(1));
    KnownRows joinKeys = new KnownRows(state);
    joinKeys.forget(intake.truncates);
    List<List<Event>> out = new ArrayList<>();
    // Every bucket of row keys hears of a truncate; one of them passes it on.
    for (int i = 0; i < buckets; i++) out.add(new ArrayList<>(bucket == 0 ? intake.truncates : List.of()));
    for (Event e : intake.events()) pass(e, joinKeys, out);
    joinKeys.save();
    byte[] marks = intake.marks();
    if (marks != null) state.put(MARKS, marks);
    List<Row> blocks = new ArrayList<>();
    for (int i = 0; i < buckets; i++)
      for (List<Event> piece : EventBlocks.pieces(out.get(i))) blocks.add(RowFactory.create(i, EventBlocks.write(piece)));
    return scala.jdk.javaapi.CollectionConverters.asScala(blocks.iterator());
  }

  private void pass(Event e, KnownRows joinKeys, List<List<Event>> out) {
    if ((remembered >> e.input() & 1) == 0) {
      give(e, out);
      return;
    }
    Known old = joinKeys.get(e);
    if (e.op() == Event.DELETE) {
      if (old != null) give(e.under(old.content(), Event.DELETE), out);
      joinKeys.remove(e);
      return;
    }
    if (old != null && !Arrays.equals(old.content(), e.joinKey())) give(e.under(old.content(), Event.DELETE), out);
    give(e, out);
    joinKeys.put(e, e.place(), e.joinKey());
  }

  private void give(Event e, List<List<Event>> out) {
    CRC32 crc = new CRC32();
    crc.update(e.joinKey());
    out.get((int) (crc.getValue() % buckets)).add(e);
  }
}
