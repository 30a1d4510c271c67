// Viridis (van der Walt and Smith, matplotlib 2.0): perceptually uniform, distinct with each colour
// vision deficiency and in grey. Sixteen of its colours; between them RGB is interpolated.

const STOPS = [
  0x440154, 0x481a6c, 0x472f7d, 0x414487, 0x39568c, 0x31688e, 0x2a788e, 0x23888e, 0x1f988b, 0x22a884,
  0x35b779, 0x54c568, 0x7ad151, 0xa5db36, 0xd2e21b, 0xfde725,
];

/** The colour of a share between 0 and 1. `reversed` puts the light end at 0, for light backgrounds. */
export function viridis(share: number, reversed: boolean): string {
  const clamped = Math.max(0, Math.min(1, share));
  const at = (reversed ? 1 - clamped : clamped) * (STOPS.length - 1);
  const low = Math.min(Math.floor(at), STOPS.length - 2);
  const part = at - low;
  const channel = (shift: number) => {
    const a = (STOPS[low] >> shift) & 255;
    const b = (STOPS[low + 1] >> shift) & 255;
    return Math.round(a + (b - a) * part);
  };
  return `rgb(${channel(16)} ${channel(8)} ${channel(0)})`;
}
