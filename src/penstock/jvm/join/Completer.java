package io.penstock.join;

import io.penstock.join.KnownRows.Known;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.streaming.StatefulProcessor;
import org.apache.spark.sql.streaming.TimeMode;
import org.apache.spark.sql.streaming.TimerValues;

/**
 * Makes rows whole that lack columns, by the row that there was before; what it cannot make whole it gives as it is. Buckets are
 * of row keys. What comes of it has no join keys yet: Python makes them, of whole rows (core/joins/completing.py).
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
    for (Event e : intake.events()) complete(e, known, out);
    known.save();
    byte[] marks = intake.marks();
    if (marks != null) state.put(MARKS, marks);
    List<Row> blocks = out.isEmpty() ? List.of() : List.of(RowFactory.create(bucket, EventBlocks.write(out)));
    return scala.jdk.javaapi.CollectionConverters.asScala(blocks.iterator());
  }

  private void complete(Event e, KnownRows known, List<Event> out) {
    if ((partial >> e.input() & 1) == 0) {
      out.add(e);
      return;
    }
    Known old = known.get(e);
    if (e.op() == Event.DELETE) {
      // Nobody has heard of a row that was not known.
      if (old == null) return;
      out.add(e.as(e.place(), old.content()));
      known.remove(e);
    } else if (!Cells.lacks(e.row())) {
      out.add(e);
      known.put(e, e.place(), e.row());
    } else if (old == null) {
      out.add(e);
    } else {
      // It is as old as the oldest value in it, for a truncate that is told of later.
      byte[] whole = Cells.merge(old.content(), e.row());
      out.add(e.as(old.place(), whole));
      known.put(e, old.place(), whole);
    }
  }
}
