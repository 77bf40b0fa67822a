import { expect, it } from "vitest";
import { sshAddress } from "../../src/config/ssh-address.js";

it.each([
  ["10.0.7.12", "10.0.7.12", null],
  ["10.0.7.12:2222", "10.0.7.12", 2222],
  ["2001:db8::7", "2001:db8::7", null],
  ["[2001:db8::7]", "2001:db8::7", null],
  ["[2001:db8::7]:65535", "2001:db8::7", 65_535],
])("%s is an address with or without a port", (text, address, port) => {
  expect(sshAddress(text)).toEqual({ address, port });
});

it.each([
  "",
  "machine.example",
  "machine.example:22",
  "10.0.7",
  "10.0.7.12:",
  "10.0.7.12:0",
  "10.0.7.12:65536",
  "10.0.7.12:22:22",
  "[10.0.7.12]:22",
  "[2001:db8::7",
  "[]:22",
  "root@10.0.7.12",
  " 10.0.7.12",
])("%j is none", (text) => {
  expect(() => sshAddress(text)).toThrow("is not an IP address");
});
