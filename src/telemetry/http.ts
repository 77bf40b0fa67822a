import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { ConfigurationFaults } from "../config/exit.js";
import type { Metrics } from "./metrics.js";

/** An answer to a probe. `why` is one line, for whoever looks at it. */
export interface Health {
  readonly ok: boolean;
  readonly why: string;
}

export interface HttpServer {
  /** The one in use, where 0 was asked for. */
  readonly port: number;
  /** Ends within a second, whatever clients do. */
  close(): Promise<void>;
}

/** Strangers may connect: bounds for what one of them can hold, and for how long. */
const HEADERS_TIMEOUT_MS = 5000;
const REQUEST_TIMEOUT_MS = 10_000;
const KEEP_ALIVE_MS = 5000;
const CHECK_EVERY_MS = 1000;
const MOST_CONNECTIONS = 100;
const LARGEST_HEADERS = 8 * 1024;
const CLOSE_GRACE_MS = 500;

/**
 * Serves `/livez`, `/readyz`, `/healthz` (the same) and `/metrics`. Resolves once it listens; throws
 * ConfigurationFaults if it cannot. `live` and `ready` are asked at every request and must not throw.
 * Port 0 takes any free one.
 */
export async function startHttpServer(options: {
  readonly address: string;
  readonly port: number;
  readonly live: () => Health;
  readonly ready: () => Health;
  readonly metrics: Metrics;
}): Promise<HttpServer> {
  const server = createServer(
    {
      headersTimeout: HEADERS_TIMEOUT_MS,
      requestTimeout: REQUEST_TIMEOUT_MS,
      keepAliveTimeout: KEEP_ALIVE_MS,
      // Node looks for late clients every 30 s, whatever the timeouts say.
      connectionsCheckingInterval: CHECK_EVERY_MS,
      maxHeaderSize: LARGEST_HEADERS,
    },
    (request, response) => {
      respond(request, response, options).catch(() => {
        // The metrics could not be gathered. The scraper learns that; the worker has other work to do.
        send(response, 500, "the metrics could not be gathered\n");
      });
    },
  );
  server.maxConnections = MOST_CONNECTIONS;
  await listen(server, options.address, options.port);
  const bound = server.address();
  return {
    port: typeof bound === "object" && bound !== null ? bound.port : options.port,
    close: () => close(server),
  };
}

async function respond(
  request: IncomingMessage,
  response: ServerResponse,
  options: { live: () => Health; ready: () => Health; metrics: Metrics },
): Promise<void> {
  const probes: Readonly<Record<string, () => Health>> = {
    "/livez": options.live,
    "/readyz": options.ready,
    "/healthz": options.ready,
  };
  const path = (request.url ?? "").split("?")[0] ?? "";
  const probe = Object.hasOwn(probes, path) ? probes[path] : undefined;
  if (probe === undefined && path !== "/metrics") {
    send(response, 404, "there is /livez, /readyz, /healthz and /metrics\n");
  } else if (request.method !== "GET" && request.method !== "HEAD") {
    response.setHeader("allow", "GET, HEAD");
    send(response, 405, "only GET and HEAD\n");
  } else if (probe === undefined) {
    send(response, 200, await options.metrics.text(), options.metrics.contentType);
  } else {
    const { ok, why } = probe();
    send(response, ok ? 200 : 503, `${why.replace(/\s+/g, " ")}\n`);
  }
}

function send(
  response: ServerResponse,
  status: number,
  body: string,
  type = "text/plain; charset=utf-8",
): void {
  response.writeHead(status, {
    "content-type": type,
    "content-length": Buffer.byteLength(body),
    "cache-control": "no-store",
  });
  response.end(body);
}

function listen(server: Server, address: string, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once("error", (error: NodeJS.ErrnoException) =>
      reject(new ConfigurationFaults([cannotListen(error.code, address, port)])),
    );
    server.listen({ host: address, port }, resolve);
  });
}

function cannotListen(code: string | undefined, address: string, port: number): string {
  switch (code) {
    case "EADDRINUSE":
      return `--http-port: ${port} on ${address} is in use by another program; choose another, or 0 to turn it off.`;
    case "EACCES":
      return `--http-port: ${port} is not open to this user; choose one above 1023, or 0 to turn it off.`;
    default:
      return `--http-address: "${address}" cannot be listened on (${code ?? "no reason given"}); give an address of this computer such as 127.0.0.1 or 0.0.0.0.`;
  }
}

/** Idle connections end now; one in the middle of an answer gets a moment. */
function close(server: Server): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(() => server.closeAllConnections(), CLOSE_GRACE_MS);
    server.close(() => {
      clearTimeout(timer);
      resolve();
    });
    server.closeIdleConnections();
  });
}
