import {
  chmodSync,
  closeSync,
  constants,
  fchmodSync,
  fstatSync,
  ftruncateSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readSync,
  renameSync,
  rmdirSync,
  type Stats,
  statSync,
  truncateSync,
  unlinkSync,
  writeSync,
} from "node:fs";
import path from "node:path";
import ssh2, { type Attributes, type SFTPWrapper } from "ssh2";
import { inMachine, type Machine } from "./machine.js";

const { OPEN_MODE, STATUS_CODE } = ssh2.utils.sftp;

/** The longest answer to READ, in bytes: what OpenSSH's server gives, too. */
const LONGEST_READ = 256 * 1024;

const STATUS_OF: Readonly<Record<string, number>> = {
  ENOENT: STATUS_CODE.NO_SUCH_FILE,
  ENOTDIR: STATUS_CODE.NO_SUCH_FILE,
  EACCES: STATUS_CODE.PERMISSION_DENIED,
  EPERM: STATUS_CODE.PERMISSION_DENIED,
};

type Open =
  | { readonly kind: "file"; readonly fd: number; readonly path: string; written: number }
  | { readonly kind: "folder"; readonly path: string; listed: boolean };

/**
 * SFTP version 3 over the machine's folder: what uploads use, and enough besides for `sftp` by hand to look
 * around. Synchronous, so that requests take effect in the order in which they came.
 *
 * @param onUploaded called for a file that was written and closed
 */
