import { describe, expect, it } from "vitest";
import { databaseLabel, databaseUrl } from "../../src/config/database-url.js";

const SECRET = "hunter2";

describe("a database URL", () => {
  it.each([
    "postgres://db",
    "postgres://takeover:hunter2@db.example:5432/bmdb",
    "postgresql://takeover@[::1]:5433/bmdb?sslmode=require",
    "postgres:///bmdb?host=/var/run/postgresql",
    "postgres://takeover@/bmdb?host=/var/run/postgresql",
    "postgres://%2Fvar%2Frun%2Fpostgresql/bmdb",
    "postgres://u:p%40ss%2Fword%23@db/x",
  ])("may be %s", (url) => {
    expect(databaseUrl(url)).toBe(url);
  });

  it.each([
    ["", "is not a Postgres URL"],
    ["db.example", "is not a Postgres URL"],
    ["host=db user=x password=hunter2", "is not a Postgres URL"],
    ["mysql://u:hunter2@db/x", "is not a Postgres URL"],
    ["http://u:hunter2@db/x", "is not a Postgres URL"],
    ["postgres://", "names no host"],
    ["postgres:///bmdb", "names no host"],
    ["postgres://u:hunter2@/bmdb", "names no host"],
    ["postgres://u:hunter2@db:port/x", "is not a valid URL"],
    ["postgres://u:hunter2@db:99999/x", "is not a valid URL"],
    ["postgres://u:hunter2#@db/x", "is not a valid URL"],
    ["postgres://u:hunter2/@db/x", "is not a valid URL"],
    ["postgres://u:1/hunter2@db/x", "is not escaped"],
    ["postgres://u:1#hunter2@db/x", "is not escaped"],
    ["postgres://u:100%hunter2@db/x", "% that escapes nothing"],
    ["postgres://u:hunter2@db1,db2/x", "names several hosts"],
    ["postgres://u:hunter2@db/x\n", "white space"],
    ["postgres://u:hunter2@db/x?sslrootcert=/nowhere/ca.pem", "sslrootcert that does not exist"],
  ])("%j: %s, and no part of it is quoted", (url, problem) => {
    const told = thrownBy(() => databaseUrl(url));
    expect(told).toContain(problem);
    expect(told).not.toContain(SECRET);
  });

  it("is shown without its password", () => {
    expect(databaseLabel("postgres://takeover:hunter2@db.example:5432/bmdb")).toBe(
      "takeover@db.example:5432/bmdb",
    );
    expect(databaseLabel("postgres:///bmdb?host=/run/pg")).toBe("/run/pg/bmdb");
  });
});

function thrownBy(act: () => unknown): string {
  try {
    act();
  } catch (error) {
    return `${error instanceof Error ? error.message : ""}; ${JSON.stringify(error)}`;
  }
  return "nothing";
}
