package io.penstock.join;

import java.io.BufferedOutputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.Serializable;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.InternalRow;
import scala.collection.Iterator;
import scala.runtime.AbstractFunction2;

/**
 * Blocks of a task go to a file as they come, each behind its length (4 bytes, the highest first), so that no memory has to
 * hold them. Gives the file's path, or nothing where there is no block.
 */
final class BlockFiles extends AbstractFunction2<TaskContext, Iterator<InternalRow>, String> implements Serializable {
  private final String folder;

  BlockFiles(String folder) { this.folder = folder; }

  @Override public String apply(TaskContext task, Iterator<InternalRow> rows) {
    if (!rows.hasNext()) return "";
    Path file = Path.of(folder, task.partitionId() + "-" + task.taskAttemptId());
    try (var out = new DataOutputStream(new BufferedOutputStream(Files.newOutputStream(file), 1 << 16))) {
      while (rows.hasNext()) {
        byte[] block = rows.next().getBinary(0);
        out.writeInt(block.length);
        out.write(block);
      }
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
    return file.toString();
  }
}
