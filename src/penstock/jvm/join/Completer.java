package io.penstock.join;

import io.penstock.join.Bytes.Key;
import io.penstock.join.KnownRows.Known;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.streaming.StatefulProcessor;
import org.apache.spark.sql.streaming.TimeMode;
import org.apache.spark.sql.streaming.TimerValues;

/**
 * Makes rows whole that lack columns, by the row that there was before; what it cannot make whole it gives as it is. Buckets are
 * of row keys. What comes of it has no join keys yet: Python makes them, of whole rows (core/joins/completing.py).
 *
 * <p>Of each row it gives what became of it last: the join compares micro-batches. A message of a few bytes becomes a whole row,
 * and a row may have any number of them.
 */
final class Completer extends StatefulProcessor<Integer, Row, Row> {
  private static final byte[] MARKS = {};
  private final int partial;
  private transient BucketState state;

  /** Bit i of `partial` is set for an input whose rows may lack columns: see Cells. */
  Completer(int partial) { this.partial = partial; }

  @Override public void init(OutputMode mode, TimeMode time) { state = BucketState.open(getHandle(), "whole"); }

  @Override public scala.collection.Iterator<Row> handleInputRows(
      Integer bucket, scala.collection.Iterator<Row> rows, TimerValues timers) {
    if (bucket == Kernel.ASIDE) return rows;
    state.enter(bucket);
    Intake intake = new Intake(state.get(MARKS));
    while (rows.hasNext()) intake.add(rows.next().<byte[]>getAs(1));
    KnownRows known = new KnownRows(state);
    known.forget(intake.truncates);
    // Every bucket hears of a truncate; one of them passes it on.
    List<Event> out = new ArrayList<>(bucket == 0 ? intake.truncates : List.of());
    Map<Key, Event> last = new LinkedHashMap<>();
    for (Event e : intake.events()) {
      Event whole = isPartial(e) ? complete(e, known) : e;
      if (whole == null) continue;
      if (!isPartial(e) || Cells.lacks(whole.row())) out.add(whole);
      else last.put(KnownRows.keyOf(e), whole);
    }
    out.addAll(last.values());
    known.save();
    byte[] marks = intake.marks();
    if (marks != null) state.put(MARKS, marks);
    var blocks = EventBlocks.pieces(out).stream().map(piece -> RowFactory.create(bucket, EventBlocks.write(piece)));
    return scala.jdk.javaapi.CollectionConverters.asScala(blocks.iterator());
  }

  private boolean isPartial(Event e) { return (partial >> e.input() & 1) != 0; }

  /** The event with its whole row, or as it is where nobody knows that; null where there is nothing to tell. */
  private static Event complete(Event e, KnownRows known) {
    Known old = known.get(e);
    if (e.op() == Event.DELETE) {
      // Nobody has heard of a row that was not known.
      if (old == null) return null;
      known.remove(e);
      return e.as(e.place(), old.content());
    }
    if (!Cells.lacks(e.row())) {
      known.put(e, e.place(), e.row());
      return e;
    }
    if (old == null) return e;
    // It is as old as the oldest value in it, for a truncate that is told of later.
    byte[] whole = Cells.merge(old.content(), e.row());
    known.put(e, old.place(), whole);
    return e.as(old.place(), whole);
  }
}
