// Node.js that asks a slow HTTP service again and again.
// cause: slow_peer
// where: socket
// held: yes
const http = require("http");
const { fork } = require("child_process");
if (process.argv[2] === "serve") {
  const server = http.createServer((request, response) => setTimeout(() => response.end("yes"), 40));
  server.listen(0, "127.0.0.1", () => process.send(server.address().port));
  process.on("disconnect", () => process.exit());
} else {
  const child = fork(__filename, ["serve"]);
  child.on("message", (port) => {
    let left = 50;
    const ask = () => {
      if (left-- === 0) return child.disconnect();
      http.get({ port, host: "127.0.0.1" }, (response) => response.resume().on("end", ask));
    };
    ask();
  });
}
