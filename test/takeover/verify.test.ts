import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { takeover } from "#proto/takeover";
import { TakeoverError } from "../../src/errors.js";
import { encodeInit, type TakeoverInit } from "../../src/takeover/init.js";
import type { AgentReply } from "../../src/takeover/run-agent.js";
import { verify } from "../../src/takeover/verify.js";
import { freshPublicKey } from "../support/agents.js";
import { failureOf } from "../support/rejection.js";
import { never } from "../support/takeover-scene.js";
import { message, varint, type WireField } from "../support/wire.js";

const INIT: TakeoverInit = {
  provider: "static",
  providerId: "machine-1",
  bmaasEndpoint: "https://bmdb.example:4443",
  machineId: "8a0a2d2a-9d5e-4f4e-9f0a-0c1d2e3f4a5b",
  caCertificate: Buffer.from("certificate"),
  nonce: Buffer.from("0123456789abcdef"),
};
const KEY = freshPublicKey();

const initFields = (init: TakeoverInit = INIT): WireField[] => [
  { number: 1, content: Buffer.from(init.provider) },
  { number: 2, content: Buffer.from(init.providerId) },
  { number: 3, content: Buffer.from(init.bmaasEndpoint) },
  { number: 4, content: Buffer.from(init.machineId) },
  { number: 5, content: init.caCertificate },
  { number: 6, content: init.nonce },
];
const replyFields = (init: Uint8Array = message(initFields())): WireField[] => [
  { number: 1, content: init },
  { number: 2, content: KEY },
];

const judge = (
  bytes: Uint8Array,
  { first = false, ...reply }: Partial<AgentReply> & { first?: boolean } = {},
) =>
  verify(
    { reply: { bytes, stderr: "", cutShort: null, ...reply }, init: INIT },
    { acceptFirstGenerationAgents: first },
    never(),
  );
const failure = (bytes: Uint8Array, options?: Parameters<typeof judge>[1]) =>
  failureOf(judge(bytes, options));

describe("a reply is accepted", () => {
  it("in the encoding that generated code makes", async () => {
    const bytes = takeover.TakeoverResponse.encode({
      initMessage: takeover.TakeoverInit.decode(encodeInit(INIT)),
      key: KEY,
      warning: ["low on disk", "old kernel"],
    }).finish();
    const { agentKey, warnings } = await judge(bytes);
    expect(Buffer.from(agentKey)).toEqual(KEY);
    expect(warnings).toEqual(["low on disk", "old kernel"]);
  });

  it("in every order of fields, with varints of any length and defaults written out", async () => {
    const padded = (field: WireField) =>
      fc
        .tuple(fc.nat(4), fc.nat(5))
        .map(([tagPadding, lengthPadding]) => ({ ...field, tagPadding, lengthPadding }));
    const shuffled = (fields: WireField[]) =>
      fc
        .tuple(...fields.map(padded))
        .chain((all) => fc.shuffledSubarray(all, { minLength: all.length }));
    const reply = shuffled(initFields()).chain((init) =>
      fc
        .tuple(fc.array(fc.string({ unit: "binary" }), { maxLength: 3 }), fc.boolean())
        .chain(([warnings, emptyError]) =>
          shuffled([
            ...replyFields(message(init)),
            ...warnings.map((text) => ({ number: 3, content: Buffer.from(text) })),
            ...(emptyError ? [{ number: 4, content: new Uint8Array() }] : []),
          ]),
        ),
    );
    await fc.assert(
      fc.asyncProperty(reply, async (fields) => {
        const { agentKey } = await judge(message(fields));
        expect(Buffer.from(agentKey)).toEqual(KEY);
      }),
    );
  });

  it("without the fields that were sent empty", async () => {
    const init = { ...INIT, caCertificate: new Uint8Array() };
    const echo = message(initFields(init).filter(({ content }) => content.length > 0));
    const reply: AgentReply = { bytes: message(replyFields(echo)), stderr: "", cutShort: null };
    const settings = { acceptFirstGenerationAgents: false };
    await expect(verify({ reply, init }, settings, never())).resolves.toBeDefined();
  });

  it("of a first-generation agent where the worker is told to, and then only", async () => {
    const bytes = message(replyFields(message(initFields().slice(0, 3))));
    await expect(judge(bytes, { first: true })).resolves.toBeDefined();
    const refused = await failure(bytes);
    expect(refused.code).toBe("TAKEOVER_VERIFY_INIT_MISMATCH");
    expect(refused.message).toContain("--accept-first-generation-agents");
  });

  it("complete, though the connection was lost behind it", async () => {
    const cutShort = new TakeoverError("TAKEOVER_RUN_AGENT_CONNECTION_LOST", "lost");
    await expect(judge(message(replyFields()), { cutShort })).resolves.toBeDefined();
    expect(await failure(message(replyFields()).subarray(0, 50), { cutShort })).toBe(cutShort);
    expect(await failure(new Uint8Array(), { cutShort })).toBe(cutShort);
  });
});

