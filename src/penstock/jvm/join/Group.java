package io.penstock.join;

import io.penstock.join.Bytes.In;
import io.penstock.join.Bytes.Key;
import io.penstock.join.Bytes.Out;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;

/** All rows of one join key, input by input; the events that are applied to them, and what those change. */
final class Group {
  static final int HEAD = 255;
  private static final int VERSION = 1;

  /** Where the blobs of a group are: page 0 of HEAD, and pages of sides that are large. */
  interface Blobs {
    byte[] get(int side, int page);

    /** Null removes. */
    void put(int side, int page, byte[] blob);
  }

  /** A row, and its place in its source's log. */
  private record Cell(Place place, byte[] row) {}

  /** The rows of one input: in the group's head while they are few, else in pages by hash of their keys. */
  private static final class Side {
    final int number;
    int pages = 1, rows, size;
    HashMap<Key, Cell>[] maps = maps(1);
    boolean[] dirty = new boolean[1];
    /** What each row that was touched was before, null where there was none. */
    final LinkedHashMap<Key, byte[]> before = new LinkedHashMap<>();

    Side(int number) {
      this.number = number;
      maps[0] = new HashMap<>();
    }

    @SuppressWarnings("unchecked") static HashMap<Key, Cell>[] maps(int pages) { return new HashMap[pages]; }
  }

  private final Blobs blobs;
  private final Side[] sides;
  private final int optional, pageBytes;

  Group(int inputs, int optional, Blobs blobs, int pageBytes) {
    this.blobs = blobs;
    this.optional = optional;
    this.pageBytes = pageBytes;
    sides = new Side[inputs];
    for (int i = 0; i < inputs; i++) sides[i] = new Side(i);
    byte[] head = blobs.get(HEAD, 0);
    if (head != null) readHead(new In(head));
  }

  private void readHead(In in) {
    in.octet();
    for (int i = 0, m = in.count(); i < m; i++) {
      Side s = sides[i];
      s.pages = in.count();
      s.rows = in.count();
      s.size = in.count();
      if (s.pages == 1) {
        readCells(in, s.maps[0]);
      } else {
        s.maps = Side.maps(s.pages);
        s.dirty = new boolean[s.pages];
      }
    }
  }

  private static void readCells(In in, HashMap<Key, Cell> to) {
    for (int k = in.count(); k > 0; k--) {
      Key key = new Key(in.take(in.count()));
      Place place = Place.read(in);
      to.put(key, new Cell(place, in.take(in.count())));
    }
  }

  private static void writeCells(Out out, HashMap<Key, Cell> cells) {
    out.number(cells.size());
    cells.forEach((key, cell) -> {
      out.number(key.bytes.length);
      out.put(key.bytes);
      cell.place.write(out);
      out.number(cell.row.length);
      out.put(cell.row);
    });
  }

  private HashMap<Key, Cell> page(Side s, int p) {
    if (s.maps[p] == null) {
      s.maps[p] = new HashMap<>();
      byte[] blob = blobs.get(s.number, p);
      if (blob != null) {
        In in = new In(blob);
        in.octet();
        readCells(in, s.maps[p]);
      }
    }
    return s.maps[p];
  }

  private static int pageOf(Key key, int pages) {
    int h = key.hashCode();
    return (h ^ h >>> 15) & pages - 1;
  }

  private static int size(Key key, byte[] row) { return key.bytes.length + row.length + 10; }

  /** Applies one event of a row. */
  void apply(Event e) {
    set(sides[e.input()], new Key(e.rowKey()), e.op() == Event.DELETE ? null : new Cell(e.place(), e.row()));
  }

  /** Takes the rows of one input that stand before `place` in its log. */
  void truncate(int input, Place place) {
    Side s = sides[input];
    for (int p = 0; p < s.pages; p++)
      for (var e : new ArrayList<>(page(s, p).entrySet()))
        if (e.getValue().place.isBefore(place)) set(s, e.getKey(), null);
  }

  private void set(Side s, Key key, Cell cell) {
    int p = pageOf(key, s.pages);
    HashMap<Key, Cell> cells = page(s, p);
    Cell old = cell == null ? cells.remove(key) : cells.put(key, cell);
    if (old == null && cell == null) return;
    if (!s.before.containsKey(key)) s.before.put(key, old == null ? null : old.row);
    s.rows += (cell == null ? 0 : 1) - (old == null ? 0 : 1);
    s.size += (cell == null ? 0 : size(key, cell.row)) - (old == null ? 0 : size(key, old.row));
    s.dirty[p] = true;
  }

