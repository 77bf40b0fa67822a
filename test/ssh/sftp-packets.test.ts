import { describe, expect, it } from "vitest";
import { handleIn, REPLY, statusOf } from "../../src/ssh/sftp-packets.js";

/** A reply to request 7, whose content may be anything. */
const reply = (type: number, ...content: number[]) => Buffer.from([type, 0, 0, 0, 7, ...content]);

describe("a reply of an SFTP server", () => {
  it("names the open file", () => {
    expect(handleIn(reply(REPLY.HANDLE, 0, 0, 0, 2, 0x68, 0x69))?.toString()).toBe("hi");
  });

  it.each([
    ["is a handle that is cut short", reply(REPLY.HANDLE)],
    ["is a handle whose length is cut short", reply(REPLY.HANDLE, 0, 0, 0)],
    ["is a status that is cut short", reply(REPLY.STATUS, 0, 0)],
    ["is of a type that does not belong", reply(104, 0, 0, 0, 0)],
    ["is nothing at all", Buffer.alloc(0)],
  ])("is a refusal, and no error of another kind, where it %s", (_what, packet) => {
    expect(handleIn(packet)).toBeUndefined();
    expect(statusOf(packet).message).toContain("where a status belongs");
  });

  it("is a status also where its text is cut short", () => {
    expect(statusOf(reply(REPLY.STATUS, 0, 0, 0, 4, 0, 0, 1, 0, 0x6e, 0x6f)).message).toBe(
      'SFTP says "no" (4)',
    );
  });
});
