import { describe, expect, it } from "vitest";
import { fromHash, INITIAL, toHash } from "../src/app/address";

describe("the part of the trail in the address", () => {
  it("keeps nanoseconds that a number would lose", () => {
    const part = "1795880971757738981-1795880983518157848";
    expect(fromHash(`#${toHash({ ...INITIAL, view: "io", part })}`)).toEqual({
      ...INITIAL,
      view: "io",
      part,
    });
  });

  it("is none if it makes no sense", () => {
    for (const part of ["", "5", "5-", "a-b", "-1-5", "1-2-3", `1-${"9".repeat(20)}`]) {
      expect(fromHash(`#view=io&part=${part}`).part).toBeNull();
    }
  });
});
