import { connect, createServer, type Server, type Socket } from "node:net";

/** A TCP server on 127.0.0.1 that does to each connection what the test says. */
export interface TcpPeer {
  readonly port: number;
  /** Connections so far. */
  readonly accepted: () => number;
  stop(): Promise<void>;
}

export async function tcpPeer(serve: (socket: Socket) => void): Promise<TcpPeer> {
  const sockets = new Set<Socket>();
  let accepted = 0;
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    accepted += 1;
    sockets.add(socket);
    socket.on("error", () => {}); // Peers are cut off at will here.
    socket.on("close", () => sockets.delete(socket));
    serve(socket);
  });
  const port = await listen(server);
  return {
    port,
    accepted: () => accepted,
    async stop() {
      for (const socket of sockets) {
        socket.destroy();
      }
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

async function listen(server: Server): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  if (address === null || typeof address === "string") {
    throw new Error("the peer has no port");
  }
  return address.port;
}

/** A proxy's knobs, to be turned while it runs. */
export interface ProxyKnobs {
  /** Nothing goes through any more, and nobody is told: a dead cable. */
  stalled?: boolean;
  /** Only what the client says is lost. */
  deaf?: boolean;
  /** What one side ends stays open for the other. */
  keepsOpen?: boolean;
  /** Pieces longer than this vanish: a path whose MTU nobody knows. */
  longestPiece?: number;
  /** Each way, in milliseconds. */
  delayMs?: number;
}

/** What gets through. A short identification may have been read in one piece with the long message behind it. */
function shortEnough(piece: Buffer, longest = Number.POSITIVE_INFINITY): Buffer {
  if (piece.length <= longest) {
    return piece;
  }
  return piece.subarray(0, piece.indexOf("SSH-") === 0 ? piece.indexOf("\n") + 1 : 0);
}

/** A TCP proxy in front of a real server. */
export async function tcpProxy(
  port: number,
  knobs: ProxyKnobs = {},
): Promise<TcpPeer & { knobs: ProxyKnobs; reset(): void; clientBytes(): number }> {
  const clients = new Set<Socket>();
  let clientBytes = 0;
  const peer = await tcpPeer((client) => {
    const server = connect({ port, host: "127.0.0.1", noDelay: true });
    client.setNoDelay(true);
    server.on("error", () => client.destroy());
    clients.add(client);
    const pump = (from: Socket, to: Socket, count: (bytes: number) => void): void => {
      from.on("data", (piece) => {
        count(piece.length);
        if (knobs.stalled || (knobs.deaf && from === client)) {
          return;
        }
        const passed = shortEnough(piece, knobs.longestPiece);
        if (knobs.delayMs === undefined) {
          to.write(passed);
        } else {
          setTimeout(() => to.write(passed), knobs.delayMs);
        }
      });
      from.on("end", () => {
        if (!knobs.stalled && !knobs.keepsOpen) {
          to.end();
        }
      });
      from.on("close", () => {
        if (!knobs.stalled) {
          to.destroy();
        }
      });
    };
    pump(client, server, (bytes) => {
      clientBytes += bytes;
    });
    pump(server, client, () => {});
  });
  return {
    ...peer,
    knobs,
    clientBytes: () => clientBytes,
    reset() {
      for (const client of clients) {
        client.resetAndDestroy();
      }
    },
  };
}
