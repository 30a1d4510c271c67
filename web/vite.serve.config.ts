// Builds the page of `iotrail serve`: files beside each other, which the server hands out. The report is built
// before (vite.config.ts), into the same folder.

import { fileURLToPath } from "node:url";
import { defineConfig } from "vite";

// `npm run dev -- -c vite.serve.config.ts` draws what a server on its default port knows.
const server = "127.0.0.1:8787";

export default defineConfig({
  publicDir: false,
  server: { proxy: { "/api": `http://${server}`, "/live": { target: `ws://${server}`, ws: true } } },
  worker: { format: "es" },
  build: {
    target: "es2022",
    outDir: fileURLToPath(new URL("../python/iotrail/_web", import.meta.url)),
    emptyOutDir: false,
    // pixi.js is most of it.
    chunkSizeWarningLimit: 1200,
    rollupOptions: { input: fileURLToPath(new URL("serve.html", import.meta.url)) },
  },
});
