import { afterEach, expect, test } from "vitest";
import { createPools } from "../../src/bmdb/pools.js";
import { type TcpPeer, tcpPeer } from "../support/tcp-peer.js";
import { within } from "../support/wait.js";

let silent: TcpPeer;
afterEach(() => silent.stop());

test("a server that takes connections and says nothing is given up on, with a code that the queue retries", async () => {
  silent = await tcpPeer(() => {});
  const pools = createPools({
    databaseUrl: `postgres://nobody:secret@127.0.0.1:${silent.port}/none`,
    concurrency: 1,
    onError: () => {},
  });
  const failureOf = (query: Promise<unknown>) =>
    query.then(
      () => undefined,
      (error: unknown) => error,
    );
  const [inTransactions, inQueue] = await within(
    "both pools give up",
    12_000,
    Promise.all([
      failureOf(pools.transactions.query("select")),
      failureOf(pools.queue.query("select")),
    ]),
  );
  expect(inTransactions).toMatchObject({ message: expect.stringMatching(/timeout/) });
  expect(inQueue).toMatchObject({
    code: "ETIMEDOUT",
    message: "the server took no connection within 10 s",
  });
  await within("the pools end", 5_000, pools.end());
}, 20_000);
