package io.penstock.join;

import java.lang.reflect.Field;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.catalyst.expressions.codegen.UnsafeRowWriter;
import org.apache.spark.sql.execution.streaming.operators.stateful.transformwithstate.statefulprocessor.StatefulProcessorHandleImpl;
import org.apache.spark.sql.execution.streaming.state.PrefixKeyScanStateEncoderSpec;
import org.apache.spark.sql.execution.streaming.state.StateStore;
import org.apache.spark.sql.streaming.StatefulProcessorHandle;
import org.apache.spark.sql.streaming.TTLConfig;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;

/**
 * What an operator keeps of each bucket: bytes by bytes, where Spark's MapState has them and as it writes them. Spark makes the
 * encoders of a MapState anew in every task, and asks three of them for every key; this writes the same rows by itself.
 */
final class BucketState {
  private static final StructType BUCKET = new StructType().add("value", DataTypes.IntegerType);
  private static final StructType BYTES = new StructType().add("value", DataTypes.BinaryType);
  private static final StructType KEY = new StructType().add("key", BUCKET).add("userKey", BYTES);
  private final StateStore store;
  private final String name;
  private final UnsafeRowWriter key = new UnsafeRowWriter(2), keyBucket = new UnsafeRowWriter(key, 1), keyBytes = new UnsafeRowWriter(key, 1);
  private final UnsafeRowWriter prefix = new UnsafeRowWriter(1), prefixBucket = new UnsafeRowWriter(prefix, 1);
  private final UnsafeRowWriter value = new UnsafeRowWriter(1);
  private int bucket;

  private BucketState(StateStore store, String name) {
    this.store = store;
    this.name = name;
  }

  /** To be called by `init`; null on the driver, which only asks what state there is. */
  static BucketState open(StatefulProcessorHandle handle, String name) {
    if (!(handle instanceof StatefulProcessorHandleImpl)) {
      handle.getMapState(name, Encoders.BINARY(), Encoders.BINARY(), TTLConfig.NONE());
      return null;
    }
    StateStore store = storeOf(handle);
    store.createColFamilyIfAbsent(name, KEY, BYTES, new PrefixKeyScanStateEncoderSpec(KEY, 1), false, false);
    return new BucketState(store, name);
  }

  private static StateStore storeOf(StatefulProcessorHandle handle) {
    try {
      Field store = StatefulProcessorHandleImpl.class.getDeclaredField("store");
      store.setAccessible(true);
      return (StateStore) store.get(handle);
    } catch (ReflectiveOperationException error) {
      throw new IllegalStateException("this Spark has its state elsewhere", error);
    }
  }

  /** Which bucket all the others mean. */
  void enter(int number) { bucket = number; }

  byte[] get(byte[] bytes) {
    UnsafeRow found = store.get(rowOf(bytes), name);
    return found == null ? null : found.getBinary(0);
  }

  void put(byte[] bytes, byte[] content) {
    value.reset();
    value.zeroOutNullBytes();
    value.write(0, content);
    store.put(rowOf(bytes), value.getRow(), name);
  }

  void remove(byte[] bytes) { store.remove(rowOf(bytes), name); }

  /** Takes a key and what is kept under it. */
  interface Entries {
    void entry(byte[] bytes, byte[] content);
  }

  void each(Entries entries) {
    prefix.reset();
    prefix.zeroOutNullBytes();
    writeBucket(prefix, prefixBucket);
    var found = store.prefixScan(prefix.getRow(), name);
    try {
      while (found.hasNext()) {
        var pair = found.next();
        entries.entry(pair.key().getStruct(1, 1).getBinary(0), pair.value().getBinary(0));
      }
    } finally {
      found.close();
    }
  }

  private UnsafeRow rowOf(byte[] bytes) {
    key.reset();
    key.zeroOutNullBytes();
    writeBucket(key, keyBucket);
    int at = key.cursor();
    keyBytes.resetRowWriter();
    keyBytes.write(0, bytes);
    key.setOffsetAndSizeFromPreviousCursor(1, at);
    return key.getRow();
  }

  private void writeBucket(UnsafeRowWriter row, UnsafeRowWriter nested) {
    int at = row.cursor();
    nested.resetRowWriter();
    nested.write(0, bucket);
    row.setOffsetAndSizeFromPreviousCursor(0, at);
  }
}
