import { describe, expect, it } from "vitest";
import { bytes, count, exact, moment, plain, share, time } from "../src/format/units";

describe("numbers for people", () => {
  it("has three significant digits and SI units for time", () => {
    expect(time(null)).toBe("–");
    expect(time(0)).toBe("0 s");
    expect(time(7)).toBe("7 ns");
    expect(time(1234)).toBe("1.23 µs");
    expect(time(999_999)).toBe("1.00 ms");
    expect(time(15_300_000)).toBe("15.3 ms");
    expect(time(120_000_000_000)).toBe("120 s");
    expect(time(3_725_000_000_000)).toBe("1 h 02 min");
    expect(time(661_000_000_000)).toBe("11 min 01 s");
  });

  it("has IEC units for bytes", () => {
    expect(bytes(1023)).toBe("1023 B");
    expect(bytes(1024)).toBe("1.00 KiB");
    expect(bytes(1_048_575)).toBe("1.00 MiB");
    expect(bytes(86.9 * 1024 * 1024)).toBe("86.9 MiB");
  });

  it("has SI units for counts", () => {
    expect(count(999)).toBe("999");
    expect(count(1500)).toBe("1.50 k");
    expect(count(999_999)).toBe("1.00 M");
    expect(exact(1_234_567)).toBe("1,234,567");
  });

  it("writes ticks of an axis in one unit", () => {
    expect(moment(1.5e9, 5e8)).toBe("1.5 s");
    expect(moment(0, 5e9)).toBe("0 s");
    expect(moment(-1, 1e9)).toBe("0 s");
    expect(moment(7_907_000_000, 2e7)).toBe("7.91 s");
    expect(moment(250_000, 1e4)).toBe("0.25 ms");
    expect(moment(1_000, 100)).toBe("1.0 µs");
    expect([0, 2.5e9, 5e9].map((ns) => moment(ns, 2.5e9))).toEqual(["0.0 s", "2.5 s", "5.0 s"]);
    expect(moment(75_000_000, 2.5e7)).toBe("0.075 s");
  });

  it("says small shares without claiming nothing", () => {
    expect(share(0, 10)).toBe("0.0 %");
    expect(share(1, 100_000)).toBe("< 0.1 %");
    expect(share(1, 0)).toBe("–");
    expect(plain(5)).toBe("5");
    expect(plain(0.5)).toBe("0.5");
  });
});
