package io.penstock.join;

import io.penstock.join.Bytes.In;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Iterator;
import java.util.List;
import org.apache.spark.api.java.function.FlatMapFunction;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;

/** What blobs of the join's state hold, for whoever looks at it from outside: rows of (key, blob), as Group writes them. */
final class Contents {
  /** Of each join key and input that has rows there: how many, and their bytes. */
  static final StructType SIZES =
      new StructType().add("join_key", DataTypes.BinaryType).add("input", DataTypes.IntegerType)
          .add("rows", DataTypes.IntegerType).add("bytes", DataTypes.IntegerType);
  /** The rows of one join key. */
  static final StructType ROWS =
      new StructType().add("input", DataTypes.IntegerType).add("row_key", DataTypes.BinaryType).add("row", DataTypes.BinaryType);

  private Contents() {}

  static FlatMapFunction<Row, Row> sizes() {
    return blob -> {
      byte[] key = blob.getAs(0);
      List<Row> found = new ArrayList<>();
      if (sideOf(key) == Group.HEAD)
        readHead(blob.getAs(1), (side, rows, bytes, cells) -> {
          if (rows > 0) found.add(RowFactory.create(Arrays.copyOf(key, key.length - 5), side, rows, bytes));
        });
      return found.iterator();
    };
  }

  static FlatMapFunction<Row, Row> rows(byte[] joinKey) {
    return blob -> {
      byte[] key = blob.getAs(0), value = blob.getAs(1);
      int side = sideOf(key);
      if (side < 0 || !Arrays.equals(Arrays.copyOf(key, key.length - 5), joinKey)) return empty();
      List<Row> found = new ArrayList<>();
      if (side == Group.HEAD) {
        readHead(value, (input, rows, bytes, cells) -> found.addAll(cells));
      } else {
        In in = new In(value);
        in.octet();
        found.addAll(cells(side, in));
      }
      return found.iterator();
    };
  }

  private interface Found {
    void side(int side, int rows, int bytes, List<Row> cells);
  }

  private static void readHead(byte[] head, Found found) {
    In in = new In(head);
    in.octet();
    for (int side = 0, m = in.count(); side < m; side++) {
      int pages = in.count(), rows = in.count(), bytes = in.count();
      found.side(side, rows, bytes, pages == 1 ? cells(side, in) : List.of());
    }
  }

  private static List<Row> cells(int side, In in) {
    List<Row> rows = new ArrayList<>();
    for (int k = in.count(); k > 0; k--) {
      byte[] key = in.take(in.count());
      Place.read(in);
      rows.add(RowFactory.create(side, key, in.take(in.count())));
    }
    return rows;
  }

  /** The side whose page a blob is, HEAD for a head; -1 for what is no blob of a join key. */
  private static int sideOf(byte[] key) { return key.length < 5 ? -1 : key[key.length - 5] & 255; }

  private static Iterator<Row> empty() { return List.<Row>of().iterator(); }
}
