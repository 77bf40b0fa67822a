/**
 * Imports run one way, from the command line down to the errors:
 *
 *   main → cli → demo → worker → tasks → takeover → providers, ssh → bmdb → config, telemetry → errors, backoff
 *
 * Each layer may import any layer below it. A reader can then open the files from the bottom up and never
 * meet a name that is explained further on.
 */
const layers = [
  "^src/main\\.ts$",
  "^src/cli/",
  "^src/demo/",
  "^src/worker/",
  "^tasks/",
  "^src/takeover/",
  "^src/(providers|ssh)/",
  "^src/bmdb/",
  "^src/(config|telemetry)/",
  "^src/(errors|backoff)\\.ts$",
];

const downwards = layers.slice(1).map((layer, index) => ({
  name: `no-import-upwards-from-layer-${index + 1}`,
  comment: "Imports point from the command line to the errors, never back.",
  severity: "error",
  from: { path: layer },
  to: { path: layers.slice(0, index + 1).join("|") },
}));

/** A package and the only places that may import it. */
const kept = (name, places, why) => ({
  name: `${name}-stays-in-its-place`,
  comment: why,
  severity: "error",
  from: { pathNot: places },
  to: { path: `node_modules/(@types/)?${name}/` },
});

module.exports = {
  forbidden: [
    ...downwards,
    {
      name: "no-circles",
      comment: "A circle has no bottom to start reading from.",
      severity: "error",
      from: {},
      to: { circular: true },
    },
    {
      name: "the-steps-know-no-database",
      comment:
        "The pipeline works on a machine; only tasks/ joins it to the queue and the database.",
      severity: "error",
      from: { path: "^src/(takeover|providers|ssh)/" },
      to: { path: "^src/bmdb/" },
    },
    {
      name: "every-import-resolves",
      comment: "An import the checker cannot follow is an import it cannot judge.",
      severity: "error",
      from: {},
      to: { couldNotResolve: true },
    },
    {
      name: "no-orphans",
      comment: "A file nobody imports is dead.",
      severity: "error",
      from: { orphan: true, pathNot: ["^src/main\\.ts$"] },
      to: {},
    },
    kept("ssh2", "^src/(ssh|demo)/", "src/ssh is the one seam to SSH; the fleet is its other end."),
    kept("pg", "^src/(bmdb|worker)/", "SQL is written in src/bmdb; the worker makes the pools."),
    kept(
      "graphile-worker",
      "^(src/worker|tasks)/",
      "The queue meets the takeover in tasks/ alone.",
    ),
    kept("protobufjs", "^(src/takeover|proto)/", "The wire format is the pipeline's business."),
    kept(
      "(pino|prom-client)",
      "^src/telemetry/",
      "Telemetry is an interface; its packages are a detail.",
    ),
  ],
  options: {
    tsConfig: { fileName: "tsconfig.json" },
    tsPreCompilationDeps: true,
    doNotFollow: { path: "node_modules" },
    enhancedResolveOptions: {
      exportsFields: ["exports"],
      conditionNames: ["import", "types", "node", "default"],
    },
  },
};
