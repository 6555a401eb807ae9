package io.penstock.join;

import java.util.ArrayList;
import java.util.List;

/** Every combination of rows, one of each input, that holds a changed one, once: the first changed input is the pivot. */
final class Changes {
  /** Stands for the row of an input that has no match, and need not have one. */
  static final byte[] NO_MATCH = {};

  /** A row of one input before and after, null where it is not there. */
  record Slot(byte[] before, byte[] after) {
    static Slot missing(boolean before, boolean after) { return new Slot(before ? NO_MATCH : null, after ? NO_MATCH : null); }
  }

  private final int n;
  private final List<Slot>[] changed, same;
  private int pivot = -1;
  private List<Slot>[] lists;
  private int[] at;
  /** The combination that `next` came to, and whether it is there before and after. */
  final Slot[] current;
  boolean before, after;

  Changes(List<Slot>[] changed, List<Slot>[] same) {
    n = changed.length;
    this.changed = changed;
    this.same = same;
    current = new Slot[n];
  }

  @SuppressWarnings("unchecked") static List<Slot>[] lists(int n) {
    List<Slot>[] lists = new List[n];
    for (int i = 0; i < n; i++) lists[i] = new ArrayList<>();
    return lists;
  }

  boolean next() {
    if (lists == null && !nextPivot()) return false;
    while (true) {
      int i = n - 1;
      while (i >= 0 && ++at[i] >= lists[i].size()) at[i--] = 0;
      if (i < 0) {
        if (!nextPivot()) return false;
        continue;
      }
      before = after = true;
      int j = 0;
      for (; j < n; j++) {
        current[j] = lists[j].get(at[j]);
        before &= current[j].before != null;
        after &= current[j].after != null;
        if (!before && !after) break;
      }
      if (j == n) return true;
      for (int k = j + 1; k < n; k++) at[k] = lists[k].size() - 1; // no row below this prefix: skip them all
    }
  }

  private boolean nextPivot() {
    while (++pivot < n) {
      if (changed[pivot].isEmpty()) continue;
      lists = lists(n);
      boolean joins = true;
      for (int j = 0; j < n; j++) {
        if (j >= pivot) lists[j].addAll(changed[j]);
        if (j != pivot) lists[j].addAll(same[j]);
        joins &= !lists[j].isEmpty();
      }
      if (joins) {
        at = new int[n];
        at[n - 1] = -1;
        return true;
      }
    }
    return false;
  }
}
