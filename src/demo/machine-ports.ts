import { once } from "node:events";
import net from "node:net";

/** A port that a fleet has. */
export interface Port {
  readonly number: number;
  close(): void;
}

const ADDRESS = "127.0.0.1";

/** The port cannot be had. */
export class PortTaken extends Error {
  override readonly name = "PortTaken";
}

/** Listens on a port, 0 for any that is free. Closing it closes all of its connections. */
export async function listen(port: number, serve: (socket: net.Socket) => void): Promise<Port> {
  const sockets = new Set<net.Socket>();
  const server = net.createServer((socket) => {
    sockets.add(socket);
    socket.setNoDelay(true);
    socket.on("error", () => socket.destroy());
    socket.on("close", () => sockets.delete(socket));
    serve(socket);
  });
  server.listen({ host: ADDRESS, port, backlog: 128 });
  await once(server, "listening").catch((error: NodeJS.ErrnoException) => {
    throw new PortTaken(`port ${port} on ${ADDRESS} cannot be had (${error.code})`);
  });
  return {
    number: (server.address() as net.AddressInfo).port,
    close() {
      server.close();
      for (const socket of sockets) {
        socket.destroy();
      }
    },
  };
}

/**
 * Has a port on which nobody listens, and nobody else will: a connection of our own starts from it, so that
 * the system gives it to no other. Whoever dials it is refused.
 */
export async function occupy(port: number): Promise<Port> {
  const peer = await listen(0, (socket) => socket.resume());
  const socket = net.connect({ host: ADDRESS, port: peer.number, localPort: port });
  try {
    await once(socket, "connect");
  } catch (error) {
    peer.close();
    const code = error instanceof Error && "code" in error ? error.code : error;
    throw new PortTaken(`port ${port} on ${ADDRESS} cannot be had (${code})`);
  }
  socket.on("error", () => {}); // When the fleet ends.
  return {
    number: socket.localPort ?? port,
    close() {
      socket.destroy();
      peer.close();
    },
  };
}
