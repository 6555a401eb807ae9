package io.penstock.join;

import io.penstock.join.Bytes.Out;
import java.util.ArrayDeque;
import java.util.NoSuchElementException;
import scala.collection.AbstractIterator;

/**
 * The joined rows that changed, as blocks, made as they are asked for. Little-endian: count and inputs (4 bytes each), then
 * for each input its row before, then for each its row after: a byte per value, 0 for none, count + 1 offsets (4 each) and
 * the bytes. The other half is core/joins/blocks.py.
 */
final class Differences extends AbstractIterator<byte[]> {
  private static final int BLOCK_BYTES = 1 << 20;
  private final ArrayDeque<Changes> changes;
  private final int inputs;
  private byte[] ready;

  Differences(ArrayDeque<Changes> changes, int inputs) {
    this.changes = changes;
    this.inputs = inputs;
  }

  @Override public boolean hasNext() {
    if (ready == null) ready = pack();
    return ready != null;
  }

  @Override public byte[] next() {
    if (!hasNext()) throw new NoSuchElementException();
    byte[] block = ready;
    ready = null;
    return block;
  }

  private byte[] pack() {
    int columns = 2 * inputs, count = 0;
    Out[] there = outs(columns), ends = outs(columns), data = outs(columns);
    long size = 0;
    while (size < BLOCK_BYTES && !changes.isEmpty()) {
      Changes c = changes.peek();
      if (!c.next()) {
        changes.poll();
        continue;
      }
      count++;
      for (int i = 0; i < inputs; i++) {
        byte[] before = c.before ? c.current[i].before() : null, after = c.after ? c.current[i].after() : null;
        add(there[i], ends[i], data[i], before);
        add(there[inputs + i], ends[inputs + i], data[inputs + i], after);
        size += 10 + (before == null ? 0 : before.length) + (after == null ? 0 : after.length);
      }
    }
    if (count == 0) return null;
    Out out = new Out();
    out.int32(count);
    out.int32(inputs);
    for (int c = 0; c < columns; c++) {
      out.put(there[c]);
      out.int32(0);
      out.put(ends[c]);
      out.put(data[c]);
    }
    return out.done();
  }

  private static Out[] outs(int count) {
    Out[] outs = new Out[count];
    for (int i = 0; i < count; i++) outs[i] = new Out();
    return outs;
  }

  private static void add(Out there, Out ends, Out data, byte[] value) {
    boolean is = value != null && value != Changes.NO_MATCH;
    there.octet(is ? 1 : 0);
    if (is) data.put(value);
    ends.int32(data.length);
  }
}
