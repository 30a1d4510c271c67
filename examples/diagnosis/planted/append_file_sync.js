// Node.js that appends to a file by name, which opens and closes it each time.
// cause: reopened_files
// where: events.log
// held: yes
const fs = require("fs");
for (let i = 0; i < 12000; i++) {
  fs.appendFileSync("events.log", `event ${i}\n`);
}
