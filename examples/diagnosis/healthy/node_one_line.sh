# node -e with one line.
node -e 'console.log(require("os").cpus().length)'
