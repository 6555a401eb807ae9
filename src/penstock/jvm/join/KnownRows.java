package io.penstock.join;

import io.penstock.join.Bytes.In;
import io.penstock.join.Bytes.Key;
import io.penstock.join.Bytes.Out;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** What an operator keeps of each row, beside its place in its source's log; changes are written by `save`, once. */
final class KnownRows {
  record Known(Place place, byte[] content) {}

  private final BucketState state;
  private final Map<Key, Known> changed = new HashMap<>();

  KnownRows(BucketState state) { this.state = state; }

  /** Null for a row that is not known. */
  Known get(Event e) {
    Key key = keyOf(e);
    return changed.containsKey(key) ? changed.get(key) : read(state.get(key.bytes));
  }

  void put(Event e, Place place, byte[] content) { changed.put(keyOf(e), new Known(place, content)); }

  void remove(Event e) { changed.put(keyOf(e), null); }

  /** Takes the rows that stand before truncates; to be called before all others. */
  void forget(List<Event> truncates) {
    if (truncates.isEmpty()) return;
    List<byte[]> gone = new ArrayList<>();
    state.each((key, content) -> {
      if (key.length == 0) return;
      Known known = read(content);
      for (Event e : truncates)
        if (e.input() == (key[key.length - 1] & 255) && known.place.isBefore(e.place())) gone.add(key);
    });
    gone.forEach(state::remove);
  }

  void save() {
    changed.forEach((key, known) -> {
      if (known == null) state.remove(key.bytes);
      else state.put(key.bytes, write(known));
    });
  }

  static Key keyOf(Event e) {
    byte[] key = Arrays.copyOf(e.rowKey(), e.rowKey().length + 1);
    key[e.rowKey().length] = (byte) e.input();
    return new Key(key);
  }

  private static Known read(byte[] value) {
    if (value == null) return null;
    In in = new In(value);
    Place place = Place.read(in);
    return new Known(place, in.rest());
  }

  private static byte[] write(Known known) {
    Out out = new Out();
    known.place.write(out);
    out.put(known.content);
    return out.done();
  }
}
