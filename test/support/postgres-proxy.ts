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
  /** As a server that is down: every connection is cut, and new ones are refused. */
  away(): Promise<void>;
  /** As a network that is cut without a word: connections stay, and nothing passes. */
  stall(): void;
  /** All is well again; what was stalled stays so, as packets that were lost. */
  back(): Promise<void>;
  close(): void;
}

export async function createPostgresProxy(serverUrl: string): Promise<PostgresProxy> {
  const { hostname, port } = new URL(serverUrl);
  let armed: { statement: string; done: () => void } | undefined;
  const sockets = new Set<net.Socket>();
  let stalled = false;
  const server = net.createServer((client) => {
    if (stalled) {
      sockets.add(client);
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
    client.on("data", (chunk) => {
      upstream.write(chunk);
      if (armed !== undefined && chunk.includes(armed.statement)) {
        const { done } = armed;
        armed = undefined;
        client.destroy();
        // The server reads what was sent, answers into the void, and then sees the end.
        upstream.end();
        upstream.resume();
        done();
      }
    });
    upstream.on("data", (chunk) => client.write(chunk));
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
        armed = { statement, done };
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
        socket.pause();
        socket.removeAllListeners("data");
        socket.removeAllListeners("close");
      }
    },
    async back() {
      stalled = false;
      if (!server.listening) {
        server.listen(own, "127.0.0.1");
        await once(server, "listening");
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
