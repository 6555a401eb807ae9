package io.penstock.join;

import io.penstock.join.Bytes.Out;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/**
 * Events as one value: a block, or several one behind the other. Little-endian: their count (4 bytes), inputs and ops (1 each),
 * parts (4 each), positions and places of the log (8 each), rows there (4 each), then join keys, row keys and rows, each as
 * count + 1 offsets (4 each) and their bytes. The other half is core/joins/blocks.py.
 */
final class EventBlocks {
  private static final int PIECE_BYTES = 4 << 20;

  private EventBlocks() {}

  static List<Event> read(byte[] blocks) {
    List<Event> events = new ArrayList<>();
    ByteBuffer b = ByteBuffer.wrap(blocks).order(ByteOrder.LITTLE_ENDIAN);
    for (int at = 0; at < blocks.length; ) at = read(b, at, events);
    return events;
  }

  /** Reads the block that begins at `start`; gives where it ends. */
  private static int read(ByteBuffer b, int start, List<Event> to) {
    byte[] bytes = b.array();
    int m = b.getInt(start), inputs = start + 4, ops = inputs + m, parts = ops + m, positions = parts + 4 * m;
    int places = positions + 8 * m, rows = places + 8 * m, end = rows + 4 * m;
    int[] offsets = new int[3], data = new int[3];
    for (int c = 0; c < 3; c++) {
      offsets[c] = end;
      data[c] = end + 4 * (m + 1);
      end = data[c] + b.getInt(offsets[c] + 4 * m);
    }
    byte[][] found = new byte[3][];
    for (int i = 0; i < m; i++) {
      for (int c = 0; c < 3; c++) {
        int from = b.getInt(offsets[c] + 4 * i), until = b.getInt(offsets[c] + 4 * i + 4);
        found[c] = Arrays.copyOfRange(bytes, data[c] + from, data[c] + until);
      }
      to.add(new Event(bytes[inputs + i] & 255, b.getInt(parts + 4 * i), found[0], found[1], b.getLong(positions + 8 * i),
          new Place(b.getLong(places + 8 * i), b.getInt(rows + 4 * i)), bytes[ops + i], found[2]));
    }
    return end;
  }

  /** Events in their order, in pieces for one block each: of some MB, or of one event. */
  static List<List<Event>> pieces(List<Event> events) {
    List<List<Event>> pieces = new ArrayList<>();
    long bytes = 0;
    for (int start = 0, i = 0; i < events.size(); i++) {
      Event e = events.get(i);
      bytes += e.joinKey().length + e.rowKey().length + e.row().length;
      if (bytes < PIECE_BYTES && i + 1 < events.size()) continue;
      pieces.add(events.subList(start, i + 1));
      start = i + 1;
      bytes = 0;
    }
    return pieces;
  }

  static byte[] write(List<Event> events) {
    Out out = new Out();
    out.int32(events.size());
    for (Event e : events) out.octet(e.input());
    for (Event e : events) out.octet(e.op());
    for (Event e : events) out.int32(e.part());
    for (Event e : events) out.int64(e.position());
    for (Event e : events) out.int64(e.place().log());
    for (Event e : events) out.int32(e.place().row());
    Out[] data = {new Out(), new Out(), new Out()};
    Out[] ends = {new Out(), new Out(), new Out()};
    for (Out each : ends) each.int32(0);
    for (Event e : events) {
      byte[][] columns = {e.joinKey(), e.rowKey(), e.row()};
      for (int c = 0; c < 3; c++) {
        data[c].put(columns[c]);
        ends[c].int32(data[c].length);
      }
    }
    for (int c = 0; c < 3; c++) {
      out.put(ends[c]);
      out.put(data[c]);
    }
    return out.done();
  }
}
