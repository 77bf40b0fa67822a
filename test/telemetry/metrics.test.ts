import { describe, expect, it } from "vitest";
import { createMetrics } from "../../src/telemetry/metrics.js";

const create = () => createMetrics({ providers: ["static"], version: "1.2.3" });

/** The series of one metric, as text lines. */
async function series(metrics: { text(): Promise<string> }, name: string): Promise<string[]> {
  return (await metrics.text()).split("\n").filter((line) => line.startsWith(name));
}

describe("the metrics page", () => {
  it("has the documented names and labels", async () => {
    const metrics = create();
    metrics.onScrape(() => ({
      listenConnected: true,
      pools: { transactions: { totalCount: 1, idleCount: 1, waitingCount: 0 } },
    }));
    const names = new Map<string, string>();
    for (const line of (await metrics.text()).split("\n")) {
      const [, name, labels = ""] =
        /^(takeover_\w+?)(?:_bucket|_sum|_count)?(?:\{(.*)\})? /.exec(line) ?? [];
      if (name !== undefined && !line.includes('le="')) {
        names.set(name, [...labels.matchAll(/(\w+)="/g)].map((match) => match[1]).join());
      }
    }
    expect(Object.fromEntries(names)).toEqual({
      takeover_attempts_total: "provider,outcome",
      takeover_failures_total: "step,code",
      takeover_attempt_duration_seconds: "outcome",
      takeover_step_duration_seconds: "step",
      takeover_job_wait_seconds: "",
      takeover_attempts_running: "",
      takeover_attempt_slots: "",
      takeover_uploads_total: "result",
      takeover_upload_bytes_total: "",
      takeover_host_keys_total: "decision",
      takeover_jobs_reaped_total: "",
      takeover_keys_rescued_total: "",
      takeover_keys_lost_total: "",
      takeover_pool_connections: "pool,state",
      takeover_listen_connected: "",
      takeover_last_success_timestamp_seconds: "",
      takeover_build_info: "version,node",
    });
  });

  it("begins with every series of a small set at zero", async () => {
    const metrics = create();
    const attempts = await series(metrics, "takeover_attempts_total{");
    expect(attempts).toHaveLength(14);
    expect(attempts).toContain(
      'takeover_attempts_total{provider="static",outcome="already_started"} 0',
    );
    expect(await series(metrics, "takeover_failures_total{")).toContain(
      'takeover_failures_total{step="dial",code="TAKEOVER_DIAL_REFUSED"} 0',
    );
  });

  it("counts an attempt that started its agent", async () => {
    const metrics = create();
    metrics.setAttemptSlots(10);
    metrics.attemptStarted();
    metrics.attemptStarted();
    expect(await series(metrics, "takeover_attempts_running")).toEqual([
      "takeover_attempts_running 2",
    ]);
    metrics.attemptEnded({ provider: "static", outcome: "started", seconds: 3 });
    const text = await metrics.text();
    expect(text).toContain("takeover_attempts_running 1\n");
    expect(text).toContain("takeover_attempt_slots 10\n");
    expect(text).toContain('takeover_attempts_total{provider="static",outcome="started"} 1\n');
    expect(text).toContain('takeover_attempt_duration_seconds_bucket{le="5",outcome="started"} 1');
    expect(text).toContain('takeover_attempt_duration_seconds_bucket{le="2",outcome="started"} 0');
    const [last] = await series(metrics, "takeover_last_success_timestamp_seconds");
    expect(Math.abs(Number(last?.split(" ")[1]) - Date.now() / 1000)).toBeLessThan(60);
  });

  it("counts a failure by step and code, and an unknown provider as other", async () => {
    const metrics = create();
    metrics.attemptStarted();
    metrics.attemptEnded({
      provider: "from-a-row",
      outcome: "failed",
      seconds: 0.1,
      failure: { step: "dial", code: "TAKEOVER_DIAL_REFUSED" },
    });
    const text = await metrics.text();
    expect(text).toContain('takeover_attempts_total{provider="other",outcome="failed"} 1\n');
    expect(text).toContain('takeover_failures_total{step="dial",code="TAKEOVER_DIAL_REFUSED"} 1\n');
    expect(text).not.toContain("from-a-row");
    expect(text).toContain("takeover_last_success_timestamp_seconds 0\n");
  });

  it("counts steps, waits, uploads, host keys, reaped jobs and keys", async () => {
    const metrics = create();
    metrics.stepEnded("upload", 0.2);
    metrics.jobWaited(-0.5);
    metrics.uploadEnded({ result: "sent", bytes: 1000 });
    metrics.uploadEnded({ result: "skipped" });
    metrics.hostKeyDecided("new");
    metrics.jobsReaped(3);
    metrics.keyRescued();
    metrics.keyLost();
    const text = await metrics.text();
    for (const line of [
      'takeover_step_duration_seconds_bucket{le="0.25",step="upload"} 1',
      "takeover_job_wait_seconds_sum 0",
      'takeover_uploads_total{result="sent"} 1',
      'takeover_uploads_total{result="skipped"} 1',
      "takeover_upload_bytes_total 1000",
      'takeover_host_keys_total{decision="new"} 1',
      "takeover_jobs_reaped_total 3",
      "takeover_keys_rescued_total 1",
      "takeover_keys_lost_total 1",
    ]) {
      expect(text).toContain(`${line}\n`);
    }
  });

  it("asks for pools and the listening connection when it is read", async () => {
    const metrics = create();
    let idleCount = 3;
    metrics.onScrape(() => ({
      pools: { queue: { totalCount: 4, idleCount, waitingCount: 2 } },
      listenConnected: idleCount === 3,
    }));
    expect(await metrics.text()).toContain(
      'takeover_pool_connections{pool="queue",state="used"} 1\n',
    );
    idleCount = 0;
    const text = await metrics.text();
    expect(text).toContain('takeover_pool_connections{pool="queue",state="used"} 4\n');
    expect(text).toContain('takeover_pool_connections{pool="queue",state="waiting"} 2\n');
    expect(text).toContain("takeover_listen_connected 0\n");
  });

  it("belongs to its worker alone, and shows the process too", async () => {
    const [one, other] = [create(), create()];
    one.keyLost();
    expect(await other.text()).toContain("takeover_keys_lost_total 0\n");
    expect(await other.text()).toContain("process_cpu_seconds_total");
    expect(await other.text()).toContain('takeover_build_info{version="1.2.3",node="');
  });
});
