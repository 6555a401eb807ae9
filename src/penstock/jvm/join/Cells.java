package io.penstock.join;

import io.penstock.join.Bytes.In;
import io.penstock.join.Bytes.Out;

/**
 * Rows that may lack columns, as core/joins/cells.py writes them: nullable bytes of Avro, first the message that a row came in if
 * it lacks anything, then a cell for each column.
 */
final class Cells {
  private Cells() {}

  static boolean lacks(byte[] row) { return row[0] != 0; }

  /** A row that lacks cells with those that the whole row before it has. */
  static byte[] merge(byte[] older, byte[] newer) {
    In known = new In(older), told = new In(newer);
    Out out = new Out();
    skip(known);
    skip(told);
    out.octet(0);
    while (told.more()) {
      int was = known.at, now = told.at;
      skip(known);
      if (skip(told)) out.put(told.bytes, now, told.at);
      else out.put(known.bytes, was, known.at);
    }
    return out.done();
  }

  /** Goes behind a cell; whether it is there. */
  private static boolean skip(In in) {
    if (in.octet() == 0) return false;
    // Avro's lengths are zigzag: twice what they are.
    int length = in.count() >>> 1;
    in.at += length;
    return true;
  }
}
