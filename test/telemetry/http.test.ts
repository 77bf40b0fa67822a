import { Agent, get, request } from "node:http";
import { connect } from "node:net";
import { afterEach, describe, expect, it } from "vitest";
import { ConfigurationFaults } from "../../src/config/exit.js";
import { type Health, type HttpServer, startHttpServer } from "../../src/telemetry/http.js";
import { createMetrics } from "../../src/telemetry/metrics.js";

const servers: HttpServer[] = [];
afterEach(async () => {
  await Promise.all(servers.splice(0).map((server) => server.close()));
});

async function start(health: { live?: Health; ready?: Health } = {}): Promise<HttpServer> {
  const server = await startHttpServer({
    address: "127.0.0.1",
    port: 0,
    live: () => health.live ?? { ok: true, why: "polled 1 s ago" },
    ready: () => health.ready ?? { ok: false, why: "the database\nis away" },
    metrics: createMetrics({ providers: ["static"], version: "1.2.3" }),
  });
  servers.push(server);
  return server;
}

interface Answer {
  status: number | undefined;
  type: string | undefined;
  body: string;
}

function ask(server: HttpServer, path: string, method = "GET", agent?: Agent): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const options = {
      port: server.port,
      host: "127.0.0.1",
      path,
      method,
      timeout: 5000,
      ...(agent ? { agent } : {}),
    };
    request(options, (response) => {
      let body = "";
      response.on("data", (chunk) => {
        body += chunk;
      });
      response.on("end", () =>
        resolve({ status: response.statusCode, type: response.headers["content-type"], body }),
      );
    })
      .on("error", reject)
      .end();
  });
}

describe("the HTTP server", () => {
  it("tells in one line whether the worker lives and is ready", async () => {
    const server = await start();
    expect(await ask(server, "/livez")).toMatchObject({ status: 200, body: "polled 1 s ago\n" });
    const ready = await ask(server, "/readyz?verbose");
    expect(ready).toMatchObject({ status: 503, body: "the database is away\n" });
    expect(await ask(server, "/healthz")).toEqual(ready);
  });

  it("serves metrics in Prometheus' format", async () => {
    const answer = await ask(await start(), "/metrics");
    expect(answer.status).toBe(200);
    expect(answer.type).toMatch(/^text\/plain; version=0\.0\.4/);
    expect(answer.body).toContain("takeover_attempts_running 0");
  });

  it("answers HEAD without a body", async () => {
    expect(await ask(await start(), "/livez", "HEAD")).toMatchObject({ status: 200, body: "" });
  });

  it.each(["/", "/metrics/", "/__proto__", "/constructor", "//livez", "/livez%00"])(
    "has nothing at %s",
    async (path) => {
      expect((await ask(await start(), path)).status).toBe(404);
    },
  );

  it.each(["POST", "DELETE", "PUT"])("does not do %s", async (method) => {
    expect((await ask(await start(), "/metrics", method)).status).toBe(405);
  });

  it("goes on when metrics cannot be gathered", async () => {
    const metrics = createMetrics({ providers: [], version: "1" });
    metrics.onScrape(() => {
      throw new Error("bug");
    });
    const ok = () => ({ ok: true, why: "fine" });
    const server = await startHttpServer({
      address: "127.0.0.1",
      port: 0,
      live: ok,
      ready: ok,
      metrics,
    });
    servers.push(server);
    expect((await ask(server, "/metrics")).status).toBe(500);
    expect((await ask(server, "/livez")).status).toBe(200);
  });

  it("names the option when its port is taken", async () => {
    const { port } = await start();
    await expect(
      startHttpServer({
        address: "127.0.0.1",
        port,
        live: () => ({ ok: true, why: "" }),
        ready: () => ({ ok: true, why: "" }),
        metrics: createMetrics({ providers: [], version: "1" }),
      }),
    ).rejects.toThrow(
      new ConfigurationFaults([
        `--http-port: ${port} on 127.0.0.1 is in use by another program; choose another, or 0 to turn it off.`,
      ]),
    );
  });

  it.each(["192.0.2.1", "no-such-host.invalid"])(
    "names the option when it cannot be %s",
    async (address) => {
      await expect(
        startHttpServer({
          address,
          port: 0,
          live: () => ({ ok: true, why: "" }),
          ready: () => ({ ok: true, why: "" }),
          metrics: createMetrics({ providers: [], version: "1" }),
        }),
      ).rejects.toThrow(/^--http-address: ".*" cannot be listened on/);
    },
  );

  it("ends a client that never finishes its request", async () => {
    const { port } = await start();
    const began = Date.now();
    const answer = await new Promise<string>((resolve) => {
      let text = "";
      const socket = connect(port, "127.0.0.1", () => socket.write("GET /livez HTTP/1.1\r\n"));
      socket.on("data", (chunk) => {
        text += chunk;
      });
      socket.on("close", () => resolve(text));
    });
    expect(answer).toContain("408");
    expect(Date.now() - began).toBeLessThan(10_000);
  });

  it("refuses headers without end", async () => {
    const { port } = await start();
    const status = await new Promise<number | undefined>((resolve, reject) => {
      const headers = { "x-long": "x".repeat(10_000) };
      get({ port, host: "127.0.0.1", path: "/livez", headers }, (response) => {
        response.resume();
        resolve(response.statusCode);
      }).on("error", reject);
    });
    expect(status).toBe(431);
  });

  it("closes within a second, whatever connections are open", async () => {
    const server = await start();
    const agent = new Agent({ keepAlive: true });
    await ask(server, "/livez", "GET", agent);
    const half = connect(server.port, "127.0.0.1", () => half.write("GET /livez HTTP/1.1\r\n"));
    await new Promise((resolve) => half.once("connect", resolve));
    const began = Date.now();
    await server.close();
    expect(Date.now() - began).toBeLessThan(1000);
    half.destroy();
    agent.destroy();
    await expect(ask(server, "/livez")).rejects.toThrow("ECONNREFUSED");
  });
});
