package io.penstock.join;

import io.penstock.join.Bytes.In;
import io.penstock.join.Bytes.Out;

/** Where in its source's log something stands: a place of the log, and which row it is there. */
record Place(long log, int row) implements Comparable<Place> {
  static Place read(In in) { return new Place(in.number(), in.count()); }

  void write(Out out) {
    out.number(log);
    out.number(row);
  }

  @Override public int compareTo(Place other) {
    return log == other.log ? Integer.compare(row, other.row) : Long.compare(log, other.log);
  }

  boolean isBefore(Place other) { return compareTo(other) < 0; }

  static Place later(Place one, Place other) { return one.isBefore(other) ? other : one; }
}
