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
  close(): void;
}

export async function createPostgresProxy(serverUrl: string): Promise<PostgresProxy> {
  const { hostname, port } = new URL(serverUrl);
  let armed: { statement: string; done: () => void } | undefined;
  const sockets = new Set<net.Socket>();
  const server = net.createServer((client) => {
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
    close() {
      server.close();
      for (const socket of sockets) {
        socket.destroy();
      }
    },
  };
}
