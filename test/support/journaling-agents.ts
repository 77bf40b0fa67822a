import { chmod, writeFile } from "node:fs/promises";

/**
 * An agent as somebody else would write it: a script that knows the wire format by heart. It does what the
 * machine's provider id says, and writes down when it began and ended.
 *
 * - `exits`: exit 3 with words on standard error
 * - `rubbish`: an answer that is no protobuf
 * - `other`: an answer for another machine
 * - `slow…`: waits 60 s before it answers
 * - anything else: answers, and leaves a child behind that holds its streams
 */
export async function writeNodeAgent(file: string, journal: string): Promise<void> {
  await writeFile(
    file,
    `#!${process.execPath}
const { appendFileSync, writeSync } = require("node:fs");
const { spawn } = require("node:child_process");
const { generateKeyPairSync } = require("node:crypto");
const init = require("node:fs").readFileSync(0);
const fields = new Map();
for (let at = 0; at < init.length; ) {
  const tag = init[at++];
  let length = 0;
  for (let shift = 0; ; shift += 7) {
    const byte = init[at++];
    length |= (byte & 127) << shift;
    if (byte < 128) break;
  }
  fields.set(tag >> 3, init.subarray(at, (at += length)));
}
const providerId = String(fields.get(2));
const machineId = String(fields.get(4));
const note = (what) => appendFileSync(${JSON.stringify(journal)}, what + " " + machineId + " " + process.hrtime.bigint() + "\\n");
const varint = (n) => (n < 128 ? [n] : [(n & 127) | 128, ...varint(n >> 7)]);
const field = (number, bytes) => Buffer.concat([Buffer.from([(number << 3) | 2, ...varint(bytes.length)]), bytes]);
note("begin");
const answer = () => {
  const key = generateKeyPairSync("ed25519").publicKey.export({ type: "spki", format: "der" }).subarray(-32);
  let echo = init;
  if (providerId === "other") {
    echo = Buffer.from(init);
    echo.set(Buffer.from("another-machine-altogether".padEnd(36, "!")), init.indexOf(machineId));
  }
  note("key:" + key.toString("hex"));
  writeSync(1, Buffer.concat([field(1, echo), field(2, key)]));
  note("end");
};
if (providerId === "exits") {
  process.stderr.write("no license for this machine\\n");
  note("end");
  process.exitCode = 3;
} else if (providerId === "rubbish") {
  writeSync(1, "Segmentation fault");
  note("end");
} else if (providerId.startsWith("slow")) {
  setTimeout(answer, 60_000);
} else {
  const child = spawn("sleep", ["300"], { detached: true, stdio: "inherit" });
  child.unref();
  note("child:" + child.pid);
  answer();
  process.exit(0);
}
`,
  );
  await chmod(file, 0o755);
}

/**
 * The same in Perl, which every Debian has, at a fraction of the processor time: one process, which answers the
 * key that lies ready in `keys` under the machine's id. The length of the echoed init is a varint of two bytes.
 */
export async function writeKeyedAgent(file: string, journal: string, keys: string): Promise<void> {
  await writeFile(
    file,
    `#!/usr/bin/perl
undef $/;
$init = <STDIN>;
($machine) = $init =~ /([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})/;
open($journal, ">>", "${journal}");
syswrite($journal, "begin $machine 0\n");
open($key, "<", "${keys}/$machine");
$length = length($init);
print "\x0a", chr($length % 128 + 128), chr($length >> 7), $init, "\x12\x20", <$key>;
syswrite($journal, "end $machine 0\n");
`,
  );
  await chmod(file, 0o755);
}
