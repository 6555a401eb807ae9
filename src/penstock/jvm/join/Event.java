package io.penstock.join;

/**
 * What became of a row of one input, or of all of them.
 *
 * <p>`position` rises strictly within (input, part): it tells what was seen before. `place` is where in its source's log
 * the event stands: a TRUNCATE takes the rows that stand before it, whichever part they came in.
 */
record Event(int input, int part, byte[] joinKey, byte[] rowKey, long position, Place place, int op, byte[] row) {
  static final int UPSERT = 1, DELETE = 2, TRUNCATE = 3;

  Event as(Place otherPlace, byte[] otherRow) {
    return new Event(input, part, joinKey, rowKey, position, otherPlace, op, otherRow);
  }

  Event under(byte[] otherKey, int otherOp) {
    return new Event(input, part, otherKey, rowKey, position, place, otherOp, row);
  }
}
