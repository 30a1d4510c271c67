// Builds the I/O report as one HTML file without any reference to another: it must open from file://
// on a machine without network. Python puts the data where report.html says so.

import { fileURLToPath } from "node:url";
import { defineConfig } from "vite";
import { viteSingleFile } from "vite-plugin-singlefile";

export default defineConfig({
  // Without it, vite would look for `public/` and an .env file; the page has neither.
  publicDir: false,
  plugins: [viteSingleFile({ removeViteModuleLoader: true })],
  build: {
    target: "es2022",
    outDir: fileURLToPath(new URL("../python/iotrail/_web", import.meta.url)),
    emptyOutDir: true,
    // Fonts become data: URLs.
    assetsInlineLimit: 1 << 20,
    rollupOptions: { input: fileURLToPath(new URL("report.html", import.meta.url)) },
  },
});