describe("a reply is refused", () => {
  const refused = async (bytes: Uint8Array, code: string, text: string | RegExp) => {
    const error = await failure(bytes);
    expect(error.code).toBe(`TAKEOVER_VERIFY_${code}`);
    expect(error.message).toMatch(text);
  };

  it("where there is none, with the end of standard error", async () => {
    const error = await failure(new Uint8Array(), { stderr: "no endpoint" });
    expect(error.code).toBe("TAKEOVER_VERIFY_NO_REPLY");
    expect(error.message).toContain("no endpoint");
  });

  it("where it is rubbish, showing its beginning", () =>
    refused(Buffer.from("command not found"), "UNDECODABLE", 'begins "command not found"'));

  it("with an unknown field, in it or in the init", async () => {
    const unknown = { number: 7, content: Buffer.from("x") };
    await refused(message([...replyFields(), unknown]), "UNDECODABLE", "field 7");
    const init = message([...initFields(), unknown]);
    await refused(message(replyFields(init)), "UNDECODABLE", "field 7");
  });

  it.each([0, 1, 5])("with a field of wire type %i", (wireType) =>
    refused(
      message([...replyFields(), { number: 3, content: Buffer.alloc(8), wireType }]),
      "UNDECODABLE",
      `wire type ${wireType}`,
    ),
  );

  it("with field number 0", () =>
    refused(message([...replyFields(), { number: 0, content: KEY }]), "UNDECODABLE", "field 0"));

  it("with the init or the key twice, as concatenated messages have them", async () => {
    const twice = [...replyFields(), ...replyFields()];
    await refused(message(twice), "UNDECODABLE", "init_message occurs twice");
    const [init, key] = replyFields() as [WireField, WireField];
    await refused(message([init, key, key]), "UNDECODABLE", "key occurs twice");
    await refused(
      message(replyFields(message([...initFields(), ...initFields()]))),
      "UNDECODABLE",
      "provider occurs twice",
    );
  });

  it("without an init, or without a key", async () => {
    const [init, key] = replyFields() as [WireField, WireField];
    await refused(message([key]), "UNDECODABLE", "no init_message");
    await refused(message([init]), "KEY_INVALID", "no key");
  });

  it("with text that is not UTF-8", () =>
    refused(
      message([...replyFields(), { number: 3, content: Buffer.from([0xff]) }]),
      "UNDECODABLE",
      "warning is not UTF-8",
    ));

  it("with numbers that do not fit or never end", async () => {
    const over = Buffer.concat([message(replyFields()), varint(2 ** 35 + 26), varint(0)]);
    await refused(over, "UNDECODABLE", "too large");
    const endless = Buffer.concat([message(replyFields()), Buffer.alloc(20, 0xff)]);
    await refused(endless, "UNDECODABLE", "without end");
  });

  it("with an error, which becomes the cause, cleaned", async () => {
    const content = Buffer.from("no disk\u0000\n\u202efound");
    await refused(
      message([{ number: 4, content }]),
      "AGENT_ERROR",
      /^the agent could not start: no disk found$/,
    );
  });

  it.each([
    ["another machine", { machineId: "b1" }, "machine_id differs; it answers for another machine"],
    ["another machine", { providerId: "m-2" }, "provider_id differs; it answers for another"],
    ["an earlier attempt", { nonce: Buffer.alloc(16) }, "nonce differs; it answers an earlier"],
    ["another endpoint", { bmaasEndpoint: "x" }, "bmaas_endpoint differs"],
    ["another certificate", { caCertificate: Buffer.alloc(1) }, "ca_certificate differs"],
    ["an init without nonce", { nonce: Buffer.alloc(0) }, "nonce differs"],
  ])("that echoes the init of %s", (_what, change, text) =>
    refused(
      message(replyFields(message(initFields({ ...INIT, ...change })))),
      "INIT_MISMATCH",
      text,
    ),
  );

  it("that echoes fewer than the first three fields, also under --accept-first-generation-agents", async () => {
    const bytes = message(replyFields(message(initFields().slice(0, 2))));
    expect((await failure(bytes, { first: true })).code).toBe("TAKEOVER_VERIFY_INIT_MISMATCH");
    const withMachine = message(replyFields(message(initFields().slice(0, 4))));
    expect((await failure(withMachine, { first: true })).code).toBe(
      "TAKEOVER_VERIFY_INIT_MISMATCH",
    );
  });

  const withKey = (key: Uint8Array) =>
    message([...replyFields().slice(0, 1), { number: 2, content: key }]);
  const hex = (text: string) => Buffer.from(text, "hex");

  it.each([0, 31, 33])("with a key of %i bytes", (length) =>
    refused(
      withKey(
        KEY.subarray(0, length).length === length
          ? KEY.subarray(0, length)
          : Buffer.alloc(length, 1),
      ),
      "KEY_INVALID",
      `${length} bytes`,
    ),
  );

  it.each([
    // y = 2 has no x on the curve.
    ["no point", "0200000000000000000000000000000000000000000000000000000000000000"],
    // y = p: RFC 8032 decodes only what is below p.
    ["a number not reduced", "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f"],
    ["a number not reduced", "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f"],
    // x = 0 has no sign.
    ["a sign of zero", "0100000000000000000000000000000000000000000000000000000000000080"],
  ])("with a key that is %s", (_what, bytes) =>
    refused(withKey(hex(bytes)), "KEY_INVALID", "no point of the curve"),
  );

  it.each([
    "0100000000000000000000000000000000000000000000000000000000000000",
    "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "0000000000000000000000000000000000000000000000000000000000000000",
    "0000000000000000000000000000000000000000000000000000000000000080",
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
  ])("with a key of small order: %s", (bytes) =>
    refused(withKey(hex(bytes)), "KEY_INVALID", "small order"),
  );

  it("after any cut, and after any change of a byte that matters", async () => {
    const bytes = message(replyFields());
    const keyAt = bytes.indexOf(KEY);
    for (let length = 0; length < bytes.length; length++) {
      expect((await failure(bytes.subarray(0, length))).step).toBe("verify");
    }
    await fc.assert(
      fc.asyncProperty(
        fc.nat(bytes.length - 1),
        fc.integer({ min: 1, max: 255 }),
        async (at, flip) => {
          fc.pre(at < keyAt || at >= keyAt + KEY.length);
          const changed = Buffer.from(bytes);
          changed[at] = (changed[at] ?? 0) ^ flip;
          expect((await failure(changed)).step).toBe("verify");
        },
      ),
    );
  });

  it("or a different key comes out, after a change within the key", async () => {
    const bytes = message(replyFields());
    const keyAt = bytes.indexOf(KEY);
    for (let bit = 0; bit < 256; bit++) {
      const changed = Buffer.from(bytes);
      const at = keyAt + (bit >> 3);
      changed[at] = (changed[at] ?? 0) ^ (1 << (bit & 7));
      const outcome = await judge(changed).catch((error: unknown) => error);
      expect(outcome instanceof TakeoverError || !KEY.equals(agentKeyOf(outcome))).toBe(true);
    }
  });

  it("whatever bytes come, by a TakeoverError of this step and nothing else", async () => {
    await fc.assert(
      fc.asyncProperty(fc.uint8Array({ maxLength: 300 }), async (bytes) => {
        expect((await failure(bytes)).step).toBe("verify");
      }),
    );
  });
});

const agentKeyOf = (outcome: unknown): Uint8Array =>
  typeof outcome === "object" && outcome !== null && "agentKey" in outcome
    ? (outcome.agentKey as Uint8Array)
    : new Uint8Array();

describe("warnings", () => {
  const warned = async (...warnings: string[]) =>
    (
      await judge(
        message([
          ...replyFields(),
          ...warnings.map((text) => ({ number: 3, content: Buffer.from(text) })),
        ]),
      )
    ).warnings;

  it("are cleaned, shortened, and bounded in number", async () => {
    expect(await warned("a\u0000b\nc", "x".repeat(5000))).toEqual(["a b c", `${"x".repeat(499)}…`]);
    const many = await warned(...Array.from({ length: 100 }, (_, index) => `w${index}`));
    expect(many).toHaveLength(21);
    expect(many.at(-1)).toBe("80 more warnings were left out");
  });
});
