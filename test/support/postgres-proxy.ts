import { once } from "node:events";
import net from "node:net";

/** A TCP relay before Postgres, to cut a connection at an exact statement. */
export interface PostgresProxy {
  /** `url` with this relay's address. */
  through(url: string): string;
  /**
   * Cuts the next connection that sends `statement`: the server gets it and carries it out, the client
   * never hears. Resolves once cut.
   */
  cutAfter(statement: string): Promise<void>;
  /**
   * Stops the next connection that sends `statement`, before the server gets it or after it has answered:
   * nothing passes on it any more. Resolves once stopped, for the test to do its worst.
   */
  stopAt(statement: string, moment: "before" | "after"): Promise<void>;
  /** As a server that is down: every connection is cut, and new ones are refused. */
  away(): Promise<void>;
  /** As a network that is cut without a word: connections stay, and nothing passes. */
  stall(): void;
  /** Every answer comes so much later. */
  slow(ms: number): void;
  /** All is well again; what was stalled stays so, as packets that were lost. */
  back(): Promise<void>;
  /** Ends what was stalled, as the server's keepalives do in the end. */
  dropStalled(): void;
  close(): void;
}

export async function createPostgresProxy(serverUrl: string): Promise<PostgresProxy> {
  const { hostname, port } = new URL(serverUrl);
  let armed:
    | { statement: string; moment: "before" | "after" | "cut"; done: () => void }
    | undefined;
  const sockets = new Set<net.Socket>();
  const lost = new Set<net.Socket>();
  let stalled = false;
  let slowMs = 0;
  const server = net.createServer((client) => {
    if (stalled) {
      sockets.add(client);
      lost.add(client);
      client.on("error", () => client.destroy());
      client.pause();
      return;
    }
    const upstream = net.connect(Number(port), hostname);
    for (const socket of [client, upstream]) {
      sockets.add(socket);
      socket.on("error", () => socket.destroy());
      socket.on("close", () => sockets.delete(socket));
    }
    let stopped = false;
    let answered = () => {};
    client.on("data", (chunk) => {
      if (stopped) {
        return;
      }
      if (armed === undefined || !chunk.includes(armed.statement)) {
        upstream.write(chunk);
        return;
      }
      const { moment, done } = armed;
      armed = undefined;
      stopped = true;
      if (moment === "before") {
        done();
        return;
      }
      upstream.write(chunk);
      if (moment === "after") {
        answered = done;
      } else {
        client.destroy();
        // The server reads what was sent, answers into the void, and then sees the end.
        upstream.end();
        done();
      }
    });
    upstream.on("data", (chunk) => {
      if (stopped) {
        answered();
      } else if (slowMs > 0) {
        setTimeout(() => client.write(chunk), slowMs);
      } else {
        client.write(chunk);
      }
    });
    client.on("close", () => upstream.end());
    upstream.on("close", () => client.destroy());
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port: own } = server.address() as net.AddressInfo;
  return {
    through(url) {
      const relayed = new URL(url);
      relayed.port = String(own);
      return relayed.href;
    },
    cutAfter: (statement) =>
      new Promise((done) => {
        armed = { statement, moment: "cut", done };
      }),
    stopAt: (statement, moment) =>
      new Promise((done) => {
        armed = { statement, moment, done };
      }),
    async away() {
      const closed = once(server, "close");
      server.close();
      for (const socket of sockets) {
        socket.destroy();
      }
      await closed;
    },
    stall() {
      stalled = true;
      for (const socket of sockets) {
        lost.add(socket);
        socket.pause();
        socket.removeAllListeners("data");
        socket.removeAllListeners("close");
      }
    },
    slow(ms) {
      slowMs = ms;
    },
    async back() {
      stalled = false;
      slowMs = 0;
      if (!server.listening) {
        server.listen(own, "127.0.0.1");
        await once(server, "listening");
      }
    },
    dropStalled() {
      for (const socket of lost) {
        socket.destroy();
      }
    },
    close() {
      server.close();
      for (const socket of sockets) {
        socket.destroy();
      }
    },
  };
}