  /** Writes what has changed. To be called once, behind the last event and behind `changes`. */
  void save() {
    boolean any = false, empty = true;
    for (Side s : sides) {
      boolean dirty = false;
      for (boolean d : s.dirty) dirty |= d;
      any |= dirty;
      empty &= s.rows == 0;
      if (dirty && s.size > 2L * pageBytes * s.pages) grow(s);
      if (s.pages > 1) savePages(s);
    }
    if (!any) return;
    if (empty) {
      blobs.put(HEAD, 0, null);
      return;
    }
    Out out = new Out();
    out.octet(VERSION);
    out.number(sides.length);
    for (Side s : sides) {
      out.number(s.pages);
      out.number(s.rows);
      out.number(s.size);
      if (s.pages == 1) writeCells(out, s.maps[0]);
    }
    blobs.put(HEAD, 0, out.done());
  }

  private void savePages(Side s) {
    for (int p = 0; p < s.pages; p++) {
      if (!s.dirty[p]) continue;
      Out out = new Out();
      out.octet(VERSION);
      writeCells(out, s.maps[p]);
      blobs.put(s.number, p, s.maps[p].isEmpty() ? null : out.done());
    }
  }

  private void grow(Side s) {
    int pages = s.pages;
    while (s.size > (long) pageBytes * pages) pages *= 2;
    HashMap<Key, Cell>[] maps = Side.maps(pages);
    for (int p = 0; p < pages; p++) maps[p] = new HashMap<>();
    for (int p = 0; p < s.pages; p++)
      for (var e : page(s, p).entrySet()) maps[pageOf(e.getKey(), pages)].put(e.getKey(), e.getValue());
    s.pages = pages;
    s.maps = maps;
    s.dirty = new boolean[pages];
    Arrays.fill(s.dirty, true);
  }

  /** What the events that were applied change of the joined rows. */
  Changes changes() {
    int n = sides.length, pivots = 0;
    List<Changes.Slot>[] changed = Changes.lists(n), same = Changes.lists(n);
    boolean joins = true;
    boolean[] missing = new boolean[n];
    for (int i = 0; i < n; i++) {
      Side s = sides[i];
      int was = s.rows;
      for (var e : s.before.entrySet()) {
        Cell now = page(s, pageOf(e.getKey(), s.pages)).get(e.getKey());
        byte[] before = e.getValue(), after = now == null ? null : now.row;
        was += (before == null ? 0 : 1) - (after == null ? 0 : 1);
        if (!Arrays.equals(before, after)) changed[i].add(new Changes.Slot(before, after));
      }
      if ((optional >> i & 1) == 0) {
        joins &= was > 0 || s.rows > 0;
      } else {
        missing[i] = was == 0 && s.rows == 0;
        if (was == 0 != (s.rows == 0)) changed[i].add(Changes.Slot.missing(was == 0, s.rows == 0));
      }
      if (!changed[i].isEmpty()) pivots++;
    }
    if (!joins || pivots == 0) return new Changes(Changes.lists(n), Changes.lists(n));
    for (int i = 0; i < n; i++) {
      if (pivots == 1 && !changed[i].isEmpty()) continue; // nobody else changed: its other rows make no difference
      addSame(sides[i], same[i]);
      if (missing[i]) same[i].add(Changes.Slot.missing(true, true));
    }
    return new Changes(changed, same);
  }

  /** All joined rows, as what comes where nothing was. */
  Changes everything() {
    int n = sides.length;
    List<Changes.Slot>[] changed = Changes.lists(n), same = Changes.lists(n);
    for (int p = 0; p < sides[0].pages; p++)
      for (Cell cell : page(sides[0], p).values()) changed[0].add(new Changes.Slot(null, cell.row));
    for (int i = 1; i < n; i++) {
      addSame(sides[i], same[i]);
      if (sides[i].rows == 0 && (optional >> i & 1) != 0) same[i].add(Changes.Slot.missing(true, true));
    }
    return new Changes(changed, same);
  }

  private void addSame(Side s, List<Changes.Slot> to) {
    for (int p = 0; p < s.pages; p++)
      for (var e : page(s, p).entrySet()) {
        byte[] row = e.getValue().row;
        if (!s.before.containsKey(e.getKey()) || Arrays.equals(s.before.get(e.getKey()), row)) to.add(new Changes.Slot(row, row));
      }
  }
}
