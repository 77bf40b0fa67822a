import { describe, expect, it } from "vitest";
import { readOptions } from "../../src/config/read-options.js";
import { WORKER_OPTIONS } from "../../src/config/worker-options.js";

const REQUIRED = {
  DATABASE_URL: "postgres://db/bmdb",
  TAKEOVER_AGENT_EXECUTABLE_PATH: "/agent",
  TAKEOVER_AGENT_ENDPOINT: "control.example:8443",
  TAKEOVER_SSH_KEY_PATH: "/key",
};

describe("the worker's options", () => {
  it("are those of the documented list, with its defaults", () => {
    const list = Object.values(WORKER_OPTIONS).map((option) => [
      option.flag,
      option.required ? "required" : option.fallback,
    ]);
    expect(Object.fromEntries(list)).toEqual({
      "--database-url": "required",
      "--agent-executable-path": "required",
      "--agent-target-path": "/root/agent",
      "--agent-endpoint": "required",
      "--agent-ca-certificate-path": null,
      "--ssh-key-path": "required",
      null: null,
      "--ssh-user": "root",
      "--host-key-policy": "accept-new",
      "--agent-ssh-connect-timeout": "2s",
      "--ssh-handshake-timeout": "15s",
      "--upload-stall-timeout": "15s",
      "--agent-ssh-exec-timeout": "60s",
      "--attempt-timeout": "15m",
      "--concurrency": "10",
      "--shutdown-grace": "30s",
      "--accept-first-generation-agents": null,
      "--history-retention": "90d",
      "--http-address": "127.0.0.1",
      "--http-port": "9464",
      "--log-level": "info",
    });
  });

  it("have valid defaults", () => {
    expect(readOptions(WORKER_OPTIONS, {}, REQUIRED).faults).toEqual([]);
  });

  it.each([
    ["--agent-target-path", "agent", "is not absolute"],
    ["--agent-target-path", "/root/", "names a folder"],
    ["--agent-target-path", "/root/..", "names a folder"],
    ["--agent-target-path", "/root/a\nb", "has a control character"],
    ["--agent-target-path", "/root/a\0b", "has a control character"],
    ["--agent-target-path", `/${"a".repeat(201)}`, "too long a file name"],
    ["--agent-endpoint", " ", "is empty"],
    ["--agent-endpoint", "a\tb", "has a control character"],
    ["--agent-endpoint", "a".repeat(1025), "is too long"],
    ["--ssh-user", "ro ot", "is not a user name"],
    ["--ssh-user", "-oProxyCommand=x", "is not a user name"],
    ["--ssh-user", "", "is not a user name"],
    ["--host-key-policy", "yolo", "is not a host key policy; choose one of accept-new, pinned"],
    ["--concurrency", "0", "is out of range; give a number from 1 to 1000"],
    ["--concurrency", "1001", "is out of range"],
    ["--concurrency", "ten", "is not a whole number"],
    ["--concurrency", "1.5", "is not a whole number"],
    ["--concurrency", "0x10", "is not a whole number"],
    ["--http-port", "65536", "is out of range"],
    ["--http-port", "-1", "is not a whole number"],
    ["--http-address", "127.0.0.1:80", "is neither an IP address nor a host name"],
    ["--log-level", "verbose", "is not a log level"],
    ["--attempt-timeout", "25d", "is too long"],
    ["--history-retention", "40000d", "is too long"],
    ["--shutdown-grace", "0s", "is zero"],
  ])("%s %j %s", (flag, value, problem) => {
    const { faults } = readOptions(WORKER_OPTIONS, { [flag]: value }, REQUIRED);
    expect(faults).toHaveLength(1);
    expect(faults[0]).toMatch(new RegExp(`^${flag}: ".*" `));
    expect(faults[0]).toContain(problem);
  });

  it.each([
    ["--ssh-user", "ubuntu"],
    ["--ssh-user", "CORP\\svc-takeover"],
    ["--ssh-user", "svc_1@corp.example"],
    ["--http-address", "::1"],
    ["--http-address", "localhost"],
    ["--http-port", "0"],
    ["--history-retention", "400d"],
    ["--agent-target-path", "/opt/my agent's/x"],
  ])("%s may be %s", (flag, value) => {
    expect(readOptions(WORKER_OPTIONS, { [flag]: value }, REQUIRED).faults).toEqual([]);
  });
});
