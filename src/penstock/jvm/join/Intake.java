package io.penstock.join;

import io.penstock.join.Bytes.In;
import io.penstock.join.Bytes.Out;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * The events of one bucket in one micro-batch, without those that its state has seen.
 *
 * <p>Instead of a tombstone per deleted row the state keeps two marks per bucket: how far each part of each input was
 * read, and up to which place in its log each input was emptied. What is not past both does nothing.
 */
final class Intake {
  private static final int VERSION = 1;
  private final Map<Long, Long> before = new HashMap<>(), reached = new HashMap<>();
  private final Map<Integer, Place> emptied = new HashMap<>();
  private final List<Event> events = new ArrayList<>();
  /** What this micro-batch empties. */
  final List<Event> truncates = new ArrayList<>();
  private boolean changed;

  /** `marks` are those that `marks()` gave last, null for a bucket without state. */
  Intake(byte[] marks) {
    if (marks == null) return;
    In in = new In(marks);
    in.octet();
    for (int k = in.count(); k > 0; k--) emptied.put(in.count(), Place.read(in));
    while (in.more()) before.put(in.number(), in.number());
    reached.putAll(before);
  }

  void add(byte[] block) {
    for (Event e : EventBlocks.read(block)) {
      long stream = (long) e.input() << 32 | e.part() & 0xffffffffL;
      if (e.position() <= before.getOrDefault(stream, -1L)) continue;
      changed = true;
      reached.merge(stream, e.position(), Math::max);
      if (e.op() == Event.TRUNCATE) {
        truncates.add(e);
        emptied.merge(e.input(), e.place(), Place::later);
      } else events.add(e);
    }
  }

  /** What is to be applied, behind the truncates. Of one position, what leaves a join key comes first. */
  List<Event> events() {
    events.removeIf(e -> emptied.containsKey(e.input()) && e.place().isBefore(emptied.get(e.input())));
    events.sort(Comparator.comparingLong(Event::position).thenComparingInt(e -> -e.op()));
    return events;
  }

  /** The marks to keep, null where they are as they were. */
  byte[] marks() {
    if (!changed) return null;
    Out out = new Out();
    out.octet(VERSION);
    out.number(emptied.size());
    emptied.forEach((input, place) -> { out.number(input); place.write(out); });
    reached.forEach((stream, position) -> { out.number(stream); out.number(position); });
    return out.done();
  }
}
