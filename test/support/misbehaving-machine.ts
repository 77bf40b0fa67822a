import type { Socket } from "node:net";
import ssh2, { type Connection, type ServerChannel, type Session, type SFTPWrapper } from "ssh2";
import { furnish, type Machine } from "../../src/demo/machine.js";
import { serveFiles } from "../../src/demo/machine-files.js";
import { runCommand } from "../../src/demo/machine-shell.js";
import { GUARD, INSTALL, PREPARE, RECEIVE } from "../../src/takeover/upload-scripts.js";
import type { Random } from "../chaos/random.js";
import { MisbehavingWire } from "./misbehaving-wire.js";
import { isWireKind, type Kind, type Misbehaviour, type Stage } from "./misbehaviour.js";
import { noise, oddMessages, protocolOf, sendMessage } from "./odd-messages.js";

/** A flood is so many bytes, so often: in one process the other peers must live, too. */
const FLOOD = Buffer.alloc(16 * 1024, "flood ");
const FLOOD_REPLIES = 20;
const FLOOD_EVERY_MS = 10;
const DRIP_EVERY_MS = 20;

const { STATUS_CODE } = ssh2.utils.sftp;

/** The SSH server of a machine that works, save for what it is told to do wrong in the next connection. */
export class MisbehavingMachine {
  readonly machine: Machine;
  readonly #hostKey: string;
  readonly #sftp: boolean;
  readonly #random: Random;
  readonly #wires = new Set<MisbehavingWire>();
  #next: Misbehaviour | null = null;

  constructor(machine: Machine, hostKey: string, sftp: boolean, random: Random) {
    this.machine = machine;
    this.#hostKey = hostKey;
    this.#sftp = sftp;
    this.#random = random;
    furnish(machine);
  }

  /** What goes wrong from now on, in each connection. */
  arm(misbehaviour: Misbehaviour | null): void {
    this.#next = misbehaviour;
  }

  /** Connections that are open. */
  get connections(): number {
    return this.#wires.size;
  }

