import { spawn } from "node:child_process";
import { once } from "node:events";
import { describe, expect, it } from "vitest";

const module = new URL("../../dist/src/cli/signals.js", import.meta.url).href;
const program = `
  const { catchSignals } = await import(${JSON.stringify(module)});
  const { stop, stopNow } = catchSignals();
  stop.addEventListener("abort", () => console.log("stop: " + stop.reason.message));
  stopNow.addEventListener("abort", () => console.log("stop now: " + stopNow.reason.message));
  setTimeout(() => {}, 20_000);
  console.log("waiting");`;

describe("signals", () => {
  it("ask for an end, then for one at once; the third is not caught", async () => {
    const child = spawn(process.execPath, ["--input-type=module", "-e", program], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    const said: string[] = [];
    const line = () => once(child.stdout, "data").then(([data]) => said.push(String(data).trim()));
    await line();
    for (const signal of ["SIGTERM", "SIGINT"] as const) {
      const answer = line();
      child.kill(signal);
      await answer;
    }
    child.kill("SIGTERM");
    const [, signal] = await once(child, "exit");
    expect(said).toEqual(["waiting", "stop: received SIGTERM", "stop now: received SIGINT"]);
    expect(signal).toBe("SIGTERM");
  });
});