export function serveFiles(
  sftp: SFTPWrapper,
  machine: Machine,
  onUploaded: (file: { readonly path: string; readonly bytes: number }) => void,
): void {
  const open = new Map<number, Open>();
  let nextHandle = 0;
  const place = (name: string) => inMachine(machine, name);
  const full = machine.plan.fault === "full-disk";

  /** Carries a request out; what the file system throws becomes the answer. */
  const answer = (id: number, act: () => void): void => {
    try {
      act();
    } catch (error) {
      const code = error instanceof Error && "code" in error ? String(error.code) : "";
      sftp.status(id, STATUS_OF[code] ?? STATUS_CODE.FAILURE);
    }
  };
  const done = (id: number, act: () => void): void =>
    answer(id, () => {
      act();
      sftp.status(id, STATUS_CODE.OK);
    });
  const handleFor = (entry: Open): Buffer => {
    const handle = Buffer.alloc(4);
    handle.writeUInt32BE(nextHandle);
    open.set(nextHandle++, entry);
    return handle;
  };
  const opened = <Kind extends Open["kind"]>(handle: Buffer, kind: Kind) => {
    const entry = open.get(handle.length === 4 ? handle.readUInt32BE(0) : -1);
    if (entry?.kind !== kind) {
      throw new Error("no such handle");
    }
    return entry as Extract<Open, { kind: Kind }>;
  };

  sftp.on("OPEN", (id, name, flags, attributes) =>
    answer(id, () => {
      const fd = openSync(place(name), openFlags(flags), attributes.mode ?? 0o644);
      sftp.handle(id, handleFor({ kind: "file", fd, path: name, written: 0 }));
    }),
  );
  sftp.on("WRITE", (id, handle, offset, data) =>
    done(id, () => {
      const file = opened(handle, "file");
      if (full) {
        throw new Error("no space left: OpenSSH says no more than Failure, either");
      }
      writeSync(file.fd, data, 0, data.length, offset);
      file.written += data.length;
    }),
  );
  sftp.on("READ", (id, handle, offset, length) =>
    answer(id, () => {
      const data = Buffer.alloc(Math.min(length, LONGEST_READ));
      const read = readSync(opened(handle, "file").fd, data, 0, data.length, offset);
      if (read === 0) {
        sftp.status(id, STATUS_CODE.EOF);
      } else {
        sftp.data(id, data.subarray(0, read));
      }
    }),
  );
  sftp.on("CLOSE", (id, handle) =>
    done(id, () => {
      const entry = open.get(handle.readUInt32BE(0));
      open.delete(handle.readUInt32BE(0));
      if (entry?.kind === "file") {
        closeSync(entry.fd);
        if (entry.written > 0) {
          onUploaded({ path: entry.path, bytes: entry.written });
        }
      }
    }),
  );
  sftp.on("OPENDIR", (id, name) =>
    answer(id, () => {
      readdirSync(place(name));
      sftp.handle(id, handleFor({ kind: "folder", path: place(name), listed: false }));
    }),
  );
  sftp.on("READDIR", (id, handle) =>
    answer(id, () => {
      const folder = opened(handle, "folder");
      if (folder.listed) {
        sftp.status(id, STATUS_CODE.EOF);
        return;
      }
      folder.listed = true;
      sftp.name(
        id,
        readdirSync(folder.path).map((filename) => {
          const stats = lstatSync(path.join(folder.path, filename));
          return { filename, longname: longName(filename, stats), attrs: attributesOf(stats) };
        }),
      );
    }),
  );
  sftp.on("REALPATH", (id, name) => {
    // Relative names begin where a login does.
    const absolute = path.posix.resolve("/root", name);
    sftp.name(id, [{ filename: absolute, longname: absolute, attrs: {} as Attributes }]);
  });
  sftp.on("STAT", (id, name) =>
    answer(id, () => sftp.attrs(id, attributesOf(statSync(place(name))))),
  );
  sftp.on("LSTAT", (id, name) =>
    answer(id, () => sftp.attrs(id, attributesOf(lstatSync(place(name))))),
  );
  sftp.on("FSTAT", (id, handle) =>
    answer(id, () => sftp.attrs(id, attributesOf(fstatSync(opened(handle, "file").fd)))),
  );
  sftp.on("SETSTAT", (id, name, { mode, size }) =>
    done(id, () => {
      if (size !== undefined) truncateSync(place(name), size);
      if (mode !== undefined) chmodSync(place(name), mode & 0o7777);
    }),
  );
  sftp.on("FSETSTAT", (id, handle, { mode, size }) =>
    done(id, () => {
      const { fd } = opened(handle, "file");
      if (size !== undefined) ftruncateSync(fd, size);
      if (mode !== undefined) fchmodSync(fd, mode & 0o7777);
    }),
  );
  sftp.on("MKDIR", (id, name) => done(id, () => mkdirSync(place(name))));
  sftp.on("RMDIR", (id, name) => done(id, () => rmdirSync(place(name))));
  sftp.on("REMOVE", (id, name) => done(id, () => unlinkSync(place(name))));
  sftp.on("RENAME", (id, from, to) => done(id, () => renameSync(place(from), place(to))));
  // The client's end of input is the end of the server: a worker waits for that before it goes on.
  sftp.on("end", () => sftp.end());
  sftp.on("close", () => {
    for (const entry of open.values()) {
      if (entry.kind === "file") {
        closeSync(entry.fd);
      }
    }
    open.clear();
  });
}

/** What OPEN asks for, in the system's own flags. */
function openFlags(asked: number): number {
  const has = (flag: number) => (asked & flag) !== 0;
  const access = has(OPEN_MODE.WRITE)
    ? has(OPEN_MODE.READ)
      ? constants.O_RDWR
      : constants.O_WRONLY
    : constants.O_RDONLY;
  return (
    access |
    (has(OPEN_MODE.APPEND) ? constants.O_APPEND : 0) |
    (has(OPEN_MODE.CREAT) ? constants.O_CREAT : 0) |
    (has(OPEN_MODE.TRUNC) ? constants.O_TRUNC : 0) |
    (has(OPEN_MODE.EXCL) ? constants.O_EXCL : 0)
  );
}

function attributesOf(stats: Stats): Attributes {
  const { mode, uid, gid, size, atimeMs, mtimeMs } = stats;
  return {
    mode,
    uid,
    gid,
    size,
    atime: Math.floor(atimeMs / 1000),
    mtime: Math.floor(mtimeMs / 1000),
  };
}

/** What `ls -l` would say, roughly: clients show it to people. */
function longName(name: string, stats: Stats): string {
  const kind = stats.isDirectory() ? "d" : "-";
  const rights = (stats.mode & 0o777).toString(8).padStart(3, "0");
  return `${kind} ${rights} ${String(stats.size).padStart(10)} ${name}`;
}