  serve(socket: Socket): void {
    const wire = new MisbehavingWire(socket, this.#random);
    this.#wires.add(wire);
    wire.on("error", () => {}); // "close" follows.
    wire.on("close", () => this.#wires.delete(wire));
    let client: Connection | undefined;
    const visit = new Visit(this.#next, wire, () => client, this.#random);
    const server = new ssh2.Server({ hostKeys: [this.#hostKey] }, (connection) => {
      client = connection;
      this.#serveConnection(connection, visit);
    });
    visit.begin();
    server.injectSocket(wire as never);
  }

  #serveConnection(client: Connection, visit: Visit): void {
    client.on("error", () => {}); // Clients hang up in the middle of things; "close" follows.
    client.on("authentication", (login) => {
      // The question whether the key would do and the login itself are one stage.
      visit.reach("authentication", {
        refuse: () => login.reject(["publickey"]),
        go: () => (login.method === "publickey" ? login.accept() : login.reject(["publickey"])),
      });
    });
    client.on("session", (accept, reject) => {
      visit.reach("channel", { refuse: reject, go: () => this.#serveSession(accept(), visit) });
    });
  }

  #serveSession(session: Session, visit: Visit): void {
    session.on("exec", (accept, reject, { command }) => {
      const name = nameOf(command);
      const run = (): void => {
        const channel = accept();
        channel.on("error", () => {}); // Its "close" tells all that matters.
        visit.attend(name, channel);
        runCommand(this.machine, command, channel, 0).catch(() => channel.close());
      };
      if (name === "other") {
        run();
      } else {
        visit.reach(name, { refuse: reject, go: run });
      }
    });
    session.on("sftp", (accept, reject) => {
      if (!this.#sftp) {
        reject();
        return;
      }
      visit.reach("sftp", {
        refuse: reject,
        go: () => {
          const sftp = accept();
          visit.attendFiles(sftp);
          serveFiles(sftp, this.machine, () => {});
        },
      });
    });
  }
}

type CommandName = "prepare" | "guard" | "install" | "receive" | "agent" | "other";

function nameOf(line: string): CommandName {
  if (line.includes(RECEIVE)) return "receive";
  if (line.includes(INSTALL)) return "install";
  if (line.includes(PREPARE)) return "prepare";
  if (line.includes(GUARD)) return "guard";
  return line.includes('shift 2; exec "$1"') ? "agent" : "other";
}

/** One connection, and the one thing that goes wrong in it. */
class Visit {
  readonly #misbehaviour: Misbehaviour | null;
  readonly #wire: MisbehavingWire;
  readonly #client: () => Connection | undefined;
  readonly #random: Random;
  #passed = 0;
  #done = false;

  constructor(
    misbehaviour: Misbehaviour | null,
    wire: MisbehavingWire,
    client: () => Connection | undefined,
    random: Random,
  ) {
    this.#misbehaviour = misbehaviour;
    this.#wire = wire;
    this.#client = client;
    this.#random = random;
  }

  /** What is a matter of bytes alone. */
  begin(): void {
    const { stage = null, after = 0 } = this.#misbehaviour ?? {};
    if (stage === "connected") {
      this.reach("connected", {});
    } else if (stage === "so many bytes in") {
      this.#wire.after("in", after, () => this.#strike());
    } else if (
      stage === "identification" ||
      stage === "key exchange" ||
      stage === "so many bytes out"
    ) {
      this.#wire.after("out", after, () => this.#strike());
    }
  }

  /** Does what goes wrong at this stage, in place of `go` where that is how it goes wrong. */
  reach(stage: Stage, { refuse, go }: { refuse?: () => unknown; go?: () => unknown }): void {
    if (!this.#isDue(stage)) {
      go?.();
      return;
    }
    const kind = this.#misbehaviour?.kind;
    if (kind === "silence") {
      this.#done = true;
    } else if (kind === "refuse") {
      this.#done = true;
      refuse?.();
    } else {
      this.#strike();
      go?.();
    }
  }

  /** Has a command go wrong in what it writes and how it ends. */
  attend(name: CommandName, channel: ServerChannel): void {
    const write = ownWrite(channel);
    let writes = 0;
    const stages: Partial<Record<CommandName, readonly Stage[]>> = {
      prepare: ["prepare answers"],
      receive: ["receive answers"],
      install: ["install answers"],
      agent: ["marker", "reply"],
    };
    channel.write = ((data: Buffer | string) => {
      const stage = stages[name]?.[writes++];
      if (stage !== undefined && this.#isDue(stage)) {
        this.#goWrong(channel);
      }
      return channel.write === spoiled ? write(data) : channel.write(data);
    }) as never;
    const spoiled = channel.write;
    if (name === "agent") {
      const own = ownEnd(channel);
      channel.exit = ((status: number) => {
        if (this.#isDue("exit status")) {
          this.#goWrong(channel);
        } else {
          own.exit(status);
        }
      }) as never;
      channel.end = (() => {
        if (this.#isDue("end of agent")) {
          this.#strike();
        }
        own.end();
      }) as never;
    }
    if (name === "guard" && this.#isDue("guard runs")) {
      setImmediate(() => this.#goWrong(channel));
    }
  }

  /** Has the SFTP server go wrong. */
  attendFiles(sftp: SFTPWrapper): void {
    const emit = sftp.emit.bind(sftp) as (event: string, ...rest: unknown[]) => boolean;
    const stages: Readonly<Record<string, Stage>> = {
      OPEN: "create",
      WRITE: "write",
      CLOSE: "close file",
      end: "end of sftp",
    };
    sftp.emit = ((event: string, ...rest: unknown[]) => {
      const stage = stages[event];
      if (stage === undefined || !this.#isDue(stage)) {
        return emit(event, ...rest);
      }
      const id = typeof rest[0] === "number" ? rest[0] : 0;
      return this.#answerOddly(sftp, id) || emit(event, ...rest);
    }) as never;
  }

  /** Gives whether the request is done with. */
  #answerOddly(sftp: SFTPWrapper, id: number): boolean {
    const raw = (data: Buffer): void => {
      const { outgoing } = sftp as unknown as { outgoing: { id: number } };
      protocolOf(this.#client()).channelData(outgoing.id, data);
    };
    this.#done = true;
    switch (this.#misbehaviour?.kind) {
      case "refuse":
        sftp.status(id, this.#random.pick([3, 4, 8, 99]));
        return true;
      case "silence":
        return true;
      case "odd reply":
        raw(oddReply(id, this.#random));
        return true;
      case "garbage reply":
        raw(noise(1 + this.#random.below(300), this.#random));
        return true;
      case "reply flood":
        this.#every(FLOOD_EVERY_MS, () => {
          for (let n = 0; n < FLOOD_REPLIES; n++) {
            sftp.status(2 ** 31 + n, STATUS_CODE.OK);
          }
        });
        return true;
      default:
        this.#strike();
        return false;
    }
  }

  #isDue(stage: Stage): boolean {
    const { stage: due, after = 0 } = this.#misbehaviour ?? {};
    return stage === due && !this.#done && this.#passed++ >= after;
  }

  /** What goes wrong with the connection as a whole. */
  #strike(): void {
    const kind = this.#misbehaviour?.kind;
    this.#done = true;
    if (kind === "odd messages") {
      for (const message of oddMessages(this.#random)) {
        sendMessage(this.#client(), message);
      }
    } else if (kind !== undefined && isWireKind(kind)) {
      this.#wire.goWrong(kind);
    }
  }

  /** What goes wrong with one command. */
  #goWrong(channel: ServerChannel): void {
    const kind: Kind | undefined = this.#misbehaviour?.kind;
    this.#done = true;
    const write = ownWrite(channel);
    const { exit, end } = ownEnd(channel);
    const mute = (): void => {
      channel.write = (() => true) as never;
      channel.exit = (() => {}) as never;
      channel.end = (() => channel) as never;
    };
    switch (kind) {
      case "odd output":
        write(noise(this.#random.below(3000), this.#random));
        break;
      case "output flood":
        mute();
        this.#every(FLOOD_EVERY_MS, () => channel.writableLength < FLOOD.length && write(FLOOD));
        break;
      case "error flood":
        this.#every(
          FLOOD_EVERY_MS,
          () => channel.stderr.writableLength < FLOOD.length && channel.stderr.write(FLOOD),
        );
        break;
      case "output drip": {
        const dripping: Buffer[] = [];
        mute();
        channel.write = ((data: Buffer | string) => dripping.push(Buffer.from(data))) as never;
        this.#every(DRIP_EVERY_MS, () => {
          const [first] = dripping;
          if (first !== undefined) {
            write(first.subarray(0, 1));
            dripping.splice(0, 1, ...(first.length > 1 ? [first.subarray(1)] : []));
          }
        });
        break;
      }
      case "close":
        mute();
        channel.close();
        break;
      case "exit 3":
        exit(3);
        end();
        mute();
        break;
      case "signal":
        exit("KILL");
        end();
        mute();
        break;
      case "silence":
        mute();
        break;
      default:
        this.#strike();
    }
  }

  #every(ms: number, act: () => unknown): void {
    if (this.#wire.destroyed) {
      return; // The client has gone before it came to this.
    }
    const timer = setInterval(act, ms);
    this.#wire.once("close", () => clearInterval(timer));
  }
}

/** The channel's own methods, whatever stands before them by now. */
function ownWrite(channel: ServerChannel): (data: Buffer | string) => boolean {
  const { write } = Object.getPrototypeOf(channel) as { write(data: unknown): boolean };
  return (data) => write.call(channel, data);
}

function ownEnd(channel: ServerChannel) {
  const own = Object.getPrototypeOf(channel) as { exit(how: unknown): void; end(): void };
  return {
    exit: (how: number | string) => own.exit.call(channel, how),
    end: () => own.end.call(channel),
  };
}

/** A reply to request `id` that is a packet of SFTP, and not what was asked for. */
function oddReply(id: number, random: Random): Buffer {
  const type = random.pick([2, 101, 102, 103, 104, 105, 201, 0, 255]);
  const rest = noise(random.below(12), random);
  const packet = Buffer.alloc(4 + 5 + rest.length);
  packet.writeUInt32BE(5 + rest.length, 0);
  packet[4] = type;
  packet.writeUInt32BE(random.below(4) === 0 ? random.below(100) : id, 5);
  packet.set(rest, 9);
  return packet;
}
