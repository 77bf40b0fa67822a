#!/usr/bin/env node
/**
 * The reference agent: what a program must do that a takeover starts on a machine. One file, with Node's own
 * modules alone, so that its compiled form can be given as `--agent-executable-path` as it is, and copied.
 *
 * 1. Read one TakeoverInit from standard input, to its end.
 * 2. Make an Ed25519 key pair, and keep the private key where only its owner can read it: beside this file,
 *    with `.key` added, PKCS#8 in PEM.
 * 3. Stay behind as a process of its own that holds none of the three streams: the worker, like every SSH
 *    client, waits for their end. A real agent would start its work there, or replace the running system.
 * 4. Write one TakeoverResponse to standard output: the init exactly as it came, and the public key.
 *
 * Whoever stays behind lives as long as its key: it ends within a second once the key's file is removed or
 * replaced, which is what a later takeover of the machine does, and on SIGTERM.
 *
 * It exits 0 when it answered, with a key or with an error that says why it could not start (an exit code
 * would end the attempt before the answer is read), and 1 when it could not even answer; standard error then
 * says why. The wire format is protobuf's, see proto/takeover.proto; the few lines of it that an agent
 * needs are written out below.
 */
import { spawn } from "node:child_process";
import { generateKeyPairSync } from "node:crypto";
import { renameSync, statSync, writeFileSync } from "node:fs";

const LONGEST_INIT = 256 * 1024;
const LOOK_EVERY_MS = 1000;
const STAY = "--stay";

/** Field numbers of the messages; all fields are text or bytes. */
const INIT = { provider: 1, providerId: 2, machineId: 4, nonce: 6 };
const RESPONSE = { initMessage: 1, key: 2, error: 4 };

/** Something about the init that keeps the agent from starting: told to the worker, not thrown at it. */
class BadInit extends Error {}

const [, self = "", mode, keyStamp = ""] = process.argv;
const keyFile = `${self}.key`;

if (mode === STAY) {
  stay();
} else {
  await start();
}

async function start(): Promise<void> {
  let answer: Buffer;
  try {
    const init = await readInit();
    const publicKey = makeKey();
    await leaveBehind();
    answer = Buffer.concat([field(RESPONSE.initMessage, init), field(RESPONSE.key, publicKey)]);
  } catch (error) {
    if (!(error instanceof BadInit)) {
      throw error; // Node prints it to standard error and exits 1.
    }
    answer = field(RESPONSE.error, Buffer.from(error.message));
  }
  process.stdout.write(answer);
}

/** The init's bytes, which are echoed as they are: that includes fields this agent has never heard of. */
async function readInit(): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of process.stdin) {
    size += chunk.length;
    if (size > LONGEST_INIT) {
      throw new BadInit(`the init has more than ${LONGEST_INIT} bytes`);
    }
    chunks.push(chunk);
  }
  const init = Buffer.concat(chunks);
  const fields = readFields(init);
  for (const [name, number] of Object.entries(INIT)) {
    if (!fields.get(number)?.length) {
      throw new BadInit(`the init has no ${name} (field ${number})`);
    }
  }
  return init;
}

/** Makes the key pair, puts the private key away and gives the public one: 32 bytes. */
function makeKey(): Buffer {
  const { privateKey, publicKey } = generateKeyPairSync("ed25519");
  // In one move: whoever reads the file sees the old key or the new one, never half of one.
  const written = `${keyFile}.${process.pid}`;
  writeFileSync(written, privateKey.export({ type: "pkcs8", format: "pem" }), {
    mode: 0o600,
    flag: "wx",
  });
  renameSync(written, keyFile);
  // The last 32 bytes of the DER form, RFC 8410, section 4.
  return publicKey.export({ type: "spki", format: "der" }).subarray(-32);
}

/** Starts this same file anew, in a session of its own and without our streams. */
function leaveBehind(): Promise<void> {
  const child = spawn(process.execPath, [self, STAY, stampOf(keyFile)], {
    cwd: "/",
    detached: true,
    stdio: "ignore",
  });
  child.unref();
  return new Promise((resolve, reject) => {
    child.once("spawn", resolve);
    child.once("error", reject);
  });
}

function stay(): void {
  setInterval(() => {
    if (stampOf(keyFile) !== keyStamp) {
      process.exit(0);
    }
  }, LOOK_EVERY_MS);
}

/** Tells one key file from the next of the same name. */
function stampOf(file: string): string {
  const stats = statSync(file, { throwIfNoEntry: false });
  return stats === undefined ? "gone" : `${stats.ino}-${stats.mtimeMs}`;
}

/** One field of bytes: its number and wire type 2 in a byte, the length as a varint, the bytes. */
function field(number: number, content: Buffer): Buffer {
  const length: number[] = [];
  let rest = content.length;
  for (; rest > 127; rest >>>= 7) {
    length.push((rest & 127) | 128);
  }
  return Buffer.concat([Buffer.from([(number << 3) | 2, ...length, rest]), content]);
}

/** The fields of a message by number. Every field of a TakeoverInit has wire type 2. */
function readFields(message: Buffer): Map<number, Buffer> {
  const fields = new Map<number, Buffer>();
  let at = 0;
  const varint = (): number => {
    let value = 0;
    for (let factor = 1; ; factor *= 128) {
      const byte = message[at++];
      if (byte === undefined || factor > 2 ** 42) {
        throw new BadInit("the init is no protobuf message");
      }
      value += (byte & 127) * factor;
      if (byte < 128) {
        return value;
      }
    }
  };
  while (at < message.length) {
    const tag = varint();
    const length = varint();
    if (tag % 8 !== 2 || length > message.length - at) {
      throw new BadInit("the init is no TakeoverInit");
    }
    fields.set(Math.floor(tag / 8), message.subarray(at, at + length));
    at += length;
  }
  return fields;
}
