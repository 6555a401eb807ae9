package io.penstock.join;

import java.io.IOException;
import java.net.URI;
import java.net.URISyntaxException;
import java.nio.file.Files;
import java.nio.file.attribute.PosixFilePermissions;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.ChecksumFs;
import org.apache.hadoop.fs.DelegateToFileSystem;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FsServerDefaults;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.local.LocalConfigKeys;
import org.apache.hadoop.fs.permission.FsPermission;

/**
 * Local files as Hadoop's own LocalFs has them, with sums beside them. Without its native library that one starts two processes of
 * `chmod` and eight of `readlink` for each file that Spark writes, a hundred for each micro-batch of a join; Java does it by itself.
 */
public final class LocalFiles extends ChecksumFs {
  /** What Hadoop calls. */
  public LocalFiles(URI name, Configuration conf) throws IOException, URISyntaxException {
    super(new Raw(conf));
  }

  private static final class Raw extends DelegateToFileSystem {
    Raw(Configuration conf) throws IOException, URISyntaxException {
      super(URI.create("file:///"), new Permitting(), conf, "file", false);
    }

    @Override public int getUriDefaultPort() { return -1; }

    @Override public boolean isValidName(String name) { return true; }

    @Override public FsServerDefaults getServerDefaults(Path path) throws IOException { return LocalConfigKeys.getServerDefaults(); }
  }

  private static final class Permitting extends RawLocalFileSystem {
    @Override public void setPermission(Path path, FsPermission permission) throws IOException {
      String bits = permission.getUserAction().SYMBOL + permission.getGroupAction().SYMBOL + permission.getOtherAction().SYMBOL;
      Files.setPosixFilePermissions(pathToFile(path).toPath(), PosixFilePermissions.fromString(bits));
    }

    @Override public FileStatus getFileLinkStatus(Path path) throws IOException {
      return Files.isSymbolicLink(pathToFile(path).toPath()) ? super.getFileLinkStatus(path) : getFileStatus(path);
    }
  }
}
