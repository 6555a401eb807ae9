package io.penstock.join;

import java.util.Arrays;

/** Bytes as keys of maps, and small numbers as bytes. */
final class Bytes {
  private Bytes() {}

  /** Bytes as a key of a map. */
  static final class Key {
    final byte[] bytes;
    private final int hash;

    Key(byte[] bytes) {
      this.bytes = bytes;
      hash = Arrays.hashCode(bytes);
    }

    @Override public int hashCode() { return hash; }

    @Override public boolean equals(Object other) {
      return other instanceof Key k && k.hash == hash && Arrays.equals(k.bytes, bytes);
    }
  }

  /** Reads what Out wrote. */
  static final class In {
    final byte[] bytes;
    int at;

    In(byte[] bytes) { this.bytes = bytes; }

    boolean more() { return at < bytes.length; }

    int octet() { return bytes[at++] & 255; }

    int count() { return (int) number(); }

    long number() {
      long value = 0;
      for (int shift = 0; ; shift += 7) {
        int octet = bytes[at++];
        value |= (long) (octet & 127) << shift;
        if (octet >= 0) return value;
      }
    }

    byte[] take(int length) {
      at += length;
      return Arrays.copyOfRange(bytes, at - length, at);
    }

    byte[] rest() { return take(bytes.length - at); }
  }

  /** Bytes that grow: numbers as varints, or little-endian where they make columns. */
  static final class Out {
    byte[] bytes = new byte[256];
    int length;

    private void room(int more) {
      if (length + more > bytes.length) bytes = Arrays.copyOf(bytes, Math.max(bytes.length * 2, length + more));
    }

    void octet(int value) {
      room(1);
      bytes[length++] = (byte) value;
    }

    void int32(int value) {
      room(4);
      bytes[length] = (byte) value;
      bytes[length + 1] = (byte) (value >> 8);
      bytes[length + 2] = (byte) (value >> 16);
      bytes[length + 3] = (byte) (value >> 24);
      length += 4;
    }

    void int64(long value) {
      int32((int) value);
      int32((int) (value >> 32));
    }

    void number(long value) {
      while ((value & ~127L) != 0) {
        octet((int) (value & 127 | 128));
        value >>>= 7;
      }
      octet((int) value);
    }

    void put(byte[] more) { put(more, 0, more.length); }

    void put(Out more) { put(more.bytes, 0, more.length); }

    void put(byte[] more, int from, int until) {
      room(until - from);
      System.arraycopy(more, from, bytes, length, until - from);
      length += until - from;
    }

    byte[] done() { return Arrays.copyOf(bytes, length); }
  }
}
