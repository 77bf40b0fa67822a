import { once } from "node:events";
import net from "node:net";

/** Whether somebody listens on a port of this computer. */
export async function isListening(port: number): Promise<boolean> {
  const socket = net.connect(port, "127.0.0.1");
  try {
    await once(socket, "connect");
    return true;
  } catch {
    return false; // Refused: nobody does.
  } finally {
    socket.destroy();
  }
}

/** A port that is free now; another program may take it before long. */
export async function freePort(): Promise<number> {
  const server = net.createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as net.AddressInfo;
  server.close();
  await once(server, "close");
  return port;
}
